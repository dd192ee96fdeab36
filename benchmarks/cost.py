"""What one step of a criterion costs: an ordinary step, one that renews the posteriors, and a plain one beside them.

`CalibratedLoss` renews its posteriors at every step until step ``refresh`` and at every ``refresh``-th after it. To see
renewing steps often enough, they are timed with refresh = 2 and weighed afterwards as the default refresh = 10 does.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.criteria import HeadStep, Shapes, calibrated_step, plain_step
from benchmarks.measure import alternate, seconds

RENEW_EVERY = 2
PLAIN_STEPS = 5


def measured(
    sweep: Sequence[Shapes], repetitions: int, rng: random.Random, options: Sequence[dict[str, Any]] = ({},)
) -> list[dict[str, Any]]:
    """For each shape (with its options, or the only ones): lists of seconds, one entry a repetition.

    A repetition visits all shapes, and in each the two criteria, in random order.
    """
    each = list(options) * (len(sweep) // len(options))
    arms = [
        (calibrated_step(shapes, refresh=RENEW_EVERY, **chosen), plain_step(shapes))
        for shapes, chosen in zip(sweep, each, strict=True)
    ]
    for calibrated, plain in arms:
        for _ in range(RENEW_EVERY):
            calibrated()
        plain()
    cases = [
        {**asdict(shapes), "options": chosen, "ordinary": [], "renewing": [], "plain": []}
        for shapes, chosen in zip(sweep, each, strict=True)
    ]
    for _ in range(repetitions):
        for index in rng.sample(range(len(arms)), len(arms)):
            _repetition(*arms[index], cases[index], rng)
    return cases


def _repetition(calibrated: HeadStep, plain: HeadStep, case: dict[str, Any], rng: random.Random) -> None:
    def cycle() -> float:
        case["ordinary"].append(seconds(calibrated))
        case["renewing"].append(seconds(calibrated))
        return 0.0

    def several() -> float:
        return statistics.median(seconds(plain) for _ in range(PLAIN_STEPS))

    case["plain"].append(alternate((cycle, several), rng)[1])
