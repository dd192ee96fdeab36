"""Labels and class names of one's own arrays: numbers from 0, or texts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .arrays import Arrays
from .errors import DataError


def read_labels(source: str, arrays: Arrays) -> tuple[Tensor, tuple[str, ...]]:
    """Labels [N] long and the names of the classes, from ``y`` and, where it is there, ``class_names``."""
    y = arrays["y"]
    if y.ndim != 1 or y.dtype.kind not in "USiub":
        raise DataError(f"{source}: 'y' has shape {y.shape} and type {y.dtype}; give one whole number or text a row")
    if not len(y):
        raise DataError(f"{source}: 'y' has no row; give one label a sample")
    names = [as_text(name) for name in arrays["class_names"]] if "class_names" in arrays else None
    if names and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{source}: 'class_names' has {twice!r} twice; give each class a name of its own")
    if y.dtype.kind in "US":
        texts = [as_text(label) for label in y]
        names = names or sorted(set(texts))
        labels = _positions(source, texts, names)
    else:
        labels = y.tolist()
        names = names or _counted(source, labels)
    for row, label in enumerate(labels):
        if not 0 <= label < len(names):
            raise DataError(
                f"{source}: 'y', row {row}: label {int(label)} is not in 0..{len(names) - 1}; "
                "count labels from 0 and name each class in 'class_names'"
            )
    return torch.tensor(labels, dtype=torch.long), tuple(names)


def _positions(source: str, texts: list[str], names: list[str]) -> list[int]:
    number = {name: i for i, name in enumerate(names)}
    for row, text in enumerate(texts):
        if not text:
            raise DataError(f"{source}: 'y', row {row}: the label is empty; give a text or remove the row")
        if text not in number:
            raise DataError(f"{source}: 'y', row {row}: label {text!r} is not in 'class_names'; name it there")
    return [number[text] for text in texts]


def _counted(source: str, labels: list[int]) -> list[str]:
    """Names for numbers without any: "0", "1", ... up to the largest."""
    most = max(labels)
    if most >= len(labels) + 1000:
        # Identifiers taken for labels would otherwise build a network with that many outputs.
        raise DataError(
            f"{source}: 'y', row {labels.index(most)}: label {most} with {len(labels)} rows; "
            "count labels from 0 and name each class in 'class_names'"
        )
    return [str(label) for label in range(int(most) + 1)]


def as_text(value: Any) -> str:
    """A text of an array, in which it may be bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
