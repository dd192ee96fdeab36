"""Keywords given by name, from a configuration or a dictionary."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from torch import nn

from evigrad.calibration.errors import choose

__all__ = ["check_options"]


def check_options(kind: type, owner: str, given: Iterable[str], own: int = 0) -> None:
    """Raise a ValueError with the nearest name for a keyword that the constructor of ``kind`` does not take.

    Args:
        kind: the class.
        owner: what the user calls it.
        given: the keywords.
        own: how many of the constructor's first arguments are not the user's to give.
    """
    parameters = list(inspect.signature(kind).parameters.values())[own:]
    # a class without a constructor has nn.Module's, which takes anything and then refuses it
    plain = getattr(kind, "__init__", None) is nn.Module.__init__
    if not plain and any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [] if plain else [parameter.name for parameter in parameters]
    for name in given:
        if not known:
            raise ValueError(f"{owner!r} has no options, and {name!r} was given; leave it out.")
        choose(f"option of {owner}", name, known)
