"""Your own files, named by a table (CSV or Parquet) with one row a sample.

- One column holds the label (``label`` unless another is named).
- Optional columns: ``split`` ("train", "validation" or "test" in each row) and ``group`` (rows to be kept
  together).
- Every other column is a modality. Its cells name files, relative to the table's folder, all of one kind:
  wav, png/jpg, npy or txt. An empty cell: that row has no such modality. A row needs at least one.

Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .batch import Sample
from .cells import Decoding, decode
from .dataset import Info, Splits
from .errors import DataError, DataReportError
from .partition import partition
from .table_check import Row, check, given_rows

INFO = Info(
    name="table",
    title="Your own files, named by a CSV or Parquet table",
    modalities=(),
    classes=None,
    samples=None,
    licence="yours",
    source="path=...",
    protocols=("given", "seeded"),
)


class TableDataset(Dataset[Sample]):
    """Rows of a table; files are opened when a row is read. Images are floats in [0, 1]."""

    def __init__(
        self, rows: Sequence[Row], columns: Sequence[str], target: Tensor, classes: Sequence[str], folder: Path,
        how: Decoding, protocol: str, numbers: Sequence[int] | None = None, empty: Mapping[str, Tensor] | None
        = None,
    ) -> None:  # fmt: skip
        self.rows, self.columns, self.target, self.classes = rows, tuple(columns), target, tuple(classes)
        self.folder, self.how, self.protocol = folder, how, protocol
        self.numbers = list(numbers or range(1, len(rows) + 1))
        self.present = {c: torch.tensor([bool(row[c]) for row in rows], dtype=torch.bool) for c in columns}
        self.empty = dict(empty) if empty is not None else {c: self._blank(c) for c in columns}

    @cached_property
    def modalities(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of one sample of each modality."""
        return {name: tuple(value.shape) for name, value in self.empty.items()}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Sample:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a table with {len(self)} rows")
        present = {column: bool(self.rows[row][column]) for column in self.columns}
        inputs = {c: self.read(row, c) if present[c] else self.empty[c] for c in self.columns}
        return Sample(inputs, self.target[row], row, present)

    def read(self, row: int, column: str) -> Tensor:
        """One cell's file; what is wrong with it names the row and the column."""
        value = self._decode(row, column)
        if value.shape != self.empty[column].shape:
            raise DataError(
                f"row {self.numbers[row]}, column {column!r}: {self.rows[row][column]} has shape {tuple(value.shape)}, "
                f"the column's first file {tuple(self.empty[column].shape)}; give one shape throughout"
            )
        return value

    def select(self, chosen: Tensor, protocol: str) -> TableDataset:
        """The rows ``chosen`` ([n] long) alone."""
        index = chosen.tolist()
        return TableDataset(
            [self.rows[i] for i in index], self.columns, self.target[chosen], self.classes, self.folder,
            self.how, protocol, [self.numbers[i] for i in index], self.empty,
        )  # fmt: skip

    def _decode(self, row: int, column: str) -> Tensor:
        try:
            value = decode(self.folder / self.rows[row][column], self.how)
        except DataError as error:
            raise DataError(f"row {self.numbers[row]}, column {column!r}: {error}") from error
        return value / 255 if value.dtype == torch.uint8 else value

    def _blank(self, column: str) -> Tensor:
        """What an absent modality looks like: zeros, shaped like the first file of the column."""
        rows = self.present[column].nonzero()[:, 0]
        if not len(rows):
            raise DataError(f"column {column!r} has no file in any row; remove the column")
        return torch.zeros_like(self._decode(int(rows[0]), column))


def load_table(
    *,
    path: str | Path,
    label: str = "label",
    columns: Iterable[str] | None = None,
    split: str | None = None,
    seed: int = 0,
    validation: float = 0.2,
    test: float = 0.2,
    **decoding: Any,
) -> Splits:
    """Files of your own: a CSV or Parquet table with one row a sample.

    One column holds the class; every other column is a modality, whose cells name files relative to the table: wav,
    png or jpg, npy, txt. An empty cell: that sample has no such modality. Optional columns: "split" (train,
    validation or test) and "group".

    Args:
        path: The table.
        label: The column that holds the class.
        columns: The modalities, where there are other columns too; all columns but label, split and group if not
            given.
        split: "given" follows the column split; "seeded" cuts by the seed, keeping the classes' shares or, where
            there is a column group, the groups whole. "given" where there is such a column.
        seed: Of what is cut.
        validation: Share of the training rows that is held out to select on; a fifth is enough to rank epochs by.
        test: Share of the rows that is held out for test, where the table names none.
        decoding: How files are read: options of :class:`Decoding`.
    """
    path = Path(path)
    how = Decoding(**decoding)
    checked = check(path, label, columns)
    if checked.problems:
        raise DataReportError(path.name, checked.lines())
    classes = sorted({row[label] for row in checked.rows})
    target = torch.tensor([classes.index(row[label]) for row in checked.rows])
    data = TableDataset(checked.rows, checked.columns, target, classes, path.parent, how, f"all rows of {path.name}")
    given, group = given_rows(data.rows)
    rows, line = partition(path.name, data.target, given, group, split, seed, validation, test)
    parts = {
        part: data.select(chosen, f"{path.stem}, {part}: {line}; modalities paired by row")
        for part, chosen in rows.items()
    }
    info = replace(
        INFO,
        name=path.stem,
        modalities=data.columns,
        classes=len(data.classes),
        samples=sum(map(len, rows.values())),
    )
    return Splits(**parts, info=info)
