"""Batches from a data set: by plan for training, all of them in order for evaluation."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from evigrad.training.order import derived_seed

if TYPE_CHECKING:
    from evigrad.data import Batch, MultimodalDataset


def load(
    dataset: MultimodalDataset,
    batches: Iterable[list[int]],
    device: torch.device,
    workers: int = 0,
    seed: tuple[int, ...] = (0,),
) -> Iterator[Batch]:
    """The given ``batches`` of positions, collated and moved to ``device``.

    With ``workers`` every sample of a data set that is read row by row is drawn under a seed made of ``seed`` and
    its position, so that augmentation doesn't depend on how many workers there are or where a resumed epoch
    started. Without, samples share the training process's generators, which a checkpoint holds. (Data sets of
    this package that read whole batches draw nothing from global generators.)
    """
    whole_batches = hasattr(dataset, "__getitems__")
    source: Any = _SeededInWorkers(dataset, seed) if workers and not whole_batches else dataset
    loader: DataLoader[Any] = DataLoader(
        source,
        batch_sampler=_Fixed(batches),
        collate_fn=_collate(),
        num_workers=workers,
        worker_init_fn=_outlive_signals if workers else None,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(derived_seed(*seed)),
    )
    for batch in loader:
        yield batch.to(device)


def in_order(size: int, batch_size: int, rank: int = 0, world_size: int = 1) -> list[list[int]]:
    """Positions ``rank, rank + world_size, ...`` in batches; every sample of the set in exactly one, none dropped."""
    mine = list(range(rank, size, world_size))
    return [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]


def _collate() -> Callable[[Any], Batch]:
    from evigrad.data import collate

    chosen: Callable[[Any], Batch] = collate
    return chosen


def _outlive_signals(worker: int) -> None:
    """Ctrl-C and schedulers signal all processes of a run; without its loaders it couldn't finish the step and save."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class _Fixed:
    """A batch sampler that is just a sequence of batches."""

    def __init__(self, batches: Iterable[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)


class _SeededInWorkers(Dataset[Any]):
    """A data set whose samples depend on the seed and their position, not on the worker that draws them."""

    def __init__(self, dataset: MultimodalDataset, seed: tuple[int, ...]) -> None:
        self.dataset = dataset
        self.seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        if get_worker_info() is not None:
            torch.manual_seed(derived_seed(*self.seed, index))
        return self.dataset[index]
