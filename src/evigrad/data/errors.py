"""What a person is told when data, or the way they were asked for, are wrong."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Sequence
from typing import Any


class DataError(ValueError):
    """A file, a table, a data set or an option is wrong; the text says where and what to do next."""


class DataReportError(DataError):
    """Everything found wrong in one pass over a source, so that it can be repaired in one go.

    ``problems`` holds one line for each finding; each names the file, or the row and the column.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source, self.problems = source, tuple(problems)
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {line}" for line in problems)]))

    def __reduce__(self) -> tuple[type[DataReportError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.source, self.problems)


def nearest(kind: str, name: str, known: Iterable[str]) -> DataError:
    """The error for an unknown ``name``: the closest known one first, then all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    return DataError(f"unknown {kind} {name!r}.{guess} Known: {', '.join(known) or 'none'}")


def require(module: str, extra: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"PIL": "pillow"}.get(module, module).split(".")[0]
        raise ImportError(f"this needs {package}, which is not installed: pip install 'evigrad[{extra}]'") from error
