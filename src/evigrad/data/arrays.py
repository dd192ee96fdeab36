"""Arrays on disk: an npz file or a folder of npy files, never with objects in them."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import DataError, DataReportError, require

Arrays = Mapping[str, Any]

#: What numpy and zipfile raise on a damaged npz or npy file, depending on the byte that is wrong.
DAMAGED = (
    ValueError, OSError, EOFError, OverflowError, MemoryError, NotImplementedError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_arrays(path: Path) -> Arrays:
    """All arrays of an npz file or of a folder with views.npz or npy files; objects (pickles) are refused."""
    numpy = require("numpy", "train")
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give an npz file or a folder of npy files")
    files = array_files(path)
    arrays: dict[str, Any] = {}
    problems = []
    for file in files:
        try:
            arrays |= _contents(numpy, file)
        except DAMAGED as error:
            problems.append(f"{file.name}: not a readable npz or npy file without objects ({error})")
    if not files:
        problems.append("the folder has no npy file")
    if problems:
        raise DataReportError(str(path), problems)
    return arrays


def array_files(path: Path) -> list[Path]:
    """The files that :func:`read_arrays` reads."""
    if (path / "views.npz").is_file():
        return [path / "views.npz"]
    return sorted(path.glob("*.npy")) if path.is_dir() else [path]


def _contents(numpy: Any, file: Path) -> dict[str, Any]:
    with file.open("rb") as handle:
        opened = numpy.load(handle, allow_pickle=False)
        return {name: opened[name] for name in opened.files} if hasattr(opened, "files") else {file.stem: opened}
