"""Data sets that read whole batches, and data sets that change what another one gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from .batch import Batch, Sample, collate
from .dataset import MultimodalDataset


def fetch(dataset: MultimodalDataset, rows: Sequence[int]) -> Batch:
    """The batch of ``rows``, read at once where ``dataset`` can do so."""
    at_once: Any = getattr(dataset, "__getitems__", None)
    return collate(at_once(rows) if at_once is not None else [dataset[row] for row in rows])


class Batched(Dataset[Sample]):
    """A data set that defines ``__getitems__``, which DataLoader calls once a batch; single rows follow from it."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        raise NotImplementedError

    def __getitem__(self, row: int) -> Sample:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a data set with {len(self)} rows")
        batch = self.__getitems__([row])
        present = {name: bool(values[0]) for name, values in batch.present.items()}
        return Sample({name: values[0] for name, values in batch.inputs.items()}, batch.target[0], row, present)


class Wrapped(Batched):
    """Another data set, changed; ``protocol`` says in a few words how, and is added to the line of the other one."""

    def __init__(self, dataset: MultimodalDataset, protocol: str) -> None:
        self.dataset = dataset
        self.modalities, self.classes, self.target = dataset.modalities, dataset.classes, dataset.target
        self.present = presence(dataset)
        self.protocol = f"{dataset.protocol}; {protocol}"

    def __len__(self) -> int:
        return len(self.dataset)


def presence(dataset: MultimodalDataset) -> dict[str, torch.Tensor]:
    """Where each modality of ``dataset`` exists, {name: [N] bool}; read from the rows if it keeps no record."""
    if isinstance(record := getattr(dataset, "present", None), dict):
        return record
    rows = [dataset[row].present for row in range(len(dataset))]
    return {name: torch.tensor([bool(row.get(name, True)) for row in rows]) for name in dataset.modalities}
