"""A small convolutional encoder."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from evigrad.networks.encoders.frames import check_shape, fold_frames, mean_over_frames

__all__ = ["SmallCNN"]


class SmallCNN(nn.Module):
    """Convolution, BatchNorm, ReLU and pooling, three times: enough for digits and short spectrograms.

    Args:
        shape: ``(channels, height, width)`` or ``(channels, frames, height, width)`` of one sample.
        width: number of features K; the two earlier stages have a quarter and a half of it.

    Example:
        >>> import torch
        >>> SmallCNN((1, 28, 28), width=32)(torch.randn(4, 1, 28, 28)).shape
        torch.Size([4, 32])
    """

    def __init__(self, shape: tuple[int, ...], width: int = 64) -> None:
        super().__init__()
        sizes = [check_shape("SmallCNN", shape), max(width // 4, 1), max(width // 2, 1), width]
        self.width = width
        self.channels = sizes[0]
        layers: list[nn.Module] = []
        for inner, outer in pairwise(sizes):
            # ceil_mode keeps inputs of any size from vanishing
            pool = nn.MaxPool2d(2, ceil_mode=True)
            layers += [
                nn.Conv2d(inner, outer, 3, padding=1, bias=False),
                nn.BatchNorm2d(outer),
                nn.ReLU(),
                pool,
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features ``[B, width]`` of inputs ``[B, C, H, W]`` or ``[B, C, T, H, W]``."""
        images, frames = fold_frames(inputs, self.channels)
        return mean_over_frames(self.layers(images), frames)
