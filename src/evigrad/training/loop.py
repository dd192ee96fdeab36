"""The one training loop."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evigrad.training import ranks
from evigrad.training.config import Training
from evigrad.training.environment import environment
from evigrad.training.epoch import train_epoch
from evigrad.training.evaluate import summary
from evigrad.training.files import write_json
from evigrad.training.finish import finish
from evigrad.training.launch import launch
from evigrad.training.loggers import MetricLogger, build_loggers, require_loggers
from evigrad.training.predictions import predict
from evigrad.training.progress import Progress, build_progress
from evigrad.training.result import Result, read_result
from evigrad.training.run import Run, assemble, own_randomness
from evigrad.training.run_folder import RunFolder, what_counts
from evigrad.training.selection import improve, out_of_patience, require_validation
from evigrad.training.signals import Interrupted, StopRequest
from evigrad.training.step import DivergedError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from evigrad.data import MultimodalDataset
    from evigrad.methods import Method
    from evigrad.networks import MultimodalNetwork


def fit(
    network: MultimodalNetwork,
    method: Method,
    train: MultimodalDataset,
    validation: MultimodalDataset | None = None,
    test: MultimodalDataset | None = None,
    *,
    folder: Path | str,
    training: Training | None = None,
    config: Mapping[str, Any] | None = None,
    resume: bool = False,
    fabric: Fabric | None = None,
) -> Result:
    """Train ``network`` by ``method``, keep the epoch that validation data chose, and measure it once on each split.

    The run folder holds everything (see :class:`RunFolder`). A run that was killed at any moment goes on with
    ``resume=True`` and ends exactly as if it had never stopped. The caller's random generators are left alone.

    Args:
        network: Any :class:`~evigrad.networks.MultimodalNetwork`; trained in place, it ends with the reported weights.
        method: How to train it; also changed in place.
        train: Training samples.
        validation: Chooses the epoch and stops early. Without it only the last epoch can be kept.
        test: Looked at once, after training.
        folder: The run folder; created. One run each.
        training: The settings.
        config: What the objects were made from (names, hyper-parameters), saved so that they can be rebuilt.
        resume: Go on with the run in ``folder`` (or begin it, if it never got as far as a checkpoint). A finished
            run is returned as it is.
        fabric: A launched Lightning Fabric, instead of the one ``training.hardware`` describes.

    Raises:
        Interrupted: After SIGINT or SIGTERM, when everything is saved. Left alone it ends the program with exit
            code 75.
        StorageError: When the folder can't be written, before training begins or at the write that failed.
        DivergedError: When the training loss isn't finite any more.
    """
    training = training or Training()
    require_validation(training.selection, validation is not None)
    place = RunFolder(folder)
    if resume and place.result.exists():
        place.require_same(_resolved(training, config))
        return read_result(place.path)
    require_loggers(training.loggers)
    with own_randomness(), StopRequest().listening() as stop, contextlib.ExitStack() as closing:
        launched = fabric or launch(training.hardware)
        if launched.is_global_zero:
            closing.enter_context(place.alone())
        run = assemble(launched, network, method, len(train), training, place)
        _open(run, _resolved(training, config), resume)
        started = time.monotonic()
        progress = _progress(run, closing)
        loggers = _loggers(run, config, closing)
        while not run.position.finished:
            _epoch(run, train, validation, stop, progress, loggers)
        splits = {"train": train, "validation": validation, "test": test}
        return finish(run, {name: part for name, part in splits.items() if part is not None}, progress, started)


def _resolved(training: Training, config: Mapping[str, Any] | None) -> dict[str, Any]:
    resolved: dict[str, Any] = json.loads(json.dumps({**(config or {}), "training": asdict(training)}))
    return resolved


def _open(run: Run, config: dict[str, Any], resume: bool) -> None:
    """Create the run folder and its first checkpoint, or go back to the last one."""
    run.config = what_counts(config)
    if resume and run.folder.config.exists():
        run.folder.require_same(config)
    if resume and run.folder.last.exists():
        run.folder.require_room(run.folder.last.stat().st_size)
        run.load_last()
        return
    if run.main:
        weights = sum(value.nbytes for value in run.network.module.state_dict().values())
        run.folder.create(config, checkpoint_bytes=3 * weights)
        write_json(run.folder.environment, environment())
    ranks.barrier()
    run.save_last()


def _progress(run: Run, closing: contextlib.ExitStack) -> Progress:
    kind = run.training.progress if run.main else "none"
    done = run.position.epoch * run.plan.size + run.position.step_in_epoch * run.plan.batch_size
    return closing.enter_context(build_progress(kind, run.training.epochs, run.plan.size, done))


def _loggers(run: Run, config: Mapping[str, Any] | None, closing: contextlib.ExitStack) -> list[MetricLogger]:
    if not run.main:
        return []
    loggers = build_loggers(run.training.loggers, run.folder.path, _resolved(run.training, config))
    for logger in loggers:
        closing.callback(logger.close)
    return loggers


def _epoch(
    run: Run,
    train: MultimodalDataset,
    validation: MultimodalDataset | None,
    stop: StopRequest,
    progress: Progress,
    loggers: Sequence[MetricLogger],
) -> None:
    """Train one epoch, look at validation data, keep the best, save, and stop if it is time to."""
    started = time.monotonic()
    position, training = run.position, run.training
    numbers = {f"train/{name}": value for name, value in train_epoch(run, train, stop, progress, loggers).items()}
    diagnostics = run.method.diagnostics()
    run.method.end_epoch(position.epoch, run.network)
    best = validation is None or _validate(run, validation, numbers)
    if training.selection.keep == "last" or best:
        position.best_epoch = position.epoch
        run.save_best(_known(numbers))
    _record(run, numbers, diagnostics, time.monotonic() - started, loggers)
    progress.epoch(position.epoch, _headline(numbers))
    position.epoch, position.step_in_epoch = position.epoch + 1, 0
    position.finished = position.epoch == training.epochs or out_of_patience(position, training.selection)
    run.save_last()
    if ranks.any_rank(stop.asked, run.fabric.device):
        raise Interrupted(run.folder.path, position.step)


def _validate(run: Run, validation: MultimodalDataset, numbers: dict[str, float]) -> bool:
    """Add validation numbers to ``numbers``; whether this epoch is the best so far."""
    with run.evaluated_weights():
        found = predict(run.network, run.method, validation, run.evaluation_batch, run.training.workers)
    if not found.probabilities.isfinite().all():
        raise DivergedError(
            f"the weights give NaN or infinite probabilities on validation data after epoch {run.position.epoch + 1}. "
            f"Lower the learning rate, set clip_norm, or check the data; the last good checkpoint is {run.folder.last}."
        )
    measured = summary(found, validation.classes)
    numbers |= {f"validation/{name}": value for name, value in measured.items() if isinstance(value, float)}
    for name, readings in measured["modalities"].items():
        numbers |= {f"validation/{key}/{name}": value for key, value in readings.items() if key != "samples"}
    return improve(run.position, run.training.selection, measured)


def _record(
    run: Run,
    numbers: dict[str, float],
    diagnostics: dict[str, float],
    seconds: float,
    loggers: Sequence[MetricLogger],
) -> None:
    if not run.main:
        return
    place = {"epoch": run.position.epoch, "step": run.position.step}
    run.folder.epochs.append([{**place, **numbers}])
    run.folder.diagnostics.append([{**place, **diagnostics}])
    run.folder.timing.append([{**place, "seconds": round(seconds, 3)}])
    logged = _known(numbers) | {f"diagnostics/{key}": value for key, value in diagnostics.items()}
    for logger in loggers:
        logger.log(logged, place["step"])


def _known(numbers: Mapping[str, float]) -> dict[str, float]:
    """Those that aren't NaN: a modality that no batch of an epoch had keeps its column in the table and no more."""
    return {name: value for name, value in numbers.items() if not math.isnan(value)}


def _headline(numbers: Mapping[str, float]) -> dict[str, float]:
    """What a person wants to see of an epoch; single modalities by their own heads, else by their blocks."""
    shown = ["train/loss", "train/accuracy", "validation/accuracy"]
    for reading in ("own_head", "block"):
        single = [name for name in numbers if name.startswith(f"validation/{reading}/")]
        if single:
            shown += single
            break
    return {_short(name): numbers[name] for name in shown if name in numbers}


def _short(name: str) -> str:
    return name.removeprefix("validation/") if name.count("/") == 2 else name
