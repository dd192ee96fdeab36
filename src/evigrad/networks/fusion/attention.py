"""Attention over one token per modality."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evigrad.networks.fusion.base import Fusion, presence
from evigrad.networks.transformer import trunk

__all__ = ["Attention"]


class Attention(Fusion):
    """A class token attends to one token per modality; tokens of absent modalities are hidden from it.

    Args:
        widths: name -> K_i.
        classes: C.
        width: width of the tokens.
        heads: attention heads; must divide ``width``.
        layers: transformer layers.
        dropout: inside the layers.
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        classes: int,
        width: int = 128,
        heads: int = 4,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(widths, classes)
        self.projections = nn.ModuleDict({name: nn.Linear(size, width) for name, size in self.widths.items()})
        self.names = nn.ParameterDict({name: nn.Parameter(0.02 * torch.randn(width)) for name in self.widths})
        self.token = nn.Parameter(0.02 * torch.randn(width))
        self.layers = trunk(width, heads, layers, dropout)
        self.linear = nn.Linear(width, classes)

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """The class token after the last layer."""
        tokens = [self.projections[name](value) + self.names[name] for name, value in features.items()]
        tokens = [self.token.expand_as(tokens[0]), *tokens]
        hidden = torch.nn.functional.pad(~presence(features, present), (1, 0), value=False)
        attended: Tensor = self.layers(torch.stack(tokens, dim=1), src_key_padding_mask=hidden)
        return attended[:, 0]
