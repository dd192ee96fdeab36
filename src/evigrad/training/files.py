"""Writes that happen completely or not at all, and errors that say what is still safe."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class StorageError(OSError):
    """A run folder could not be written; the text says where, why, and what is still intact."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn any failure to write ``path`` into a :class:`StorageError` with the next step."""
    from safetensors import SafetensorError

    try:
        yield
    except StorageError:
        raise
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(
            f"{path} can't be written: a file is where a folder should be. Choose another place."
        ) from error
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(
            f"could not write {path}: {reason} ({free_space(path)}). Nothing that was already saved has changed: "
            "make room or make the folder writable, then resume the run."
        ) from error


def free_space(path: Path) -> str:
    """The room left on the disk that holds ``path``, in words."""
    existing = next((folder for folder in path.absolute().parents if folder.exists()), Path("/"))
    return f"{shutil.disk_usage(existing).free / 2**20:,.0f} MB free on its disk"


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, force it to the disk, then rename it over ``path``.

    A reader, or a run resumed after a power cut, sees the old file or the new one and never a part of either.
    """
    temporary = path.with_name(f".{path.name}.partial")
    with storage_errors(path):
        try:
            write(temporary)
            force_to_disk(temporary)
            temporary.replace(path)
            force_to_disk(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically."""
    write_atomically(path, lambda temporary: _put(temporary, text))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` to ``path`` atomically, as JSON that a person can read and ``diff``."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; a damaged file is an error that names it."""
    try:
        content = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}). Restore it from a copy or start a new run.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} should hold a JSON object and holds a {type(content).__name__}.")
    return content


def _put(path: Path, text: str) -> None:
    path.write_text(text)


def force_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
