"""Rows whose modalities contradict each other, as in evidential conflictive multi-view learning (RCML/ECML)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .batch import Batch
from .dataset import MultimodalDataset
from .errors import DataError, nearest
from .wrapped import Wrapped, fetch, presence


class ConflictDataset(Wrapped):
    """``dataset`` where row i of modality m comes from row ``donor[m][i]`` of ``donors`` (-1: stays as it is)."""

    def __init__(
        self, dataset: MultimodalDataset, donors: MultimodalDataset, donor: Mapping[str, Tensor], protocol: str
    ) -> None:
        super().__init__(dataset, protocol)
        self.donors, self.donor = donors, dict(donor)
        self.hit = {name: rows >= 0 for name, rows in donor.items()}

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        batch = fetch(self.dataset, rows)
        inputs = dict(batch.inputs)
        for name, donor in self.donor.items():
            values = list(inputs[name])
            for at, row in enumerate(rows):
                if self.hit[name][row]:
                    values[at] = self.donors[int(donor[row])].inputs[name]
            inputs[name] = torch.stack(values)
        return replace(batch, inputs=inputs)


def ecml_conflict(
    dataset: MultimodalDataset,
    donors: MultimodalDataset,
    generator: torch.Generator,
    *,
    share: float = 0.4,
    donor: str = "first",
) -> ConflictDataset:
    """One random view of ``share`` of the rows is replaced by that of a row of the next class, (y + 1) mod C.

    ``donor="first"`` takes the first such row of ``donors``, always the same one (the released code does so
    with all rows in file order; pass the training part to keep test rows among themselves); ``"random"``
    draws one each time.
    """
    if donor not in ("first", "random"):
        raise nearest("value of donor", donor, ("first", "random"))
    if not 0 <= share <= 1:
        raise DataError(f"share={share}: the share of rows must lie between 0 and 1")
    names = tuple(dataset.modalities)
    there, donors_there = presence(dataset), presence(donors)
    table = {name: torch.full((len(dataset),), -1) for name in names}
    for row in torch.randperm(len(dataset), generator=generator)[: round(share * len(dataset))].tolist():
        choices = [name for name in names if there[name][row]]
        if not choices:
            continue  # a row without any modality has none to contradict the others
        name = choices[int(torch.randint(len(choices), (), generator=generator))]
        wanted = (int(dataset.target[row]) + 1) % len(dataset.classes)
        rows = ((donors.target == wanted) & donors_there[name]).nonzero()[:, 0]
        if not len(rows):
            raise DataError(
                f"donors: no row of class {dataset.classes[wanted]!r} has modality {name!r}; pass more rows"
            )
        pick = 0 if donor == "first" else int(torch.randint(len(rows), (), generator=generator))
        table[name][row] = rows[pick]
    line = f"conflict ecml_conflict: one view of {share:.0%} of the rows from the {donor} row of the next class"
    return ConflictDataset(dataset, donors, table, line)
