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
    """The rows of a table, its modality columns, and what is wrong: row number (from 1; 0: all rows) -> lines."""

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
        return _parquet(path)
    if path.suffix.lower() != ".csv":
        raise DataError(f"{path}: the table's name must end in .csv or .parquet, not {path.suffix!r}")
    return _csv(path)


def _csv(path: Path) -> list[Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *lines = [line for line in csv.reader(file) if line] or [[]]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error}); save the table as CSV in UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}: not a readable CSV table ({error}); look for a quote that is not closed") from error
    header = [name.strip() for name in header]
    for mark, what in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise DataError(f"{path}: its columns are separated by {what}; save the table with commas")
    problems = _twice(header)
    for number, line in enumerate(lines, 1):
        if len(line) != len(header):
            problems.append(f"row {number}: {len(line)} cells for {len(header)} columns")
    if problems:
        raise DataReportError(path.name, problems)
    return [dict(zip(header, (cell.strip() for cell in line), strict=True)) for line in lines]


def _twice(header: list[str]) -> list[str]:
    return [
        f"column {name!r} is there twice; rename one" for name in sorted({n for n in header if header.count(n) > 1})
    ]


def _parquet(path: Path) -> list[Row]:
    arrow, parquet = require("pyarrow", "table"), require("pyarrow.parquet", "table")
    try:
        problems = _twice(parquet.read_schema(path).names)
        table = None if problems else parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet table ({error}); write it again") from error
    if table is None:
        raise DataReportError(path.name, problems)
    return [{name: _cell(value) for name, value in row.items()} for row in table.to_pylist()]


def _cell(value: object) -> str:
    """A value as the text that a CSV table would hold; NaN, by which pandas marks a gap, is a missing one."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # whole numbers with a gap among them are written as floats
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value).strip()


def check(path: Path, label: str, columns: Iterable[str] | None) -> Checked:
    """Read a table and collect all that is wrong with its cells."""
    rows = read_rows(path)
    if not rows:
        raise DataError(f"{path}: the table has no row")
    for name in [label, *(columns or [])]:
        if name not in rows[0]:
            raise nearest(f"column in {path.name}:", name, rows[0])
    names = list(columns) if columns is not None else [n for n in rows[0] if n not in (label, "split", "group")]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{path.name}: columns={names}: {twice[0]!r} is there twice; name each column once")
    if not names:
        raise DataError(f"{path.name}: there is no column besides the label; name files in at least one")
    problems: dict[int, list[str]] = {}
    first: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        found = [_cell_problem(path.parent, row[name], first.setdefault(name, row[name])) for name in names]
        for name in names:
            first[name] = first[name] or row[name]
        lines = [f"row {number}, column {n!r}: {text}" for n, text in zip(names, found, strict=True) if text]
        lines += _row_problems(number, row, names, label)
        if lines:
            problems[number] = lines
    if lines := _whole_table(rows, names, label):
        problems[0] = lines
    return Checked(rows, names, problems)


def _row_problems(number: int, row: Row, names: Sequence[str], label: str) -> list[str]:
    lines = [] if row[label] else [f"row {number}, column {label!r}: the label is missing"]
    if not any(row[name] for name in names):
        lines.append(f"row {number}: no modality is there; remove the row")
    if row.get("split", "train") not in PARTS:
        lines.append(f"row {number}, column 'split': {row['split']!r} is not train, validation or test")
    if not row.get("group", "one"):
        lines.append(f"row {number}, column 'group': the group is missing; name one, or remove the column")
    return lines


def _whole_table(rows: Sequence[Row], names: Sequence[str], label: str) -> list[str]:
    lines = [f"column {n!r} has no file in any row; remove the column" for n in names if not any(r[n] for r in rows)]
    if len(labels := {row[label] for row in rows if row[label]}) == 1:
        lines.append(f"column {label!r} has the one class {labels.pop()!r}; give rows of at least two")
    return lines


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
    try:
        return "" if (folder / cell).is_file() else f"no such file {folder / cell}"
    except OSError as error:
        return f"{cell[:40]!r}... names no file ({error.strerror})"
