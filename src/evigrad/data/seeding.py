"""Independent random streams from one seed, the same on every platform and in every process."""

from __future__ import annotations

import hashlib

import torch


def stream(seed: int, *keys: int | str) -> torch.Generator:
    """A generator that depends on ``seed`` and ``keys`` alone, so that one use never shifts another.

    >>> a, b = stream(0, "split"), stream(0, "split")
    >>> bool(torch.rand(1, generator=a) == torch.rand(1, generator=b))
    True
    """
    digest = hashlib.blake2b(repr((seed, *keys)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)


def seeds(count: int, generator: torch.Generator) -> torch.Tensor:
    """``count`` seeds ([count] long) drawn from ``generator``, one for each thing that needs a stream of its own."""
    return torch.randint(2**62, (count,), generator=generator)
