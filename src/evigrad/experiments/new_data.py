"""New samples for a trained system: the same formats as its training data, labels and whole modalities optional."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evigrad.experiments.trained import Trained

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset

TABLES = (".csv", ".parquet")


def read_new(trained: Trained, path: Path | str) -> tuple[MultimodalDataset, bool]:
    """The samples in ``path`` as ``trained`` wants them, and whether they have labels (else all labels are 0).

    Args:
        trained: Gives modalities, shapes, classes and scaling.
        path: An npz file or folder of npy files (see ``evigrad.data``, views), for a run on feature views and every
            named data set; a CSV or Parquet table for a run on a table.
    """
    path = Path(path)
    table = trained.experiment.data.name == "table"
    if (path.suffix.lower() in TABLES) != table:
        wanted = "a table (.csv, .parquet), as in training" if table else "an npz file or a folder of npy files"
        raise ValueError(f"data={str(path)!r} isn't what this run reads; give {wanted}.")
    return _read_table(trained, path) if table else _read_views(trained, path)


def _read_views(trained: Trained, path: Path) -> tuple[MultimodalDataset, bool]:
    from evigrad.data import Views
    from evigrad.data.arrays import read_arrays
    from evigrad.data.views import RESERVED, views_from_arrays

    arrays = dict(read_arrays(path))
    named = {str(name): f"x{number}" for number, name in enumerate(arrays.pop("view_names", ()))}
    arrays |= {name: arrays.pop(key) for name, key in named.items() if key in arrays}
    others = [key for key in arrays if key not in RESERVED and not key.startswith("present_")]
    given = _known(trained, path, [key for key in others if arrays[key].ndim > 1 or key in trained.inputs.shapes])
    rows = len(arrays[given[0]])
    labelled = "y" in arrays
    arrays["y"] = _labels(trained, path, arrays) if labelled else [0] * rows
    arrays |= {"y": torch.tensor(arrays["y"]).numpy(), "token_views": list(trained.inputs.vocabularies)}
    options = {key: trained.experiment.data.options[key] for key in ("text",) if key in trained.experiment.data.options}
    lengths = [shape[0] for name, shape in trained.inputs.shapes.items() if name in trained.inputs.vocabularies]
    if lengths:
        options["text_length"] = lengths[0]
    arrays["class_names"] = trained.inputs.classes
    found = views_from_arrays(path.name, arrays, given, **options)
    inputs = {name: found.inputs.get(name, _empty(trained, name, rows)) for name in trained.inputs.shapes}
    nowhere = torch.zeros(rows, dtype=torch.bool)
    present = {name: found.present.get(name, nowhere) for name in inputs}
    _check_shapes(trained, path, inputs)
    affine = {name: one for name, one in trained.scaling.items() if name in inputs}
    return Views(inputs, found.target, trained.inputs.classes, f"new data: {path.name}", present, affine), labelled


def _read_table(trained: Trained, path: Path) -> tuple[MultimodalDataset, bool]:
    from evigrad.data import Decoding
    from evigrad.data.table import TableDataset
    from evigrad.data.table_check import read_rows

    options = trained.experiment.data.options
    label = options.get("label", "label")
    rows = [dict(row) for row in read_rows(path)]
    if not rows:
        raise ValueError(f"{path}: the table has no row.")
    labelled = label in rows[0]
    _known(trained, path, [name for name in rows[0] if name not in (label, "split", "group")])
    names = list(trained.inputs.shapes)
    rows = [{name: row.get(name, "") for name in (*names, label)} for row in rows]
    target = [_label(trained, path, number, row[label]) if labelled else 0 for number, row in enumerate(rows, 1)]
    how = Decoding(**{field.name: options[field.name] for field in fields(Decoding) if field.name in options})
    empty = {name: _empty(trained, name, 1)[0] for name in names}
    protocol = f"new data: {path.name}"
    classes = trained.inputs.classes
    data = TableDataset(rows, names, torch.tensor(target), classes, path.parent, how, protocol, None, empty)
    return data, labelled


def _known(trained: Trained, path: Path, given: list[str]) -> list[str]:
    from evigrad.data.errors import nearest

    for name in given:
        if name not in trained.inputs.shapes:
            raise nearest(f"modality in {path.name}:", name, trained.inputs.shapes)
    if not given:
        raise ValueError(f"{path} has none of the modalities {', '.join(trained.inputs.shapes)}; give at least one.")
    return given


def _labels(trained: Trained, path: Path, arrays: dict[str, Any]) -> list[int]:
    """Labels as positions among the classes of the run, whatever the file counts or calls them by."""
    names = [str(name) for name in arrays.get("class_names", trained.inputs.classes)]
    labels = arrays["y"].tolist()
    texts = [label if isinstance(label, str) else _name_of(path, row, label, names) for row, label in enumerate(labels)]
    return [_label(trained, path, row, text) for row, text in enumerate(texts)]


def _name_of(path: Path, row: int, label: int, names: list[str]) -> str:
    if not 0 <= label < len(names):
        raise ValueError(f"{path.name}: 'y', row {row}: label {label} is not in 0..{len(names) - 1}.")
    return names[label]


def _label(trained: Trained, path: Path, row: int, label: str) -> int:
    from evigrad.data.errors import nearest

    if label not in trained.inputs.classes:
        raise nearest(f"class in {path.name}, row {row}:", label, trained.inputs.classes)
    return trained.inputs.classes.index(label)


def _empty(trained: Trained, name: str, rows: int) -> Tensor:
    dtype = torch.long if name in trained.inputs.vocabularies else torch.float32
    return torch.zeros(rows, *trained.inputs.shapes[name], dtype=dtype)


def _check_shapes(trained: Trained, path: Path, inputs: dict[str, Tensor]) -> None:
    for name, values in inputs.items():
        shape, wanted = tuple(values.shape[1:]), trained.inputs.shapes[name]
        if shape != wanted:
            raise ValueError(
                f"{path.name}: modality {name!r} has samples of shape {shape}, and the run was trained on {wanted}. "
                "Prepare new data as the training data were."
            )
