r"""What a handful of seeds allows one to say: mean, interval, worst case, and paired differences.

With n runs of mean x̄ and standard deviation s, the 95 % interval is :math:`\bar x \pm t_{0.975, n-1}\, s/\sqrt n`. Two
methods that ran on the same seeds share splits, noise and starts, so they are compared by the differences
within a seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Difference", "Summary", "holm", "paired", "student_probability", "student_quantile", "summarise"]


@dataclass(frozen=True)
class Summary:
    """n runs of one method: ``mean``, the interval ``low`` to ``high`` of the mean, and the ``worst`` run."""

    mean: float
    low: float
    high: float
    worst: float
    runs: int


@dataclass(frozen=True)
class Difference:
    """A paired comparison: ``mean`` difference, its interval, and the two-sided ``p`` of Student's paired test."""

    mean: float
    low: float
    high: float
    p: float
    runs: int


def summarise(values: Sequence[float], confidence: float = 0.95) -> Summary:
    """Mean, interval and worst of ``values``, for which larger is better; one value has no interval (NaN).

    Example:
        >>> summarise([0.5, 0.6, 0.7])
        Summary(mean=0.6, low=0.3515862..., high=0.8484137..., worst=0.5, runs=3)
    """
    if not values:
        raise ValueError("values is empty: give the result of at least one run.")
    mean, half = _mean_and_half_width(values, confidence)
    return Summary(mean, mean - half, mean + half, min(values), len(values))


def paired(values: Sequence[float], reference: Sequence[float], confidence: float = 0.95) -> Difference:
    """``values`` minus ``reference``, seed by seed.

    Example:
        >>> paired([0.7, 0.8, 0.9], [0.6, 0.8, 0.8]).mean
        0.0666666...
    """
    if len(values) != len(reference):
        raise ValueError(
            f"values has {len(values)} runs and reference {len(reference)}: pair them by seed, and leave out seeds "
            "that only one of them has."
        )
    differences = [one - other for one, other in zip(values, reference, strict=True)]
    mean, half = _mean_and_half_width(differences, confidence)
    return Difference(mean, mean - half, mean + half, _paired_p(differences, mean), len(differences))


def holm(probabilities: Sequence[float]) -> list[float]:
    """Holm's adjustment for looking at several comparisons at once: each p times the number not yet rejected.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(probabilities)), key=lambda index: probabilities[index])
    adjusted = [0.0] * len(order)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, probabilities[index] * (len(order) - place)))
        adjusted[index] = largest
    return adjusted


def student_probability(t: float, freedom: int) -> float:
    """P(-t < T < t) of Student's distribution with ``freedom`` degrees; the closed form for whole degrees.

    Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4.
    """
    if freedom < 1:
        raise ValueError(f"freedom must be at least 1, got {freedom}: two runs have one degree.")
    angle = math.atan(t / math.sqrt(freedom))
    square, odd = math.cos(angle) ** 2, freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= square * (step - 1) / step
        total += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def student_quantile(confidence: float, freedom: int) -> float:
    """The t with P(-t < T < t) = ``confidence``, by bisection.

    Example:
        >>> round(student_quantile(0.95, 4), 4)
        2.7764
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}.")
    low, high = 0.0, 1.0
    while student_probability(high, freedom) < confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_probability(middle, freedom) < confidence else (low, middle)
    return high


def _mean_and_half_width(values: Sequence[float], confidence: float) -> tuple[float, float]:
    mean, error = math.fsum(values) / len(values), _standard_error(values)
    return mean, error * student_quantile(confidence, len(values) - 1) if len(values) > 1 else math.nan


def _standard_error(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1) / len(values)) if len(values) > 1 else math.nan


def _paired_p(differences: Sequence[float], mean: float) -> float:
    if len(differences) < 2:
        return math.nan
    error = _standard_error(differences)
    if error <= 1e-12 * max(abs(value) for value in differences):
        return 1.0 if mean == 0 else 0.0
    return 1 - student_probability(abs(mean) / error, len(differences) - 1)
