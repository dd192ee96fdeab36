"""Sum of projected features."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evigrad.networks.fusion.base import Fusion
from evigrad.networks.presence import mask_absent

__all__ = ["Sum"]


class Sum(Fusion):
    r"""Features are projected to one width and added: :math:`f = W \sum_m P_m z_m + b`.

    The projections have no bias, so an absent modality adds exactly nothing.

    Args:
        widths: name -> K_i.
        classes: C.
        width: the common width; small is a low-rank version of concatenation.
    """

    def __init__(self, widths: Mapping[str, int], classes: int, width: int = 128) -> None:
        super().__init__(widths, classes)
        self.projections = nn.ModuleDict(
            {name: nn.Linear(size, width, bias=False) for name, size in self.widths.items()}
        )
        self.linear = nn.Linear(width, classes)

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """The sum of the projections."""
        return torch.stack([self.projections[name](value) for name, value in features.items()]).sum(dim=0)

    def block_logits(
        self, features: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Each modality's share ``W P_m z_m + b/M`` of the joint logits, which they add up to."""
        masked = mask_absent({name: features[name] for name in self.widths}, present)
        bias = self.linear.bias / len(masked)
        return {name: self.projections[name](value) @ self.linear.weight.T + bias for name, value in masked.items()}
