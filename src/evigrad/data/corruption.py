"""Damage to single values: what happens to a modality that is hit. Who is hit is decided in :mod:`.noise`.

A damage is called as ``damage(value, generator)`` with one sample's value and returns a new value of the same
kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .errors import DataError, nearest


class Damage(Protocol):
    """A function of one sample's value and a generator that returns a new value of the same shape and type."""

    def __call__(self, value: Tensor, generator: torch.Generator, /) -> Tensor: ...


@dataclass(frozen=True)
class FeatureNoise:
    """Adds Gaussian noise with standard deviation ``std`` to every number."""

    std: float

    def __post_init__(self) -> None:
        _check_std(self.std)

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        if not value.is_floating_point():
            raise DataError(f"feature noise got a value of type {value.dtype}; it needs floats, not tokens or bytes")
        return value + self.std * torch.randn(value.shape, generator=generator)


@dataclass(frozen=True)
class PixelNoise:
    """Gaussian noise on an image [channels, H, W], ``std`` on the scale 0..255, the same for all channels of a pixel.

    The image holds bytes, or floats in [0, 1] (before any normalisation); results are whole steps of 1/255,
    as in an image file. Too bright is clipped. Too dark is clipped as well with ``lower="clip"``; ``"wrap"``
    does what a cast to bytes does on x86 in the released QMF code: -3.7 is cut to -3 and becomes 253, so dark
    areas turn bright.
    """

    std: float
    lower: str = "clip"

    def __post_init__(self) -> None:
        _check_std(self.std)
        if self.lower not in ("clip", "wrap"):
            raise nearest("value of lower", self.lower, ("clip", "wrap"))

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        noise = self.std * torch.randn(value.shape[-2:], generator=generator)
        noisy = (_bytes(value) + noise).clamp(max=255).trunc()
        noisy = noisy % 256 if self.lower == "wrap" else noisy.clamp(min=0)
        return _like(noisy, value)


@dataclass(frozen=True)
class SaltAndPepper:
    """Turns a share ``density`` of the pixels of an image [channels, H, W] black or white, half each."""

    density: float = 0.1

    def __post_init__(self) -> None:
        check_share("density", self.density)

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        chance = torch.rand(value.shape[-2:], generator=generator)
        pixels = _bytes(value).masked_fill(chance < self.density / 2, 0.0)
        return _like(pixels.masked_fill((chance >= self.density / 2) & (chance < self.density), 255.0), value)


@dataclass(frozen=True)
class BlankWords:
    """Replaces each word of token ids [L] by the id of "_" with ``probability``; padding (0) stays."""

    probability: float
    blank: int = 1

    def __post_init__(self) -> None:
        check_share("probability", self.probability)

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        if value.is_floating_point():
            raise DataError(f"word damage got a value of type {value.dtype}; it needs token ids, whole numbers")
        chance = torch.rand(value.shape, generator=generator)
        return value.masked_fill((chance < self.probability) & (value != 0), self.blank)


@dataclass(frozen=True)
class TimeMask:
    """Silences one window, ``share`` of the last axis (time) long, of a spectrogram or signal [..., T].

    The window starts anywhere with equal chance and is filled with the smallest value of the sample.
    """

    share: float

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def __call__(self, value: Tensor, generator: torch.Generator) -> Tensor:
        length = value.shape[-1]
        width = round(self.share * length)
        start = int(torch.randint(length - width + 1, (), generator=generator))
        masked = value.clone()
        masked[..., start : start + width] = value.min()
        return masked


def _check_std(std: float) -> None:
    if not 0 <= std < float("inf"):
        raise DataError(f"std={std}: a standard deviation is a number from 0")


def check_share(name: str, value: float) -> None:
    """Refuse a share or probability ``value`` of the argument ``name`` outside of [0, 1]."""
    if not 0 <= value <= 1:
        raise DataError(f"{name}={value}: it must lie between 0 and 1")


def _bytes(value: Tensor) -> Tensor:
    if value.ndim < 2:
        raise DataError(f"pixel damage got a value of shape {tuple(value.shape)}; it needs an image [channels, H, W]")
    if value.dtype == torch.uint8:
        return value.float()
    if float(value.min()) < 0 or float(value.max()) > 1:
        low, high = float(value.min()), float(value.max())
        raise DataError(f"pixel damage got values from {low:.3g} to {high:.3g}; apply it before normalising, in [0, 1]")
    return value * 255


def _like(pixels: Tensor, value: Tensor) -> Tensor:
    return pixels.to(torch.uint8) if value.dtype == torch.uint8 else (pixels / 255).to(value.dtype)
