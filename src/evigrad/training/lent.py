"""The loop's side of what a method may ask for: backward passes, reductions and unscaling that are right everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from evigrad.methods import Surgery
from evigrad.training import ranks

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from evigrad.training.wrapped import WrappedNetwork


class LentSurgery(Surgery):
    """A :class:`~evigrad.methods.Surgery` for any device, precision and number of processes.

    ``weight`` and ``is_last_micro_batch`` are set by the loop before each micro-batch.
    """

    def __init__(self, fabric: Fabric, network: WrappedNetwork, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.world_size = fabric.world_size
        self.weight = 1.0
        self._fabric = fabric
        self._network = network
        self._scaler = getattr(fabric.strategy.precision, "scaler", None)

    def all_reduce(self, tensor: Tensor, operation: Literal["mean", "sum"] = "mean") -> Tensor:
        """See the base class."""
        return ranks.all_reduce(tensor, operation)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """See the base class."""
        with self._network.no_sync():
            yield

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """Backward of ``loss`` times this micro-batch's share of the optimizer step, and the loss scale if any."""
        self._fabric.backward(loss if self.weight == 1.0 else loss * self.weight, retain_graph=retain_graph)

    def unscale(self, tensors: Iterable[Tensor]) -> None:
        """See the base class."""
        if self._scaler is not None and self._scaler.is_enabled():
            for tensor in tensors:
                tensor.div_(self._scaler.get_scale())

    def unscale_gradients(self, optimizer: torch.optim.Optimizer) -> bool:
        """Unscale every ``.grad`` of ``optimizer``; False when the scaler found overflow and will skip the step."""
        if self._scaler is None or not self._scaler.is_enabled():
            return True
        self._scaler.unscale_(optimizer)
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        return all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
