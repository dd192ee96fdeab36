"""Encoder of feature vectors."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor, nn

__all__ = ["MLP"]


class MLP(nn.Module):
    """Fully connected layers with ReLU over a flattened input.

    Args:
        shape: shape of one sample.
        width: number of features K; ReLU is applied to them too.
        hidden: widths of the layers before the last.
        dropout: after every layer but the last.

    Example:
        >>> import torch
        >>> MLP((28, 28), width=16)(torch.randn(4, 28, 28)).shape
        torch.Size([4, 16])
    """

    def __init__(
        self, shape: tuple[int, ...], width: int = 64, hidden: tuple[int, ...] = (128,), dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.width = width
        self.shape = tuple(shape)
        sizes = [math.prod(shape), *hidden, width]
        layers: list[nn.Module] = [nn.Flatten()]
        for index, (size, following) in enumerate(pairwise(sizes)):
            layers += [nn.Linear(size, following), nn.ReLU()]
            if dropout > 0 and index < len(hidden):
                layers.append(nn.Dropout(dropout))
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features ``[B, width]`` of inputs ``[B, ...]``."""
        if inputs.dim() < 2 or math.prod(inputs.shape[1:]) != math.prod(self.shape):
            raise ValueError(
                f"`inputs` have shape {tuple(inputs.shape)}, but this MLP was built for samples of shape {self.shape}; "
                f"give [B, {math.prod(self.shape)}], or build it for the data."
            )
        features: Tensor = self.layers(inputs)
        return features
