"""Everything about a training run that isn't data, network or method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

OPTIMIZERS = ("sgd", "adamw")
SCHEDULES = ("constant", "cosine", "step")
LOGGERS = ("tensorboard", "wandb", "mlflow")
PROGRESS = ("auto", "bar", "plain", "none")
SELECTIONS = ("best", "last")
SMALLER_IS_BETTER = ("nll", "ece", "brier", "aurc")
METRICS = ("accuracy", "f1_macro", "f1_weighted", *SMALLER_IS_BETTER)


@dataclass(frozen=True)
class Optimizer:
    """How weights follow their gradients.

    Args:
        name: ``sgd`` or ``adamw``. SGD is the reference: an adaptive optimizer divides out most of what a
            method that rescales gradients does.
        learning_rate: 2e-3, the rate of the common protocol for audio-visual networks trained from scratch.
        momentum: Momentum of ``sgd``; 0.9 in every published protocol. ``adamw`` reads ``betas`` instead.
        weight_decay: 1e-4, as published; it is the optimizer's own and is never rescaled by a method.
        betas: The two averaging rates of ``adamw``, PyTorch's own defaults.
    """

    name: str = "sgd"
    learning_rate: float = 2e-3
    momentum: float = 0.9
    weight_decay: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)

    def __post_init__(self) -> None:
        known("optimizer.name", self.name, OPTIMIZERS)
        at_least("optimizer.learning_rate", self.learning_rate, 0.0)
        at_least("optimizer.weight_decay", self.weight_decay, 0.0)


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes; a pure function of the step, so resuming needs no state.

    Args:
        name: ``constant`` (the published default), ``cosine`` (down to ``final``) or ``step``.
        warmup_epochs: Linear growth from 0 at the start, in epochs; 0 because the published protocols have none.
        every: ``step`` multiplies the rate by ``factor`` after each ``every`` epochs; 30 is MMPareto's.
        factor: See ``every``.
        final: The fraction of the rate that ``cosine`` ends on; 0 is the usual one.
    """

    name: str = "constant"
    warmup_epochs: float = 0.0
    every: int = 30
    factor: float = 0.1
    final: float = 0.0

    def __post_init__(self) -> None:
        known("schedule.name", self.name, SCHEDULES)
        at_least("schedule.warmup_epochs", self.warmup_epochs, 0.0)
        at_least("schedule.every", self.every, 1)


@dataclass(frozen=True)
class Selection:
    """Which epoch is reported. Only the validation set is ever consulted.

    Args:
        keep: ``best`` reports the epoch with the best validation ``metric`` (the earliest on a tie), ``last`` the
            final one. Without a validation set only ``last`` is honest, and ``best`` is refused.
        metric: A number of the validation evaluation: ``accuracy`` (as published), ``f1_macro``, ``f1_weighted``,
            ``nll``, ``ece``, ``brier`` or ``aurc``.
        patience: Stop after this many epochs without improvement; ``None`` trains all epochs, which is what the
            published protocols do.
    """

    keep: str = "best"
    metric: str = "accuracy"
    patience: int | None = None

    def __post_init__(self) -> None:
        known("selection.keep", self.keep, SELECTIONS)
        known("selection.metric", self.metric, METRICS)
        if self.patience is not None:
            at_least("selection.patience", self.patience, 1)

    @property
    def larger_is_better(self) -> bool:
        """False for losses and errors, True for everything else."""
        return self.metric not in SMALLER_IS_BETTER


@dataclass(frozen=True)
class Hardware:
    """Where to run; handed to Lightning Fabric, which also reads torchrun's and SLURM's environment.

    Args:
        accelerator: ``auto`` takes a GPU when there is one; Apple's have no 64-bit numbers and are passed over.
        devices: Devices per node: a count, or ``auto``.
        nodes: Machines.
        strategy: ``auto``, ``ddp`` or ``fsdp`` (GPUs only).
        precision: ``32-true``, ``bf16-mixed``, ``16-mixed``, ... 32 bits by default, so that a run on a laptop and
            one on a GPU can be compared.
    """

    accelerator: str = "auto"
    devices: int | str = 1
    nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"


@dataclass(frozen=True)
class Training:
    """The settings of one run.

    Args:
        epochs: Passes over the training set; 50 as in MMPareto's protocol.
        batch_size: Samples per optimizer step, over **all** devices and micro-batches together, so that the same
            number means the same training on one laptop and on eight GPUs.
        accumulate: Micro-batches per optimizer step (per device); raise it when a batch doesn't fit in memory.
        drop_last: Leave out a last incomplete training batch. Off: no sample is lost. Turn it on when BatchNorm
            would see a batch of one. Evaluation never drops anything.
        modality_dropout: Probability with which a modality is taken from a training sample, one always staying; 0
            because it is a method of its own, without which systems are seldom robust to missing modalities.
        clip_norm: Largest gradient norm, applied after the method's surgery; ``None`` as in most protocols.
        ema_decay: Decay of an average of the weights that evaluation uses instead of the last ones; ``None``: none.
        seed: Seeds the order of the data, dropout and every generator of the run.
        workers: Processes that load data; 0 loads in the training process, best for small data.
        checkpoint_every: Also save every so many optimizer steps; 0 saves after each epoch only.
        log_every: Steps between two flushes of the step metrics (every step has its row).
        progress: ``bar``, ``plain`` lines, ``none``, or ``auto``: a bar on a terminal and lines elsewhere.
        loggers: Any of ``tensorboard``, ``wandb``, ``mlflow``; the CSV files are always written.
        optimizer: See :class:`Optimizer`.
        schedule: See :class:`Schedule`.
        selection: See :class:`Selection`.
        hardware: See :class:`Hardware`.

    Example:
        >>> Training(epochs=3, optimizer=Optimizer(learning_rate=0.1)).batch_size
        64
    """

    epochs: int = 50
    batch_size: int = 64
    accumulate: int = 1
    drop_last: bool = False
    modality_dropout: float = 0.0
    clip_norm: float | None = None
    ema_decay: float | None = None
    seed: int = 0
    workers: int = 0
    checkpoint_every: int = 0
    log_every: int = 50
    progress: str = "auto"
    loggers: tuple[str, ...] = ()
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    selection: Selection = field(default_factory=Selection)
    hardware: Hardware = field(default_factory=Hardware)

    def __post_init__(self) -> None:
        for name, least in (
            ("epochs", 1),
            ("batch_size", 1),
            ("accumulate", 1),
            ("workers", 0),
            ("log_every", 1),
        ):
            at_least(name, getattr(self, name), least)
        at_least("checkpoint_every", self.checkpoint_every, 0)
        known("progress", self.progress, PROGRESS)
        for name in self.loggers:
            known("loggers", name, LOGGERS)
        if not 0 <= self.modality_dropout < 1:
            raise ValueError(f"modality_dropout must lie in [0, 1), got {self.modality_dropout}: one has to stay.")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be positive, got {self.clip_norm}. Use None to switch clipping off.")
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"ema_decay must lie between 0 and 1, got {self.ema_decay}. Use None for no average.")


def known(argument: str, value: Any, names: Sequence[str]) -> None:
    """Refuse a ``value`` that isn't one of ``names``, naming the nearest one."""
    if value in names:
        return
    nearest = get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"{argument}={value!r} is not known.{hint} Choose one of: {', '.join(names)}.")


def at_least(argument: str, value: float, least: float) -> None:
    """Refuse a number below ``least`` (and NaN)."""
    if not value >= least:
        raise ValueError(f"{argument} must be at least {least:g}, got {value!r}.")
