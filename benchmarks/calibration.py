"""The criterion alone on given features, K = 512, B = 64, M = 2: forward and backward, calibrated and plain, by C."""

import random
from typing import Any

from benchmarks.cost import measured
from benchmarks.criteria import Shapes

SAMPLES, FEATURES, MODALITIES = 64, 512, 2


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case for each number of classes."""
    rng = random.Random(0)
    if quick:
        return [measured([Shapes(8, 6, 16, 2)], repetitions=2, rng=rng)[0]]
    return [
        measured([Shapes(SAMPLES, classes, FEATURES, MODALITIES)], 2 if classes == 1000 else 8, rng)[0]
        for classes in (6, 31, 101, 1000)
    ]
