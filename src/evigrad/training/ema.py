"""An exponential average of the weights, for evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """``average <- decay * average + (1 - decay) * weights`` after each optimizer step.

    The average starts at the first weights, and its rate is ``min(decay, (1 + t) / (10 + t))`` at step ``t``, so that
    a short run isn't dominated by its initialisation. BatchNorm statistics are averages already and are left alone.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> average = WeightAverage(layer, decay=0.9)
        >>> with average.in_place_of(layer):
        ...     evaluated = layer.weight.clone()
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.weights = {name: value.detach().clone() for name, value in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Move the average towards the weights of ``module``."""
        rate = min(self.decay, (1 + self.steps) / (10 + self.steps))
        current = dict(module.named_parameters())
        torch._foreach_lerp_(list(self.weights.values()), [current[name].detach() for name in self.weights], 1 - rate)
        self.steps += 1

    @contextmanager
    def in_place_of(self, module: nn.Module) -> Iterator[None]:
        """Let ``module`` hold the averaged weights inside the block."""
        kept = {name: value.detach().clone() for name, value in module.named_parameters()}
        _copy(self.weights, module)
        try:
            yield
        finally:
            _copy(kept, module)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        parameter.copy_(weights[name])
