"""The IDX files in which MNIST is distributed, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import torch
from torch import Tensor

from .errors import DataError


def read_idx(path: str | Path) -> Tensor:
    """The bytes of an IDX file as a tensor of the shape that its header states."""
    path = Path(path)
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not readable ({error}); fetch it again") from error
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise DataError(f"{path}: it does not begin like an IDX file of bytes (00 00 08 n); fetch the original file")
    axes = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    content = bytearray(raw[4 + 4 * axes :])
    expected = 1
    for size in shape:
        expected *= size
    if len(content) != expected:
        raise DataError(
            f"{path}: {len(content)} bytes for shape {tuple(shape)}, which needs {expected}; fetch it again"
        )
    if not content:
        raise DataError(f"{path}: shape {tuple(shape)} holds no value; fetch the original file")
    return torch.frombuffer(content, dtype=torch.uint8).view(shape)
