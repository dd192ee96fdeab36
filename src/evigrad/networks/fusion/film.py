"""Feature-wise linear modulation between modalities."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evigrad.networks.fusion.base import Fusion, presence

__all__ = ["FiLM"]


class FiLM(Fusion):
    r"""Every modality is scaled and shifted by what the others say (Perez et al., AAAI 2018).

    With :math:`p_m = P_m z_m` and the context :math:`c_m`, the mean of :math:`p_j` over the other modalities
    present,

    .. math:: f = W \sum_m \left[(1 + \gamma_m(c_m)) \odot p_m + \beta_m(c_m)\right] + b,

    summed over the modalities present. The published layer has one conditioning and one conditioned input;
    taking every modality in both roles is the form for any M in which no name is special. A modality without
    company is passed on as it is: γ and β are linear without bias, so an empty context modulates nothing.

    Args:
        widths: name -> K_i.
        classes: C.
        width: the common width of the projections.
    """

    def __init__(self, widths: Mapping[str, int], classes: int, width: int = 128) -> None:
        super().__init__(widths, classes)
        self.projections = nn.ModuleDict({name: nn.Linear(size, width) for name, size in self.widths.items()})
        self.modulations = nn.ModuleDict({name: nn.Linear(width, 2 * width, bias=False) for name in self.widths})
        self.linear = nn.Linear(width, classes)

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """The sum of the modulated projections."""
        here = presence(features, present)[..., None]
        projected = torch.stack([self.projections[name](value) for name, value in features.items()], dim=1) * here
        others = (here.sum(dim=1, keepdim=True) - here.long()).clamp(min=1)
        context = (projected.sum(dim=1, keepdim=True) - projected) / others
        modulated = [
            self._modulate(name, projected[:, index], context[:, index]) for index, name in enumerate(features)
        ]
        return (torch.stack(modulated, dim=1) * here).sum(dim=1)

    def _modulate(self, name: str, value: Tensor, context: Tensor) -> Tensor:
        scale, shift = self.modulations[name](context).chunk(2, dim=1)
        modulated: Tensor = (1 + scale) * value + shift
        return modulated
