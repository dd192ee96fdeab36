"""The transformer layers that encoders and fusions share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["positions", "trunk"]


def trunk(width: int, heads: int, layers: int, dropout: float) -> nn.TransformerEncoder:
    """A pre-norm transformer encoder over ``[B, T, width]`` that ends in a LayerNorm."""
    if width % heads:
        raise ValueError(f"`width` {width} is not a multiple of `heads` {heads}; change one of the two.")
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)


def positions(length: int, width: int, like: Tensor) -> Tensor:
    """Sinusoidal position codes ``[length, width]`` (Vaswani et al., 2017); any length, nothing to learn."""
    frequency = torch.exp(torch.arange(0, width, 2, device=like.device) * (-math.log(10_000.0) / width))
    angle = torch.arange(length, device=like.device)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :width].to(like.dtype)
