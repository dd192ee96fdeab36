"""Choose the regime of `evigrad demo` and each method's learning rate, on validation data alone.

Seeds other than the demo's are used, and the test rows (those of TMC's published split) are never read. For
each regime every method gets the learning rate with the best mean validation accuracy among those at which no
run diverged; the regime is the one in which the methods differ most against their own spread (the F ratio of
methods, seeds taken out). Which method leads plays no part.

    python tools/choose_demo.py RUNS_FOLDER
"""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

from evigrad.experiments import Cell, gather, grid, run_grid
from evigrad.experiments.demo import BATCH_SIZE, EPOCHS, METHODS, SEEDS, demo_experiment
from evigrad.training.files import write_json

UNEVEN = {"pixels": 3.0, "fourier": 0.5, "profiles": 3.0, "zernike": 0.5, "karhunen": 0.5, "morphology": 0.5}
NOISES = (1.0, 2.0, UNEVEN)
REGIMES: list[dict[str, Any]] = [{"labels_per_class": n, "noise": noise} for n, noise in product((5, 10), NOISES)]
LEARNING_RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
CHOICE_SEEDS = (100, 101, 102)
RECORD = Path(__file__).parent.parent / "src" / "evigrad" / "experiments" / "demo.json"


def cells_of(number: int, regime: dict[str, Any], rate: float, folder: Path) -> list[Cell]:
    experiments = {method: demo_experiment(method, regime, rate) for method in METHODS}
    return grid(experiments, CHOICE_SEEDS, folder / f"{number}-{rate}", test=False)


def f_ratio(table: dict[str, list[float]]) -> float:
    """Mean square between methods over the residual mean square, seeds taken out (two-way layout)."""
    rows = list(table.values())
    m, n = len(rows), len(rows[0])
    grand = sum(map(sum, rows)) / (m * n)
    by_method = [sum(row) / n for row in rows]
    by_seed = [sum(row[j] for row in rows) / m for j in range(n)]
    between = n * sum((mean - grand) ** 2 for mean in by_method) / (m - 1)
    rest = sum((rows[i][j] - by_method[i] - by_seed[j] + grand) ** 2 for i in range(m) for j in range(n))
    return between / (rest / ((m - 1) * (n - 1)))


def score(accuracies: list[float]) -> float:
    """Mean accuracy; a rate at which any run diverged is out."""
    return sum(accuracies) / len(accuracies) if len(accuracies) == len(CHOICE_SEEDS) else -1.0


def candidate(number: int, regime: dict[str, Any], folder: Path) -> dict[str, Any]:
    tried = {}
    for rate in LEARNING_RATES:
        outcomes = gather(cells_of(number, regime, rate, folder), "validation")
        tried[rate] = {outcome.label: list(outcome.accuracy.values()) for outcome in outcomes}
    rates = {method: max(LEARNING_RATES, key=lambda rate: score(tried[rate][method])) for method in METHODS}
    best = {method: tried[rates[method]][method] for method in METHODS}
    return {
        "regime": regime,
        "f_ratio": f_ratio(best),
        "learning_rates": rates,
        "validation_accuracy": {str(rate): table for rate, table in tried.items()},
    }


def main(folder: Path) -> None:
    if set(CHOICE_SEEDS) & set(SEEDS):
        raise ValueError("a seed of the demo was used to choose")
    tried = product(enumerate(REGIMES), LEARNING_RATES)
    cells = [cell for (number, regime), rate in tried for cell in cells_of(number, regime, rate, folder)]
    run_grid(cells, jobs=2, finished=lambda cell: print(cell.folder, flush=True))
    candidates = [candidate(number, regime, folder) for number, regime in enumerate(REGIMES)]
    chosen = max(candidates, key=lambda one: one["f_ratio"])
    write_json(
        RECORD,
        {
            "rule": " ".join(__doc__.split("\n\n")[1].split()),
            "seeds": list(CHOICE_SEEDS),
            "epochs": EPOCHS,
            "batch_size": BATCH_SIZE,
            "chosen": {key: chosen[key] for key in ("regime", "learning_rates", "f_ratio")},
            "candidates": candidates,
        },
    )
    print(json.dumps(chosen, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
