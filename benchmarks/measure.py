"""Clocks and the statistics of repeated measurements."""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """A median and an interval that covers it without any assumption on the distribution."""

    median: float
    low: float
    high: float
    coverage: float


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def alternate(actions: Sequence[Callable[[], float]], rng: random.Random) -> list[float]:
    """What each action returns, once each in a random order: neighbours in time share the machine's mood."""
    order = list(range(len(actions)))
    rng.shuffle(order)
    values = dict.fromkeys(order, 0.0)
    for index in order:
        values[index] = actions[index]()
    return [values[index] for index in range(len(actions))]


def interval(values: Sequence[float], wanted: float = 0.95) -> Interval:
    """Median and its sign-test interval: the narrowest pair of order statistics that covers at least ``wanted``.

    Fewer than six values can't reach 95 %: the interval is then their whole range, and ``coverage`` says how much it
    covers.
    """
    ordered, count = sorted(values), len(values)
    below = [sum(math.comb(count, k) for k in range(rank + 1)) / 2**count for rank in range(count)]
    trimmed = max((rank for rank in range(count) if 1 - 2 * below[rank] >= wanted), default=0)
    coverage = max(0.0, 1 - 2 * below[trimmed])
    return Interval(statistics.median(ordered), ordered[trimmed], ordered[count - 1 - trimmed], coverage)


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Least-squares exponent p of cost ~ size^p."""
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs]).slope
