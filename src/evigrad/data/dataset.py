"""What a data set must offer, and the three parts a named one comes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from .batch import Sample


@runtime_checkable
class MultimodalDataset(Protocol):
    """Rows of named modalities with one label each.

    ``modalities`` maps a name to the shape of one sample, ``classes`` fixes the order of the labels,
    ``target`` [N] holds them all (no file is opened for it), and ``protocol`` is one line that states split,
    selection and pairing.
    """

    @property
    def modalities(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of one sample of each modality, in a fixed order."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the C classes; a label is a position in it."""

    @property
    def protocol(self) -> str:
        """One line stating split, selection and pairing."""

    @property
    def target(self) -> Tensor:
        """Labels [N] long."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Sample: ...


@dataclass(frozen=True)
class Info:
    """What is known about a named data set without opening it."""

    name: str
    title: str
    modalities: tuple[str, ...]
    classes: int | None
    samples: int | None
    licence: str
    source: str
    protocols: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Splits:
    """Training, validation and test part of one data set; nothing is ever selected on ``test``."""

    train: MultimodalDataset
    validation: MultimodalDataset
    test: MultimodalDataset
    info: Info

    def parts(self) -> dict[str, MultimodalDataset]:
        """The three parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}
