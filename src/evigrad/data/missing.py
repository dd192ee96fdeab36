"""Modalities that are not there: at random or by name, for a sample or for a batch, in training and at test.

Everything here keeps at least one modality of a row, never brings back one that was absent before, and says
what it took away. Inputs of removed modalities become zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .batch import Altered, Batch, Sample, blank
from .dataset import MultimodalDataset
from .errors import DataError, nearest


def subsets(modalities: Collection[str]) -> list[tuple[str, ...]]:
    """All 2^M - 1 non-empty subsets, small ones first, in the order of the missing-modality tables.

    >>> subsets(["a", "b"])
    [('a',), ('b',), ('a', 'b')]
    """
    return [kept for size in range(1, len(modalities) + 1) for kept in combinations(modalities, size)]


def draw(present: Tensor, probability: float, generator: torch.Generator, per: str = "sample") -> Tensor:
    """What remains of ``present`` [B, M] when each modality is dropped with ``probability``.

    A row that would lose everything is drawn again, so with ``probability=0.5`` every non-empty subset of
    what was there is equally likely. ``per="batch"`` draws one subset for all rows; a row that has nothing of
    it draws its own.
    """
    if not 0 <= probability < 1:
        raise DataError(f"probability={probability}: it must lie in [0, 1), one modality has to stay")
    if per not in ("sample", "batch"):
        raise nearest("value of per", per, ("sample", "batch"))
    kept = torch.zeros_like(present)
    if per == "batch":
        kept = present & draw(present.any(0, keepdim=True), probability, generator)
    while len(rows := (present.any(1) & ~kept.any(1)).nonzero()[:, 0]):
        chance = torch.rand(len(rows), present.shape[1], generator=generator, device=generator.device)
        kept[rows] = present[rows] & (chance >= probability).to(present.device)
    return kept


def drop(batch: Batch, probability: float, generator: torch.Generator, per: str = "sample") -> Altered:
    """Modality dropout for training: remove modalities of ``batch`` at random, see :func:`draw`."""
    return _mask(batch, draw(_table(batch.present), probability, generator, per))


def keep(batch: Batch, names: Collection[str]) -> Altered:
    """Keep only the modalities ``names`` of ``batch``. A row that has none of them becomes a row without any."""
    _known(names, batch.inputs)
    wanted = torch.tensor([name in names for name in batch.inputs], device=batch.target.device)
    return _mask(batch, _table(batch.present) & wanted)


class MissingDataset(Dataset[Sample]):
    """``dataset`` with the modalities in ``hit`` ({name: [N] bool}) removed; the same ones each time."""

    def __init__(self, dataset: MultimodalDataset, hit: Mapping[str, Tensor], protocol: str) -> None:
        self.dataset, self.hit = dataset, dict(hit)
        self.modalities, self.classes, self.target = dataset.modalities, dataset.classes, dataset.target
        self.present = {name: there & ~self.hit.get(name, ~there) for name, there in presence(dataset).items()}
        self.protocol = f"{dataset.protocol}; {protocol}"

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Sample:
        sample = self.dataset[row]
        gone = {name for name, hit in self.hit.items() if hit[row]}
        inputs = {name: torch.zeros_like(x) if name in gone else x for name, x in sample.inputs.items()}
        return replace(sample, inputs=inputs, present={**sample.present, **dict.fromkeys(gone, False)})


def remove(dataset: MultimodalDataset, names: Collection[str]) -> MissingDataset:
    """``dataset`` without the modalities ``names``, for every row (a column of a missing-modality table)."""
    _known(names, dataset.modalities)
    if not set(dataset.modalities) - set(names):
        raise DataError(f"names={sorted(names)}: that is every modality, one has to stay")
    there = presence(dataset)
    return MissingDataset(dataset, {name: there[name] for name in names}, f"without {', '.join(names)}")


def remove_at_random(dataset: MultimodalDataset, probability: float, generator: torch.Generator) -> MissingDataset:
    """``dataset`` with modalities missing at random, drawn once for all rows, see :func:`draw`; ``hit`` records it."""
    there = _table(presence(dataset))
    gone = there & ~draw(there, probability, generator)
    hit = {name: gone[:, i] for i, name in enumerate(dataset.modalities)}
    return MissingDataset(dataset, hit, f"each modality missing with probability {probability}, one stays")


def presence(dataset: MultimodalDataset) -> dict[str, Tensor]:
    """Where each modality of ``dataset`` exists, {name: [N] bool}; read from the rows if it keeps no record."""
    if isinstance(record := getattr(dataset, "present", None), dict):
        return record
    rows = [dataset[row].present for row in range(len(dataset))]
    return {name: torch.tensor([bool(row.get(name, True)) for row in rows]) for name in dataset.modalities}


def _table(present: Mapping[str, Tensor]) -> Tensor:
    return torch.stack(list(present.values()), 1)


def _mask(batch: Batch, kept: Tensor) -> Altered:
    present = {name: kept[:, i] for i, name in enumerate(batch.inputs)}
    hit = {name: batch.present[name] & ~present[name] for name in batch.inputs}
    inputs = {name: blank(values, present[name]) for name, values in batch.inputs.items()}
    return Altered(replace(batch, inputs=inputs, present=present), hit)


def _known(names: Collection[str], modalities: Collection[str]) -> None:
    for name in names:
        if name not in modalities:
            raise nearest("modality", name, modalities)
