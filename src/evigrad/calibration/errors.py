"""Error texts that name the argument, show the value and say the next step."""

import difflib
from collections.abc import Iterable
from numbers import Real


class NonFiniteError(ValueError):
    """Features or curvatures became NaN or infinite: the training diverged, or the data are bad."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that looks most like ``name``, as a question to append; empty when none does."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f" Did you mean '{close[0]}'?" if close else ""


def choose(argument: str, value: str, known: Iterable[str]) -> str:
    """``value`` if it is a known reading of ``argument``; otherwise an error with the nearest name.

    >>> choose("posterior", "kroneker", ["full", "kronecker"])
    Traceback (most recent call last):
    ...
    ValueError: Unknown `posterior`: 'kroneker'. Did you mean 'kronecker'? Choose one of: full, kronecker.
    """
    names = list(known)
    if value in names:
        return value
    raise ValueError(f"Unknown `{argument}`: {value!r}.{nearest(str(value), names)} Choose one of: {', '.join(names)}.")


def is_number(value: object) -> bool:
    """Whether this is a real number, NumPy's included; a configuration file may well hold a string or nothing."""
    return isinstance(value, Real)


def positive(argument: str, value: float, allow_zero: bool = False) -> float:
    """``value`` if it is a finite number above (or at) zero; otherwise an error."""
    if not is_number(value) or not (value > 0 or (allow_zero and value == 0)) or value == float("inf"):
        bound = "zero or more" if allow_zero else "above zero"
        raise ValueError(f"`{argument}` must be a finite number {bound}, got {value!r}.")
    return value
