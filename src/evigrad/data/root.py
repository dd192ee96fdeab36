"""Where released data sets lie on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .errors import DataError

VARIABLE = "EVIGRAD_DATA"


def folder_of(name: str, root: str | Path | None, wanted: Sequence[str]) -> Path:
    """The folder that holds the files ``wanted`` of data set ``name``: ``root``/name, or ``root`` itself.

    Without ``root`` the environment variable EVIGRAD_DATA says where to look.
    """
    root = root if root is not None else os.environ.get(VARIABLE)
    if not root:
        raise DataError(f"data set {name!r}: where is it? Pass root=... or set the environment variable {VARIABLE}")
    for folder in (Path(root) / name, Path(root)):
        if all((folder / file).is_file() for file in wanted):
            return folder
    raise DataError(
        f"data set {name!r}: no {' and '.join(wanted)} in {Path(root) / name} or {root}; "
        f"point root=... (or {VARIABLE}) there, or run prepare({name!r}, ...) first"
    )
