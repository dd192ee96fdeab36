"""From a data set to batches: an order that can be resumed, and workers that change nothing."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .batch import Batch, Sample, collate
from .dataset import MultimodalDataset
from .errors import DataError
from .seeding import stream
from .wrapped import fetch


class EpochSampler(Sampler[int]):
    """A new order of the rows for each epoch; its whole state is (seed, epoch, position).

    ``position`` counts the rows that the training loop has used, over all processes, and moves only when the
    loop says so with :meth:`advance`: what workers fetched ahead is not lost when a run stops. Iterating
    starts there.

    With ``replicas`` processes, the k-th batches of all ranks together hold the same rows as the k-th batch
    of a single process whose batch is ``replicas`` times as large. The order is then padded from its own
    beginning so that every rank has equally many rows; ``Batch.index`` shows repeated rows.

    >>> sampler = EpochSampler(4, seed=1)
    >>> order = list(sampler)
    >>> sampler.advance(3)
    >>> list(sampler) == order[3:]
    True
    """

    def __init__(self, length: int, seed: int = 0, *, shuffle: bool = True, rank: int = 0, replicas: int = 1) -> None:
        if length < 1:
            raise DataError("length=0: the data set is empty, there is nothing to sample")
        if not 0 <= rank < replicas:
            raise DataError(f"rank={rank}: it must lie in 0..{replicas - 1} with replicas={replicas}")
        self.length, self.seed, self.shuffle, self.rank, self.replicas = length, seed, shuffle, rank, replicas
        self.epoch = self.position = 0

    def order(self) -> list[int]:
        """All rows of this epoch in the order of use, over all ranks."""
        rows = torch.arange(self.length)
        if self.shuffle:
            rows = torch.randperm(self.length, generator=stream(self.seed, "epoch", self.epoch))
        padded = -(-self.length // self.replicas) * self.replicas
        return [int(rows[i % self.length]) for i in range(padded)]

    def __iter__(self) -> Iterator[int]:
        return iter(self.order()[self.position :][self.rank :: self.replicas])

    def __len__(self) -> int:
        padded = -(-self.length // self.replicas) * self.replicas
        return max(0, padded - self.position) // self.replicas

    def advance(self, count: int) -> None:
        """Note that this rank (and so every other) has used ``count`` more rows."""
        self.position += count * self.replicas

    def start(self, epoch: int) -> None:
        """Go to the beginning of ``epoch``."""
        self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Seed, epoch and position."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue where ``state`` was taken."""
        self.seed, self.epoch, self.position = state["seed"], state["epoch"], state["position"]


def seed_worker(worker: int) -> None:
    """Give Python's and numpy's global generators in a loader's worker the seed that torch gave the worker."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def batches(
    dataset: MultimodalDataset,
    batch_size: int,
    sampler: Sampler[int] | None = None,
    *,
    workers: int = 0,
    generator: torch.Generator | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
) -> DataLoader[Sample]:
    """A DataLoader of :class:`Batch`; without ``sampler`` the rows come in their own order.

    ``generator`` seeds the workers. The data sets of this package draw nothing from a worker's global
    generators, so the number of workers never changes a batch; it is there for data sets of yours that do.
    """
    if batch_size < 1:
        raise DataError(f"batch_size={batch_size}: give at least 1")
    options: dict[str, Any] = {"persistent_workers": True, "worker_init_fn": seed_worker} if workers else {}
    rows: Dataset[Sample] = dataset  # type: ignore[assignment]  # a map-style data set need not inherit from torch's
    return DataLoader(
        rows,
        batch_size,
        sampler=sampler,
        num_workers=workers,
        collate_fn=collate,
        generator=generator,
        drop_last=drop_last,
        pin_memory=pin_memory,
        **options,
    )


def whole(dataset: MultimodalDataset) -> Batch:
    """The whole data set as one batch."""
    return fetch(dataset, range(len(dataset)))
