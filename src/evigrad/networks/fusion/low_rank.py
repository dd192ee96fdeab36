"""Low-rank tensor fusion."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import torch
from torch import Tensor, nn

from evigrad.networks.fusion.base import Fusion, presence

__all__ = ["LowRankTensor"]


class LowRankTensor(Fusion):
    r"""All products of features across modalities, through a rank-R weight tensor (Liu et al., ACL 2018).

    .. math:: f = W \sum_{r=1}^{R} w_r \bigodot_m \left(A_m^r z_m + a_m^r\right) + b

    The outer product of all :math:`[z_m; 1]` is never formed. An absent modality is left out of the product
    (its factor is 1). The offsets :math:`a` start at 1, under any initialisation, so that the product of many
    modalities starts neither at zero nor flat; the paper's own start (Xavier) makes it vanish as M grows.

    Args:
        widths: name -> K_i.
        classes: C.
        width: width of the fused representation.
        rank: R.
    """

    def __init__(self, widths: Mapping[str, int], classes: int, width: int = 128, rank: int = 4) -> None:
        super().__init__(widths, classes)
        self.rank = rank
        self.factors = nn.ModuleDict({name: nn.Linear(size, rank * width) for name, size in self.widths.items()})
        for factor in self.factors.values():
            nn.init.zeros_(factor.bias)  # type: ignore[arg-type]
        self.mixture = nn.Parameter(torch.full((rank,), 1.0 / rank))
        self.linear = nn.Linear(width, classes)

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """The rank-weighted sum of products."""
        here = presence(features, present)[..., None]
        # the bias is a - 1: an initialisation that sets biases to zero keeps the start
        factors = [
            1 + self.factors[name](value) * here[:, index] for index, (name, value) in enumerate(features.items())
        ]
        # not torch.prod, whose backward and export look at the values
        product = reduce(torch.mul, factors)
        return torch.einsum("r,brk->bk", self.mixture, product.unflatten(1, (self.rank, -1)))
