"""Scalers, fitted on training rows only unless a published protocol that does otherwise is asked for by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import DataError, nearest


@dataclass(frozen=True)
class Affine:
    """x -> (x - shift) / scale, in float32; ``shift`` and ``scale`` broadcast over one sample."""

    shift: Tensor
    scale: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        return ((values - self.shift) / self.scale).float()


def standard(values: Tensor) -> Affine:
    """Zero mean and unit variance over ``values`` [N, ...]: per feature for vectors, one pair for maps."""
    over, parts = _pooled(values), torch.split(values, 256)  # in parts, because maps in double precision may not fit
    count = values.numel() / max(1, values.shape[1:].numel() if over == (0,) else 1)
    mean = torch.stack([part.double().sum(over) for part in parts]).sum(0) / count
    square = torch.stack([(part.double() - mean).square().sum(over) for part in parts]).sum(0) / count
    return Affine(mean.float(), torch.where(square > 0, square.sqrt(), 1.0).float())


def minmax(values: Tensor) -> Affine:
    """``values`` [N, ...] to [0, 1]: per feature for vectors, one pair for maps. A constant feature becomes 0."""
    over = _pooled(values)
    low, high = values.amin(over).float(), values.amax(over).float()
    return Affine(low, torch.where(high > low, high - low, 1.0))


def interval(low: float, high: float) -> Affine:
    """Maps [low, high] to [0, 1]; ``interval(0, 255)`` for byte images."""
    return Affine(torch.tensor(float(low)), torch.tensor(float(high - low)))


def quantised(low: float, high: float) -> Affine:
    """Undoes storage in bytes: 0 -> low, 255 -> high."""
    scale = 255.0 / (high - low)
    return Affine(torch.tensor(-low * scale), torch.tensor(scale))


#: A scaling by name: how it is fitted, and on which rows. The last two are what the released TMC and RCML
#: code do; they let test rows speak into the scaling and exist to reproduce published numbers.
SCALINGS: dict[str, tuple[Callable[[Tensor], Affine], str]] = {
    "standard": (standard, "train"),
    "minmax": (minmax, "train"),
    "minmax_tmc": (minmax, "each part by itself"),
    "minmax_rcml": (minmax, "all rows"),
}


def fit(scaling: str, train: Tensor, part: Tensor, everything: Tensor) -> Affine:
    """The scaler that the scaling called ``scaling`` applies to ``part``; each argument is [N, ...]."""
    if scaling not in SCALINGS:
        raise nearest("scaling", scaling, [*SCALINGS, "none"])
    fitter, rows = SCALINGS[scaling]
    source = {"train": train, "all rows": everything}.get(rows, part)
    if not len(source):
        raise DataError(f"scaling {scaling!r}: there is no row to fit it on; use scaling='none'")
    return fitter(source)


def _pooled(values: Tensor) -> tuple[int, ...]:
    return (0,) if values.ndim <= 2 else tuple(range(values.ndim))
