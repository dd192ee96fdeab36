"""Every file of a table decoded once, into the arrays of the views format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .avdigits_files import Progress
from .cells import Decoding, decode
from .errors import DataError, DataReportError, require
from .table_check import Row, check, given_rows
from .views import RESERVED


def table_arrays(
    path: Path, progress: Progress, label: str = "label", columns: list[str] | None = None, **decoding: Any
) -> tuple[dict[str, Any], list[Path], list[str]]:
    """Arrays (none if no row is good), the files read, and a line for all that is wrong; bad rows are left out."""
    numpy = require("numpy", "train")
    how = Decoding(**decoding)
    checked = check(path, label, columns)
    taken = [name for name in checked.columns if name in RESERVED or name.startswith("present_")]
    if taken:
        raise DataReportError(
            path.name,
            [f"column {name!r}: this name has a meaning in the result; rename it" for name in taken],
        )
    shapes: dict[str, Tensor] = {}
    good: list[dict[str, Tensor]] = []
    rows: list[Row] = []
    for number, row in enumerate(checked.rows, 1):
        progress(number, len(checked.rows), f"row {number}")
        problems = checked.problems.setdefault(number, [])
        if not problems:
            values = _decode(path.parent, row, number, checked.columns, how, shapes, problems)
            if not problems:
                good.append(values)
                rows.append(row)
    arrays = _stack(good, shapes, rows, label, numpy) if good else {}
    cells = {path.parent / row[name] for row in checked.rows for name in checked.columns if row[name]}
    return arrays, [path, *sorted(cell for cell in cells if cell.is_file())], checked.lines()


def _decode(
    folder: Path,
    row: Row,
    number: int,
    columns: list[str],
    how: Decoding,
    shapes: dict[str, Tensor],
    problems: list[str],
) -> dict[str, Tensor]:
    values = {}
    for name in columns:
        if not row[name]:
            continue
        try:
            value = values[name] = decode(folder / row[name], how)
        except DataError as error:
            problems.append(f"row {number}, column {name!r}: {error}")
            continue
        like = shapes.setdefault(name, torch.zeros_like(value))
        if value.shape != like.shape:
            expected = f"{tuple(like.shape)}; give one shape throughout"
            problems.append(
                f"row {number}, column {name!r}: shape {tuple(value.shape)}, the column's first file {expected}"
            )
    return values


def _stack(good: list[dict[str, Tensor]], shapes: dict[str, Tensor], rows: list[Row], label: str, numpy: Any) -> Any:
    classes = sorted({row[label] for row in rows})
    given, group = given_rows(rows)
    arrays = {
        "y": numpy.array([classes.index(row[label]) for row in rows]),
        "class_names": numpy.array(classes),
    }
    for name in (column for column in rows[0] if column in shapes):  # in the order of the table
        empty = shapes[name]
        arrays[name] = torch.stack([values.get(name, empty) for values in good]).numpy()
        arrays[f"present_{name}"] = numpy.array([name in values for values in good])
    arrays["token_views"] = numpy.array([n for n, empty in shapes.items() if empty.dtype == torch.long], dtype="U")
    arrays |= {f"{part}_idx": numpy.array(chosen) for part, chosen in given.items()}
    return arrays if group is None else {**arrays, "group": numpy.array(group)}
