"""A data set that lies in memory, one tensor for each modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from .batch import Batch, blank
from .dataset import Info, Splits
from .errors import DataError
from .scaling import Affine, fit
from .wrapped import Batched


class Views(Batched):
    """N rows of named tensors [N, ...].

    Values are kept as stored (bytes stay bytes) and become float32 when a row is read, after the modality's
    ``affine``. Token ids (int64) are left alone. ``present`` gives the rows where a modality exists.

    >>> data = Views({"a": torch.zeros(4, 3)}, torch.tensor([0, 1, 0, 1]), ("no", "yes"), "all rows")
    >>> data.modalities, len(data)
    ({'a': (3,)}, 4)
    """

    def __init__(
        self,
        inputs: Mapping[str, Tensor],
        target: Tensor,
        classes: Sequence[str],
        protocol: str,
        present: Mapping[str, Tensor] | None = None,
        affine: Mapping[str, Affine] | None = None,
    ) -> None:
        given = present or {}
        self.inputs, self.target = dict(inputs), target.long()
        self.classes, self.protocol = tuple(classes), protocol
        self.present = {name: given.get(name, torch.ones(len(target), dtype=torch.bool)) for name in inputs}
        self.affine = dict(affine or {})
        for name, values in [*self.inputs.items(), *self.present.items()]:
            if len(values) != len(target):
                raise DataError(f"modality {name!r} has {len(values)} rows, the labels {len(target)}; one row a sample")
        outside = (self.target < 0) | (self.target >= len(self.classes))
        if outside.any():
            row = int(outside.nonzero()[0, 0])
            raise DataError(f"row {row}: label {int(self.target[row])} is not in 0..{len(self.classes) - 1}")

    @property
    def modalities(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of one sample of each modality."""
        return {name: tuple(values.shape[1:]) for name, values in self.inputs.items()}

    def __len__(self) -> int:
        return len(self.target)

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """The rows as one batch: what DataLoader asks for, at once instead of sample by sample."""
        index = torch.as_tensor(rows, dtype=torch.long)
        present = {name: values[index] for name, values in self.present.items()}
        inputs = {name: blank(self._read(name, index), present[name]) for name in self.inputs}
        return Batch(inputs, self.target[index], present, index)

    def _read(self, name: str, index: Tensor) -> Tensor:
        values = self.inputs[name][index]
        if name in self.affine:
            return self.affine[name](values)
        return values if values.dtype == torch.long else values.float()

    def values(self, name: str) -> Tensor:
        """One modality [N, ...] as read, for everything that wants it whole."""
        return self.__getitems__(range(len(self))).inputs[name]

    def select(self, rows: Tensor, protocol: str | None = None) -> Self:
        """The data set of ``rows`` ([n] long) alone, in that order."""
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__, protocol=protocol or self.protocol, target=self.target[rows])
        other.inputs = {name: values[rows] for name, values in self.inputs.items()}
        other.present = {name: values[rows] for name, values in self.present.items()}
        return other


def split_views(
    data: Views,
    rows: Mapping[str, Tensor],
    info: Info,
    protocol: str,
    scaling: str = "none",
    keep: Sequence[str] = (),
) -> Splits:
    """Cut ``data`` into train, validation and test and scale every modality except token ids and those in ``keep``."""
    everyone = torch.cat([rows["train"], rows["validation"], rows["test"]])
    if len(torch.unique(everyone)) != len(everyone):
        raise DataError(f"{info.name}: a row is in two parts of the split; give every row to one part only")
    parts = {name: data.select(chosen, f"{info.name}, {name}: {protocol}") for name, chosen in rows.items()}
    whole = data.select(everyone)
    names = [n for n, values in data.inputs.items() if n not in keep and values.dtype != torch.long]
    for part in parts.values():
        # Every scaling here is invariant under an affine map, so it is fitted on, and applied to, the stored
        # values.
        fitted = {
            n: fit(scaling, *(each.inputs[n][each.present[n]] for each in (parts["train"], part, whole)))
            for n in (names if scaling != "none" else [])
        }
        part.affine = data.affine | fitted
    info = replace(info, modalities=tuple(data.inputs), classes=len(data.classes), samples=len(everyone))
    return Splits(parts["train"], parts["validation"], parts["test"], info)
