"""From a data set to batches, for a loop of your own; workers change nothing."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from .batch import Batch, Sample, collate
from .dataset import MultimodalDataset
from .errors import DataError
from .wrapped import fetch


def seed_worker(worker: int) -> None:
    """Give Python's and numpy's global generators in a loader's worker the seed that torch gave the worker."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def batches(
    dataset: MultimodalDataset,
    batch_size: int,
    *,
    shuffle: bool = False,
    workers: int = 0,
    generator: torch.Generator | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
) -> DataLoader[Sample]:
    """A DataLoader of :class:`Batch`; without ``shuffle`` the rows come in their own order.

    ``generator`` decides the order and seeds the workers. The data sets of this package draw nothing from a worker's
    global generators, so the number of workers never changes a batch; it is there for data sets of yours that do.
    """
    if batch_size < 1:
        raise DataError(f"batch_size={batch_size}: give at least 1")
    options: dict[str, Any] = {"persistent_workers": True, "worker_init_fn": seed_worker} if workers else {}
    rows: Dataset[Sample] = dataset  # type: ignore[assignment]  # a map-style data set need not inherit from torch's
    return DataLoader(
        rows,
        batch_size,
        shuffle=shuffle,
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
