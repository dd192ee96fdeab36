"""A network on its device, in its precision and strategy, that still returns the network's own typed output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from evigrad.networks import MultimodalNetwork, Output


class WrappedNetwork(nn.Module):
    """Calls a network under Fabric's precision and strategy.

    Fabric's own wrapper copies every output to hang hooks on its tensors, which a frozen dataclass forbids and which
    would refuse the several backward passes some methods need; so the strategy's module is called directly.

    Args:
        fabric: The launched Fabric.
        network: The network to train.
        optimizer: Its optimizer; strategies that shard weights need both at once.
    """

    def __init__(self, fabric: Fabric, network: MultimodalNetwork, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self.fabric_module, self.optimizer = fabric.setup(network, optimizer)
        self.plain_optimizer = optimizer
        self.module = network
        # FSDP keeps a part of the weights on each rank and has its own way to clip, by which it is known.
        self.sharded = hasattr(self.inner, "clip_grad_norm_")
        self._fabric = fabric
        self._precision = fabric.strategy.precision
        self._full = fabric.strategy.precision.precision == "32-true"

    def forward(self, inputs: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None) -> Output:
        """The network's output, in 32 bits whatever the precision it was computed in."""
        # Ranks may evaluate different numbers of batches, so nothing may be exchanged then unless weights are sharded.
        target = self.inner if self.training or self.sharded else self.module
        if self._full:
            output: Output = target(inputs, present)
            return output
        with self._precision.forward_context():
            output = target(self._precision.convert_input(dict(inputs)), present)
        return _in_32_bits(output)

    @property
    def inner(self) -> nn.Module:
        """The module the strategy made: DDP's or FSDP's wrapper, or the network itself."""
        inner: nn.Module = self.fabric_module._forward_module
        return inner

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forward and backward in here exchange no gradients."""
        with self._fabric.no_backward_sync(self.fabric_module):
            yield

    def clip(self, largest_norm: float) -> Tensor:
        """Scale all gradients so that their common norm is at most ``largest_norm``; returns the norm before."""
        if self.sharded:
            inner: Any = self.inner
            norm: Tensor = inner.clip_grad_norm_(largest_norm)
            return norm
        parameters = [parameter for group in self.plain_optimizer.param_groups for parameter in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, largest_norm)


def _in_32_bits(output: Output) -> Output:
    return replace(
        output,
        features={name: value.float() for name, value in output.features.items()},
        unimodal_logits={name: value.float() for name, value in output.unimodal_logits.items()},
        joint_logits=output.joint_logits.float(),
    )
