"""Running an image encoder over the frames of a clip."""

from __future__ import annotations

from torch import Tensor

__all__ = ["check_shape", "fold_frames", "mean_over_frames"]


def check_shape(encoder: str, shape: tuple[int, ...]) -> int:
    """The number of channels of a sample's ``shape``, which must be an image's or a clip's."""
    if len(shape) not in (3, 4):
        raise ValueError(
            f"`shape` {tuple(shape)} is neither (channels, height, width) nor (channels, frames, "
            f"height, width), which {encoder} reads; add a channel axis, or take another encoder such as MLP."
        )
    return int(shape[0])


def fold_frames(inputs: Tensor, channels: int) -> tuple[Tensor, int]:
    """``[B, C, T, H, W]`` as ``[B T, C, H, W]`` with T; ``[B, C, H, W]`` as it is with 1."""
    if inputs.dim() not in (4, 5) or inputs.shape[1] != channels:
        raise ValueError(
            f"`inputs` have shape {tuple(inputs.shape)}; give [B, C, H, W] images or [B, C, T, H, W] clips with the "
            f"C = {channels} channels that the encoder was built for."
        )
    if inputs.dim() == 4:
        return inputs, 1
    return inputs.transpose(1, 2).flatten(0, 1), inputs.shape[2]


def mean_over_frames(maps: Tensor, frames: int) -> Tensor:
    """Feature maps ``[B T, K, h, w]`` averaged over time and space: ``[B, K]``."""
    pooled = maps.mean(dim=(2, 3))
    return pooled.reshape(-1, frames, pooled.shape[1]).mean(dim=1)
