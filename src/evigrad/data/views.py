"""Your own feature views, from an npz file or a folder of npy files.

One array a name, N rows each:

- ``y`` [N]: labels, numbers from 0 or texts (the classes in the order of ``class_names``, else sorted);
- every other array with two or more axes is a view, called by its name, ``[N, ...]``; a row of NaN is an
  absent one;
- optional ``present_<view>`` [N] bool; ``class_names`` [C]; ``group`` [N], rows that must not be separated;
  ``train_idx``, ``validation_idx``, ``test_idx``, row numbers of a split; ``token_views``, the names of views
  that hold token ids and are never scaled.

Views may also be called ``x0``, ``x1``, ... with their names in ``view_names``. Arrays with one axis and
texts are left alone unless ``views=`` names them (texts become token ids). Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .arrays import Arrays, read_arrays
from .dataset import Info, Splits
from .errors import DataError, DataReportError, nearest, require
from .labels import as_text, read_labels
from .memory import Views, split_views
from .partition import partition
from .text import encode

RESERVED = (
    "y",
    "class_names",
    "view_names",
    "token_views",
    "group",
    "train_idx",
    "validation_idx",
    "test_idx",
)

INFO = Info(
    name="views",
    title="Your own feature views: an npz file or a folder of npy files",
    modalities=(),
    classes=None,
    samples=None,
    licence="yours",
    source="path=...",
    protocols=("given", "seeded"),
)


def views_from_arrays(
    source: str,
    arrays: Arrays,
    views: Iterable[str] | None = None,
    text_length: int = 64,
    text: str = "words",
) -> Views:
    """Check the arrays of the documented format and put them into a data set of all rows."""
    if "y" not in arrays:
        raise DataError(
            f"{source}: there is no array 'y' with the labels; it has {', '.join(sorted(arrays)) or 'none'}"
        )
    target, classes = read_labels(source, arrays)
    inputs: dict[str, Tensor] = {}
    present: dict[str, Tensor] = {}
    problems: list[str] = []
    chosen = _chosen(source, arrays, views)
    tokens = set(_listed(arrays, "token_views"))
    problems += _strangers(arrays)
    for name, key in chosen.items():
        array = arrays[key]
        if problem := _unfit(name, array, len(target), name in tokens):
            problems.append(problem)
            continue
        if array.dtype.kind in "US":
            inputs[name] = torch.stack([encode(as_text(line), text_length, text) for line in array])
        else:
            inputs[name] = _numbers(array, name in tokens)
        absent, bad = _gaps(name, inputs[name], arrays.get(f"present_{name}"))
        present[name] = ~absent
        problems += bad
    if problems:
        raise DataReportError(source, problems)
    return Views(inputs, target, classes, f"all rows of {source}", present)


def load_views(
    *,
    path: str | Path,
    views: Iterable[str] | None = None,
    split: str | None = None,
    seed: int = 0,
    validation: float = 0.2,
    test: float = 0.2,
    scaling: str = "standard",
    text_length: int = 64,
    text: str = "words",
) -> Splits:
    """Feature views of your own: an npz file, or a folder of npy files, with one array a name and N rows each.

    ``y`` [N] holds the labels, numbers from 0 or texts; every other array with two axes or more is a view. A
    row of NaN, or False in ``present_<view>`` [N], is a sample without that view. Optional: ``group`` [N],
    ``train_idx``, ``test_idx``, ``validation_idx``, ``class_names`` [C], ``token_views``.

    Args:
        path: The npz file or the folder.
        views: The names of those to use; all with two axes or more if not given. Texts, and one number a row, are
            used only if they are named here.
        split: "given" takes train_idx and test_idx (and validation_idx where there is one); "seeded" cuts by the
            seed, keeping the classes' shares or, where there is an array group, the groups whole. "given" if the
            indices are there.
        seed: Of what is cut.
        validation: Share of the training rows that is held out to select on; a fifth is enough to rank epochs by.
        test: Share of the rows that is held out for test, where the file names none.
        scaling: "standard" (zero mean, unit variance) or "minmax", fitted on training rows alone; "none"; or
            "minmax_tmc" and "minmax_rcml", which let test rows speak into the scaling as the released code does.
        text_length: Token ids a text; longer ones are cut.
        text: "words" or "characters".
    """
    path = Path(path)
    arrays = read_arrays(path)
    data = views_from_arrays(path.name, arrays, views, text_length, text)
    given = {part: arrays[f"{part}_idx"] for part in ("train", "validation", "test") if f"{part}_idx" in arrays}
    rows, line = partition(path.name, data.target, given, arrays.get("group"), split, seed, validation, test)
    check_own(path.name, data)
    info = Info(**{**INFO.__dict__, "name": path.stem})
    return split_views(data, rows, info, f"{line}; scaling {scaling!r}; rows as paired in the file", scaling)


def check_own(source: str, data: Views) -> None:
    """What a published set may do and a set of one's own surely does by mistake."""
    if len(data.classes) < 2:
        raise DataError(f"{source}: 'y' has the one class {data.classes[0]!r}; give rows of at least two")
    there = torch.stack(list(data.present.values()))
    nowhere = [
        f"view {name!r} is absent in every row; leave it out" for name, row in data.present.items() if not row.any()
    ]
    empty = (~there.any(0)).nonzero()[:, 0].tolist()
    problems = nowhere or [f"row {row}: no view is there; remove the row" for row in empty]
    if problems:
        raise DataReportError(source, problems)


def only(arrays: Arrays, views: Iterable[str] | None) -> dict[str, Any]:
    """``arrays`` without the views that ``views`` does not name (all stay if it is None)."""
    if views is None:
        return dict(arrays)
    chosen = _chosen("", arrays, views)
    kept = {name: arrays[key] for name, key in chosen.items()}
    marks = {f"present_{name}": arrays[f"present_{name}"] for name in chosen if f"present_{name}" in arrays}
    return kept | marks | {key: arrays[key] for key in RESERVED if key in arrays and key != "view_names"}


def _unfit(name: str, array: Any, rows: int, tokens: bool) -> str:
    """Why ``array`` cannot be a view; empty if it can."""
    if len(array.shape) == 0 or len(array) != rows:
        return f"view {name!r} has shape {array.shape}, but 'y' has {rows} rows; one row a sample"
    if not array.size:
        return f"view {name!r} has shape {array.shape}, so no value; give at least one number a row"
    if array.dtype.kind in "US":
        return f"view {name!r} has shape {array.shape}; give one text a row" if array.ndim > 1 else ""
    if array.dtype.kind not in "biuf":
        return f"view {name!r} has type {array.dtype}; give numbers"
    if tokens and (array.dtype.kind not in "iu" or array.min() < 0):
        return f"token view {name!r} has type {array.dtype} and smallest value {array.min()}; give whole numbers from 0"
    return ""


def _listed(arrays: Arrays, key: str) -> list[str]:
    """The names in an array of names; one name may stand alone."""
    names = arrays.get(key, ())
    return [as_text(names[()])] if getattr(names, "ndim", 1) == 0 else [as_text(name) for name in names]


def _strangers(arrays: Arrays) -> list[str]:
    """Marks for a view that does not exist; they would be passed over, and absent rows taken for present."""
    named = set(_listed(arrays, "view_names"))
    marked = {key: key.removeprefix("present_") for key in arrays if key.startswith("present_")}
    return [
        f"array {key!r} marks the rows of a view {name!r}, which is not there; rename one of them"
        for key, name in marked.items()
        if name not in arrays and name not in named
    ]


def _chosen(source: str, arrays: Arrays, views: Iterable[str] | None) -> dict[str, str]:
    """View name -> key of its array."""
    named = _listed(arrays, "view_names")
    keys = {name: f"x{i}" for i, name in enumerate(named)}
    if len(keys) < len(named):
        raise DataError(f"{source}: 'view_names' are {named}; give each view a name of its own")
    for name, key in keys.items():
        if key not in arrays:
            raise DataError(f"{source}: 'view_names' calls view {name!r}, but there is no array {key!r}")
    others = [k for k in arrays if k not in RESERVED and k not in keys.values() and not k.startswith("present_")]
    found = keys | {key: key for key in others if arrays[key].ndim >= 2}
    wanted = list(found) if views is None else list(views)
    for name in wanted:
        if name not in found and name not in others:
            raise nearest(f"view in {source}", name, {*found, *others})
    if not wanted:
        raise DataError(f"{source}: there is no view; give at least one array with two axes, [N, features]")
    return {name: found.get(name, name) for name in wanted}


def _numbers(array: Any, tokens: bool) -> Tensor:
    numpy = require("numpy", "train")
    if tokens:
        return torch.from_numpy(array.astype(numpy.int64))
    kept = array.dtype in (numpy.uint8, numpy.float16)
    array = array[:, None] if array.ndim == 1 else array
    with numpy.errstate(over="ignore"):  # what does not fit becomes infinite, and is reported with its row
        return torch.from_numpy(numpy.ascontiguousarray(array if kept else array.astype(numpy.float32)))


def _gaps(name: str, values: Tensor, given: Any) -> tuple[Tensor, list[str]]:
    """Absent rows (all NaN, or so marked) and a line for each row that is broken instead."""
    flat = values.reshape(len(values), -1)
    absent = flat.isnan().all(1)
    problems = []
    if given is not None:
        if given.shape != (len(values),) or given.dtype.kind != "b":
            problems.append(f"'present_{name}' has shape {given.shape} and type {given.dtype}; give [N] booleans")
        else:
            absent |= ~torch.from_numpy(given.copy())
    broken = (~flat.isfinite() & ~absent[:, None]).nonzero()
    for row in torch.unique(broken[:, 0]).tolist():
        column = int(broken[broken[:, 0] == row][0, 1])
        value = float(flat[row, column])
        problems.append(f"view {name!r}, row {row}, column {column}: {value}; mark an absent row by NaN throughout")
    return absent, problems
