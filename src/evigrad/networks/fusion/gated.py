"""Gated sum of modalities."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evigrad.networks.fusion.base import Fusion, presence

__all__ = ["Gated"]


class Gated(Fusion):
    r"""A gate shares each hidden dimension out among the modalities (Arevalo et al., 2017).

    .. math:: f = W \sum_m a_m \odot \tanh(P_m z_m) + b, \qquad
              a = \operatorname{softmax}_m (G_m [z_1, \dots, z_M]) \text{ over the modalities present.}

    The published unit has two modalities and a sigmoid, which is this softmax for M = 2.

    Args:
        widths: name -> K_i.
        classes: C.
        width: the common width of the hidden representations.
    """

    def __init__(self, widths: Mapping[str, int], classes: int, width: int = 128) -> None:
        super().__init__(widths, classes)
        self.projections = nn.ModuleDict({name: nn.Linear(size, width) for name, size in self.widths.items()})
        total = sum(self.widths.values())
        self.gates = nn.ModuleDict({name: nn.Linear(total, width) for name in self.widths})
        self.linear = nn.Linear(width, classes)

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """The gated sum of the hidden representations."""
        everything = torch.cat(list(features.values()), dim=1)
        hidden = torch.stack([self.projections[name](value).tanh() for name, value in features.items()], dim=1)
        scores = torch.stack([self.gates[name](everything) for name in features], dim=1)
        here = presence(features, present)[..., None]
        # the lowest number and not -inf: a sample with nothing present must give 0 and not 0/0
        weights = scores.masked_fill(~here, torch.finfo(scores.dtype).min).softmax(dim=1) * here
        return (weights * hidden).sum(dim=1)
