"""How the calibration's cost grows with B, C, K, M and the number of draws, everything else fixed."""

import random
from dataclasses import replace
from typing import Any

from benchmarks.cost import measured
from benchmarks.criteria import Shapes

BASE = Shapes(samples=64, classes=16, features=256, modalities=2)
REPETITIONS = 6
SWEEPS: dict[str, tuple[Shapes, str, tuple[int, ...]]] = {
    "B": (BASE, "samples", (32, 64, 128, 256, 512)),
    "C": (BASE, "classes", (8, 16, 32, 64, 128, 256)),
    "K": (BASE, "features", (64, 128, 256, 512, 1024)),
    "M (K = 128)": (replace(BASE, features=128), "modalities", (1, 2, 3, 4, 6, 8)),
    "M (K = 512)": (replace(BASE, features=512, classes=6), "modalities", (1, 2, 3, 4, 6, 8)),
    "n": (BASE, "draws", (32, 64, 128, 256, 512)),
}


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case for each sweep, with the sizes and the seconds of every repetition."""
    rng = random.Random(0)
    cases = []
    for name, (base, field, sizes) in SWEEPS.items():
        chosen = sizes[:2] if quick else sizes
        small = replace(base, samples=4, classes=3, features=8) if quick else base
        draws = field == "draws"
        sweep = [small if draws else replace(small, **{field: size}) for size in chosen]
        options = [{"moments": "monte_carlo", "draws": size} for size in chosen] if draws else [{}]
        points = measured(sweep, 2 if quick else REPETITIONS, rng, options)
        cases.append({"sweep": name, "sizes": list(chosen), "points": points})
    return cases
