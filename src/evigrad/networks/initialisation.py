"""The two ways in which the balancing literature starts a network."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import nn

from evigrad.calibration.errors import choose

__all__ = ["Scheme", "initialise"]

Scheme = Literal["mmpareto", "ogm"]


def initialise(module: nn.Module, scheme: Scheme, generator: torch.Generator | None = None) -> None:
    """Draw the weights of ``module`` anew; the papers that compare themselves start from different weights.

    Both draw convolutions from a Kaiming normal (fan-out, ReLU). Beyond that,
    ``"mmpareto"`` (also Diagnosing & Re-learning) draws BatchNorm weights from N(1, 0.02²) and leaves linear
    layers as they are; ``"ogm"`` (also PMR, ARL) sets BatchNorm weights to 1 and draws linear layers from a
    Xavier normal with zero bias. Other layers are left alone.

    Args:
        module: changed in place, with everything inside it.
        scheme: ``"mmpareto"`` or ``"ogm"``.
        generator: source of the draws; None is torch's global one.
    """
    choose("scheme", scheme, get_args(Scheme))
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.zeros_(layer.bias)
            if scheme == "ogm":
                nn.init.ones_(layer.weight)
            else:
                nn.init.normal_(layer.weight, 1.0, 0.02, generator=generator)
        elif isinstance(layer, nn.Linear) and scheme == "ogm":
            nn.init.xavier_normal_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
