"""Modalities that are not there: at random or by name, for a sample or for a batch, in training and at test.

Everything here keeps at least one modality of a row, never brings back one that was absent before, and says
what it took away. Inputs of removed modalities become zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from .batch import Altered, Batch, blank
from .dataset import MultimodalDataset
from .errors import DataError, nearest
from .wrapped import Wrapped, fetch, presence


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


class MissingDataset(Wrapped):
    """``dataset`` with the modalities in ``hit`` ({name: [N] bool}) removed; the same ones each time."""

    def __init__(self, dataset: MultimodalDataset, hit: Mapping[str, Tensor], protocol: str) -> None:
        super().__init__(dataset, protocol)
        self.hit = {name: hit.get(name, ~there) & there for name, there in self.present.items()}
        self.present = {name: there & ~self.hit[name] for name, there in self.present.items()}

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        index = torch.as_tensor(rows, dtype=torch.long)
        return _mask(fetch(self.dataset, rows), torch.stack([there[index] for there in self.present.values()], 1)).batch


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
