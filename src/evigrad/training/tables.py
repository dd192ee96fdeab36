"""CSV and JSON-lines files that grow row by row and can be cut back to where a checkpoint was taken."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from evigrad.training.files import force_to_disk, storage_errors

Row = Mapping[str, "float | int | str"]


class GrowingFile:
    """Rows are appended as they come; ``sync``, ``size`` and ``cut`` make a resumed file identical.

    A CSV file's columns are those of its first row. Any other suffix holds one JSON object per line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] | None = _header(path) if path.suffix == ".csv" else None

    def append(self, rows: Sequence[Row]) -> None:
        """Add ``rows``; another process sees them at once, and a power cut may still lose them until :meth:`sync`."""
        if not rows:
            return
        text = self._csv(rows) if self.path.suffix == ".csv" else _lines(rows)
        with storage_errors(self.path), self.path.open("a", newline="") as file:
            file.write(text)

    def sync(self) -> None:
        """Force what was appended to the disk; done before a checkpoint that counts on it."""
        if self.path.exists():
            with storage_errors(self.path):
                force_to_disk(self.path)

    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int) -> None:
        """Forget what was written after the file had ``size`` bytes."""
        if size < self.size():
            with storage_errors(self.path):
                os.truncate(self.path, size)
        elif size > self.size():
            raise ValueError(
                f"{self.path} has {self.size()} bytes and had {size} when the checkpoint was written: somebody "
                "shortened it. Restore it from a copy, or start a new run."
            )
        self.columns = _header(self.path) if self.path.suffix == ".csv" else None

    def _csv(self, rows: Sequence[Row]) -> str:
        buffer = io.StringIO()
        first = self.columns is None
        columns = self.columns or list(rows[0])
        writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
        if first:
            writer.writeheader()
            self.columns = columns
        writer.writerows(rows)
        return buffer.getvalue()


def _lines(rows: Sequence[Row]) -> str:
    """One object a line; JSON has no word for NaN and infinity, which become null."""
    clean = [{key: _or_null(value) for key, value in row.items()} for row in rows]
    return "".join(json.dumps(row) + "\n" for row in clean)


def _or_null(value: float | int | str) -> float | int | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file as text."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _header(path: Path) -> list[str] | None:
    if not path.exists() or path.stat().st_size == 0:
        return None
    with path.open(newline="") as file:
        return next(csv.reader(file))
