"""What every training method is, and what it may ask of the training loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn

from evigrad.networks import MultimodalNetwork, Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["Method", "OptimizerWarning", "StepResult", "Surgery", "unwrap"]

_ADAPTIVE = (
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.SparseAdam,
    # younger than the oldest torch supported
    *(getattr(torch.optim, name) for name in ("Adafactor", "Muon") if hasattr(torch.optim, name)),
)


class OptimizerWarning(UserWarning):
    """A method that rescales gradients meets an optimizer that divides the scale out again."""


@dataclass(frozen=True)
class StepResult:
    """One micro-batch's outcome: ``loss`` (scalar, detached, unscaled) and the network's ``output``."""

    loss: Tensor
    output: Output


class Surgery:
    """What the training loop lends a method, so that a method knows of no device, precision or process group.

    This class is the plain one: one process, full precision. A loop with more than that passes a subclass.

    Args:
        generator: source of any noise a method adds. In the same state on every rank, and saved with the run.
        is_last_micro_batch: whether the optimizer steps after this micro-batch (always, without
            accumulation).
    """

    world_size: int = 1

    def __init__(self, generator: torch.Generator | None = None, is_last_micro_batch: bool = True) -> None:
        self.generator = generator if generator is not None else torch.Generator().manual_seed(0)
        self.is_last_micro_batch = is_last_micro_batch

    def all_reduce(self, tensor: Tensor, operation: Literal["mean", "sum"] = "mean") -> Tensor:
        """The mean or sum of ``tensor`` over all ranks. Collective: every rank must call it."""
        return tensor

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """No gradient is exchanged in here: wrap the forward pass too, then ``all_reduce`` by hand."""
        yield

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """Add the gradient of ``loss`` to ``.grad``; the same as the ``backward`` that a step is given.

        Divides by the number of micro-batches and multiplies by the AMP loss scale where there are such.
        """
        loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]

    def unscale(self, tensors: Iterable[Tensor]) -> None:
        """Divide gradients kept outside ``.grad``, in place, by the loss scale that ``backward`` put in.

        Called from ``after_backward``, when the loop has already unscaled every ``.grad``.
        """


class Method(nn.Module):
    """A way to train a multi-modal network; a method never contains a training loop.

    The loop calls, in this order: ``prepare`` once, before the optimizer exists (and before any weights are
    loaded); ``check_optimizer`` once; per epoch ``start_epoch``; per micro-batch ``step``; per optimizer
    step, after the gradients were unscaled and before they are clipped, ``after_backward``; ``end_epoch``.

    Hyper-parameters are typed keywords of the constructor. State that must survive a checkpoint lives in
    buffers; what is gathered over the micro-batches of one optimizer step does not, so checkpoints are taken
    between such steps.
    """

    rescales_gradients: ClassVar[bool] = False
    """Whether the method acts through the size of gradients, which Adam and its kin divide out."""

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Build or adapt the heads of ``network``; ``dataset_size`` is N, the number of training samples."""

    def check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Warn when ``optimizer`` turns this method into another one."""
        if self.rescales_gradients and isinstance(optimizer, _ADAPTIVE):
            warnings.warn(
                f"{type(self).__name__} acts by rescaling gradients, but {type(optimizer).__name__} "
                "divides their scale out again: this is not the published method. "
                "Use torch.optim.SGD, its reference.",
                OptimizerWarning,
                stacklevel=2,
            )

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """The scalar that is minimised, a mean over the B samples of ``batch``."""
        raise NotImplementedError(f"{type(self).__name__} does not define `loss`; return a scalar from it.")

    def step(
        self, network: nn.Module, batch: Batch, backward: Callable[[Tensor], None], surgery: Surgery
    ) -> StepResult:
        """One micro-batch: forward, loss, backward.

        Args:
            network: the network as the loop wrapped it (DDP, Fabric); call it, and ``unwrap`` it to look
                inside.
            batch: the micro-batch.
            backward: adds the gradient of a scalar to ``.grad``; the same as ``surgery.backward``.
            surgery: what else the loop lends.
        """
        output: Output = network(batch.inputs, batch.present)
        loss = self.loss(output, batch)
        backward(loss)
        return StepResult(loss.detach(), output)

    def after_backward(self, network: nn.Module, surgery: Surgery) -> None:
        """Edit ``.grad``: once per optimizer step, on unscaled, all-reduced, accumulated gradients.

        Not called on a step that a gradient scaler is about to skip, or harmless on it.
        """

    def start_epoch(self, epoch: int) -> None:
        """Act before epoch ``epoch``, counted from 0."""

    def end_epoch(self, epoch: int, network: nn.Module) -> None:
        """Act after epoch ``epoch``, counted from 0."""

    def predict(self, output: Output, present: dict[str, Tensor]) -> Tensor:
        """Class probabilities ``[B, C]``; the joint head's unless a method says otherwise."""
        return output.joint_logits.float().softmax(dim=1)

    def unimodal_probabilities(self, output: Output) -> dict[str, Tensor]:
        """Name -> ``[B, C]``, each modality read by its own head (definition U2); {} where there are none."""
        return {name: logits.float().softmax(dim=1) for name, logits in output.unimodal_logits.items()}

    def diagnostics(self) -> dict[str, float]:
        """What happened in the last optimizer step; computed only when asked."""
        return {}


def unwrap(network: nn.Module) -> MultimodalNetwork:
    """The :class:`MultimodalNetwork` inside whatever a loop wrapped around it (DDP, Fabric, torch.compile).

    Example:
        >>> from evigrad.networks import MLP, Concatenation
        >>> network = MultimodalNetwork({"x": MLP((2,), width=4)}, Concatenation({"x": 4}, classes=2))
        >>> unwrap(torch.nn.DataParallel(network)) is network
        True
    """
    inner: object = network
    while not isinstance(inner, MultimodalNetwork):
        wrapped = getattr(inner, "_orig_mod", None) or getattr(inner, "module", None)
        if wrapped is None:
            raise TypeError(
                f"`network` is a {type(network).__name__} around a {type(inner).__name__}, not a "
                "MultimodalNetwork; build one with evigrad.networks.MultimodalNetwork(encoders, fusion)."
            )
        inner = wrapped
    return inner
