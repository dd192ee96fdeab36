"""What can be said about a table without opening the files that it names."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cells import READERS
from .errors import DataError, DataReportError, nearest, require

Row = Mapping[str, str]
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Checked:
    """The rows of a table, its modality columns, and what is wrong: row number (from 1) -> lines."""

    rows: list[Row]
    columns: list[str]
    problems: dict[int, list[str]]

    def lines(self) -> list[str]:
        """Everything that is wrong, in the order of the rows."""
        return [line for number in sorted(self.problems) for line in self.problems[number]]


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV or Parquet table as texts, missing values as empty texts."""
    if not path.is_file():
        raise DataError(f"{path}: no such table; give a .csv or .parquet file")
    if path.suffix.lower() == ".parquet":
        table = require("pyarrow.parquet", "table").read_table(path)
        return [{k: "" if v is None else str(v) for k, v in row.items()} for row in table.to_pylist()]
    if path.suffix.lower() != ".csv":
        raise DataError(f"{path}: the table's name must end in .csv or .parquet, not {path.suffix!r}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        lines = [line for line in reader if line]
    problems = [
        f"column {name!r} is there twice; rename one" for name in sorted({n for n in header if header.count(n) > 1})
    ]
    for number, line in enumerate(lines, 1):
        if len(line) != len(header):
            problems.append(f"row {number}: {len(line)} cells for {len(header)} columns")
    if problems:
        raise DataReportError(path.name, problems)
    return [dict(zip(header, (cell.strip() for cell in line), strict=True)) for line in lines]


def check(path: Path, label: str, columns: Iterable[str] | None) -> Checked:
    """Read a table and collect all that is wrong with its cells."""
    rows = read_rows(path)
    if not rows:
        raise DataError(f"{path}: the table has no row")
    for name in [label, *(columns or [])]:
        if name not in rows[0]:
            raise nearest(f"column in {path.name}:", name, rows[0])
    names = list(columns) if columns is not None else [n for n in rows[0] if n not in (label, "split", "group")]
    if not names:
        raise DataError(f"{path.name}: there is no column besides the label; name files in at least one")
    problems: dict[int, list[str]] = {}
    first: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        found = [_cell_problem(path.parent, row[name], first.setdefault(name, row[name])) for name in names]
        for name in names:
            first[name] = first[name] or row[name]
        lines = [f"row {number}, column {n!r}: {text}" for n, text in zip(names, found, strict=True) if text]
        lines += [] if row[label] else [f"row {number}, column {label!r}: the label is missing"]
        lines += [] if any(row[name] for name in names) else [f"row {number}: no modality is there; remove the row"]
        if row.get("split", "train") not in PARTS:
            lines.append(f"row {number}, column 'split': {row['split']!r} is not train, validation or test")
        if lines:
            problems[number] = lines
    return Checked(rows, names, problems)


def given_rows(rows: Sequence[Row]) -> tuple[dict[str, list[int]], list[str] | None]:
    """Row numbers (from 0) by the column ``split``, and the column ``group``, where they exist."""
    group = [row["group"] for row in rows] if rows and "group" in rows[0] else None
    parts = {part: [i for i, row in enumerate(rows) if row.get("split") == part] for part in PARTS}
    return {part: chosen for part, chosen in parts.items() if chosen}, group


def _cell_problem(folder: Path, cell: str, first: str) -> str:
    if not cell:
        return ""
    reader: Any = READERS.get(Path(cell).suffix.lower())
    if reader is None:
        return f"{cell!r} is no {', '.join(k[1:] for k in READERS)} file; columns=[...] names the columns to use"
    if first and reader is not READERS.get(Path(first).suffix.lower(), reader):
        return f"{cell!r} is another kind of file than {first!r} above"
    return "" if (folder / cell).is_file() else f"no such file {folder / cell}"
