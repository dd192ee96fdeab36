"""Answering an unknown name with the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about ``name``.

    Example:
        >>> nearest("resnet", ["mlp", "resnet18"])
        "did you mean 'resnet18'? Known: mlp, resnet18."
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else "choose another. "
    return f"{hint}Known: {', '.join(known)}."
