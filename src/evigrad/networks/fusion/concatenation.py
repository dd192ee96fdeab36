"""Concatenation, the late fusion of the balancing literature."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evigrad.networks.fusion.base import Fusion
from evigrad.networks.presence import mask_absent

__all__ = ["Concatenation"]


class Concatenation(Fusion):
    r"""One linear layer over the concatenated features: :math:`f = \sum_m W_m z_m + b`.

    Example:
        >>> fusion = Concatenation({"sound": 2, "image": 3}, classes=4)
        >>> fusion.linear
        Linear(in_features=5, out_features=4, bias=True)
        >>> fusion.block("image").shape
        torch.Size([4, 3])
    """

    def __init__(self, widths: Mapping[str, int], classes: int) -> None:
        super().__init__(widths, classes)
        self.linear = nn.Linear(sum(self.widths.values()), classes)

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """The concatenation, in the order of the modalities."""
        return torch.cat(list(features.values()), dim=1)

    def block(self, name: str) -> Tensor:
        """W_m, the columns ``[C, K_m]`` of the weight that read modality ``name`` (a view)."""
        if name not in self.widths:
            raise KeyError(f"no modality {name!r} in this fusion; it has {list(self.widths)}.")
        names = list(self.widths)
        start = sum(self.widths[before] for before in names[: names.index(name)])
        return self.linear.weight[:, start : start + self.widths[name]]

    def block_logits(
        self, features: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Each modality's share ``z_m W_mᵀ + b/M`` of the joint logits, which they add up to."""
        masked = mask_absent({name: features[name] for name in self.widths}, present)
        bias = self.linear.bias / len(masked)
        return {name: value @ self.block(name).T + bias for name, value in masked.items()}
