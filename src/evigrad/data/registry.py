"""Data sets by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import avdigits, digits, emoji, handwritten, mosi, ravdess, scene15, synthetic, table, views
from .cells import Decoding
from .dataset import Info, Splits
from .errors import DataError, nearest


@dataclass(frozen=True)
class Entry:
    """What is known about a data set, and the function with keyword options that loads it.

    ``more`` are the options that the function takes beyond its own: the fields of a class.
    """

    info: Info
    load: Callable[..., Splits]
    more: type | None = None


DATASETS: dict[str, Entry] = {
    entry.info.name: entry
    for entry in (
        Entry(digits.INFO, digits.load_digits),
        Entry(synthetic.INFO, synthetic.synthetic),
        Entry(avdigits.INFO, avdigits.load_avdigits),
        Entry(handwritten.INFO, handwritten.load_handwritten),
        Entry(scene15.INFO, scene15.load_scene15),
        Entry(ravdess.INFO, ravdess.load_ravdess_av),
        Entry(mosi.INFO, mosi.load_mosi_features),
        Entry(emoji.INFO, emoji.load_emoji_image_text),
        Entry(views.INFO, views.load_views),
        Entry(table.INFO, table.load_table, Decoding),
    )
}


def names() -> tuple[str, ...]:
    """The names that :func:`load` knows."""
    return tuple(DATASETS)


def info(name: str) -> Info:
    """What is known about a data set without opening it."""
    return _entry(name).info


def options(name: str) -> dict[str, inspect.Parameter]:
    """The options of :func:`load` for a data set, with their defaults."""
    entry = _entry(name)
    more = inspect.signature(entry.more).parameters if entry.more else {}
    own = inspect.signature(entry.load).parameters
    return {key: value for key, value in own.items() if value.kind is not value.VAR_KEYWORD} | dict(more)


def load(name: str, **given: Any) -> Splits:
    """The three parts of the data set ``name``; ``given`` are its options, see :func:`options`.

    >>> splits = load("digits", split="tmc")
    >>> len(splits.train), len(splits.validation), len(splits.test)
    (1280, 320, 400)
    """
    known = options(name)
    for option in given:
        if option not in known:
            raise nearest(f"option of data set {name!r}:", option, known)
    for option, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and option not in given:
            raise DataError(f"data set {name!r} needs the option {option}=...")
    return _entry(name).load(**given)


def _entry(name: str) -> Entry:
    if name not in DATASETS:
        raise nearest("data set", name, DATASETS)
    return DATASETS[name]
