"""What processes of one run tell each other; with a single process every function is the identity."""

from __future__ import annotations

from typing import Literal, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

T = TypeVar("T")


def together() -> bool:
    """Whether this process is one of several."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def all_reduce(tensor: Tensor, operation: Literal["mean", "sum"] = "mean") -> Tensor:
    """The mean or sum over all ranks, on every rank; ``tensor`` itself is left as it is."""
    if not together():
        return tensor
    reduced = tensor.detach().clone()
    dist.all_reduce(reduced)
    return reduced / dist.get_world_size() if operation == "mean" else reduced


def any_rank(flag: bool, device: torch.device) -> bool:
    """Whether ``flag`` is set on any rank."""
    if not together():
        return flag
    return bool(all_reduce(torch.tensor(int(flag), device=device), "sum").item())


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all ranks, ``[N, ...]`` on every rank, rank after rank; ranks may hold different numbers."""
    if not together():
        return rows
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    most = int(torch.cat(counts).max())
    padded = rows.new_zeros(most, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.zeros_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(number)] for part, number in zip(parts, counts, strict=True)])


def gather_objects(value: T) -> list[T]:
    """Every rank's ``value``, on every rank; between processes of one run only, never from a file."""
    if not together():
        return [value]
    values: list[T] = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def barrier() -> None:
    """Wait until every rank is here."""
    if together():
        dist.barrier()
