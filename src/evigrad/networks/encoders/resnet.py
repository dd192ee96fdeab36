"""ResNet-18 for images, spectrograms and clips of frames."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from evigrad.networks.encoders.frames import check_shape, fold_frames, mean_over_frames
from evigrad.networks.initialisation import Scheme, initialise

__all__ = ["ResNet18"]


class ResNet18(nn.Module):
    """ResNet-18 (He et al., CVPR 2016) up to its 512 features, from scratch.

    A clip's frames are run as images; the features are the mean over time and space jointly, and BatchNorm's
    statistics are those of all frames.

    Args:
        shape: ``(channels, height, width)`` or ``(channels, frames, height, width)`` of one sample; only the
            number of channels is fixed by it.
        initialisation: ``"mmpareto"`` or ``"ogm"``, see :func:`evigrad.networks.initialise`.

    Example:
        >>> import torch
        >>> encoder = ResNet18((3, 2, 64, 64))
        >>> encoder(torch.randn(4, 3, 2, 64, 64)).shape
        torch.Size([4, 512])
    """

    width = 512

    def __init__(self, shape: tuple[int, ...], initialisation: Scheme = "mmpareto") -> None:
        super().__init__()
        channels = check_shape("ResNet18", shape)
        self.conv = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        self.stages = nn.Sequential(_stage(64, 64, 1), _stage(64, 128, 2), _stage(128, 256, 2), _stage(256, 512, 2))
        initialise(self, initialisation)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features ``[B, 512]`` of inputs ``[B, C, H, W]`` or ``[B, C, T, H, W]``."""
        images, frames = fold_frames(inputs, self.conv.in_channels)
        stem = F.max_pool2d(F.relu(self.norm(self.conv(images))), 3, stride=2, padding=1)
        return mean_over_frames(self.stages(stem), frames)


class _Block(nn.Module):
    """Two 3x3 convolutions with a shortcut, projected where the shape changes."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride=stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, maps: Tensor) -> Tensor:
        hidden = F.relu(self.norm1(self.conv1(maps)))
        return F.relu(self.norm2(self.conv2(hidden)) + self.shortcut(maps))


def _stage(inner: int, outer: int, stride: int) -> nn.Sequential:
    return nn.Sequential(_Block(inner, outer, stride), _Block(outer, outer, 1))
