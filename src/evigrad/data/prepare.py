"""Once, before training: decode a source, check every file, and write compact files with a manifest.

What is written appears all at once: a folder next to ``out`` is filled, synced and renamed.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from . import registry
from .arrays import array_files, read_arrays
from .avdigits_files import Progress, read_fsdd, read_mnist
from .cells import Decoding
from .errors import DataError, DataReportError, nearest, require
from .root import folder_of
from .table_prepare import table_arrays
from .views import check_own, only, views_from_arrays

MANIFEST = "manifest.json"
TABLE_OPTIONS = ["label", "columns", *(field.name for field in fields(Decoding))]


@dataclass
class Prepared:
    """Arrays of each npz file to write, the source files they come from, and everything that was wrong."""

    files: dict[str, dict[str, Any]]
    sources: list[Path]
    problems: list[str] = field(default_factory=list)


def prepare(
    name: str,
    source: str | Path,
    out: str | Path,
    progress: Progress | None = None,
    *,
    allow_bad: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Prepare the data set ``name`` from ``source`` (its original files) in the folder ``out``; returns the manifest.

    ``progress(done, total, file)`` is called for each file. Every bad file is named in one
    :class:`DataReportError`; with ``allow_bad`` those that can be left out are, and the manifest lists them.
    ``options`` are those that decide how files are read (for "table": label, columns and those of
    ``Decoding``). An ``out`` that holds the same preparation of the same files is left as it is.
    """
    registry.info(name)
    if name not in PREPARERS:
        raise DataError(f"data set {name!r} has nothing to prepare: load({name!r}) works at once")
    source, out = Path(source), Path(out)
    if not source.exists():
        raise DataError(f"source={str(source)!r}: no such file or folder")
    _writable(out)
    _check_options(name, options)
    made = PREPARERS[name](source, progress or _silent, **options)
    if made.problems and not (allow_bad and made.files):
        raise DataReportError(f"{name} from {source}", made.problems)
    base = source if source.is_dir() else source.parent
    manifest = {
        "format": 1,
        "name": name,
        "options": dict(sorted(options.items())),
        "sources": [_entry(path, base) for path in sorted(set(made.sources))],
        "problems": made.problems,
    }
    return _write(out, made.files, manifest)


def verify(folder: str | Path) -> list[str]:
    """What differs between a prepared folder and its manifest; empty if nothing does."""
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder}: there is no {MANIFEST}; prepare the data set first")
    problems = []
    for entry in json.loads(path.read_text())["files"]:
        file = folder / entry["file"]
        if not file.is_file():
            problems.append(f"{entry['file']}: missing")
        elif _digest(file) != entry["sha256"]:
            problems.append(f"{entry['file']}: its checksum is not the one in the manifest")
    return problems


def _prepare_avdigits(source: Path, progress: Progress) -> Prepared:
    problems: list[str] = []
    mnist, images = read_mnist(source, problems)
    fsdd, clips = read_fsdd(source, problems, progress)
    files = {"mnist.npz": mnist, "fsdd.npz": fsdd} if len(mnist) == 4 and len(fsdd["label"]) else {}
    return Prepared(files, images + clips, problems)


def _prepare_table(source: Path, progress: Progress, **options: Any) -> Prepared:
    arrays, files, problems = table_arrays(source, progress, **options)
    return Prepared({"views.npz": arrays} if arrays else {}, files, problems)


def _prepare_views(source: Path, progress: Progress, views: list[str] | None = None) -> Prepared:
    arrays = dict(read_arrays(source))
    check_own(source.name, views_from_arrays(source.name, arrays, views))
    progress(1, 1, source.name)
    return Prepared({"views.npz": only(arrays, views)}, array_files(source))


def _released(name: str) -> Callable[..., Prepared]:
    def prepare_released(source: Path, progress: Progress) -> Prepared:
        if source.is_file() and source.name != f"{name}.npz":
            raise DataError(f"source={str(source)!r}: the file of {name!r} is called {name}.npz; give it or its folder")
        path = folder_of(name, source if source.is_dir() else source.parent, [f"{name}.npz"]) / f"{name}.npz"
        registry.load(name, root=path.parent)
        progress(1, 1, path.name)
        return Prepared({f"{name}.npz": dict(read_arrays(path))}, [path])

    return prepare_released


PREPARERS: dict[str, Callable[..., Prepared]] = {
    "avdigits": _prepare_avdigits,
    "table": _prepare_table,
    "views": _prepare_views,
    **{n: _released(n) for n in ("handwritten", "scene15", "ravdess_av", "mosi_features", "emoji_image_text")},
}


def _write(out: Path, files: Mapping[str, Mapping[str, Any]], manifest: dict[str, Any]) -> dict[str, Any]:
    numpy = require("numpy", "train")
    out = out.resolve()  # a link to a folder stays one
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        for file, arrays in files.items():
            with (folder / file).open("wb") as handle:
                numpy.savez_compressed(handle, **arrays)
                handle.flush()
                os.fsync(handle.fileno())
        manifest["files"] = [_entry(folder / file, folder) for file in sorted(files)]
        with (folder / MANIFEST).open("w", encoding="utf-8") as text:
            text.write(json.dumps(manifest, indent=2) + "\n")
            text.flush()
            os.fsync(text.fileno())
        folder.chmod(0o755)
        _put(folder, out, manifest)
    except OSError as error:
        # numpy's own text says neither which file nor what was left.
        why = error.strerror or str(error)
        raise type(error)(error.errno, f"{why}; nothing was written", str(out)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _put(folder: Path, out: Path, manifest: dict[str, Any]) -> None:
    try:
        before = json.loads((out / MANIFEST).read_text()) if (out / MANIFEST).is_file() else None
    except ValueError:
        before = None
    if before == json.loads(json.dumps(manifest)) and not verify(out):
        return
    if out.is_dir() and any(out.iterdir()):
        raise DataError(f"out={str(out)!r} is not empty and holds something else; remove it or choose another folder")
    folder.replace(out)


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    given = inspect.signature(PREPARERS[name]).parameters
    known = [key for key in given if key not in ("source", "progress", "options")] + TABLE_OPTIONS * (name == "table")
    for option in options:
        if option not in known:
            raise nearest(f"option for preparing {name!r}:", option, known)


def _writable(out: Path) -> None:
    parent = next(folder for folder in (out, *out.resolve().parents) if folder.exists())
    if not parent.is_dir():
        raise DataError(f"out={str(out)!r}: {parent} is a file; choose another folder")
    if not os.access(parent, os.W_OK):
        raise DataError(f"out={str(out)!r}: {parent} cannot be written to; choose another folder")


def _entry(path: Path, base: Path) -> dict[str, Any]:
    name = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name
    return {"file": name, "bytes": path.stat().st_size, "sha256": _digest(path)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _silent(done: int, total: int, what: str) -> None:
    """Nobody is watching."""
