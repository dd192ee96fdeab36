"""The demo: six methods on the bundled digits, in a regime that validation data of other seeds chose.

``demo.json`` is the record of that choice, written by ``tools/choose_demo.py``; nothing in it was measured on test
rows. The test rows are those of TMC's published split, the same for every seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from evigrad.experiments.experiment import Choice, Experiment
from evigrad.training import Optimizer, Training

METHODS = ("joint", "uniform", "ogm_ge", "mmpareto", "tmc", "bogc")
REFERENCE = "uniform"
SEEDS = (0, 1, 2, 3, 4)
EPOCHS, BATCH_SIZE = 40, 16
QUICK_SEEDS, QUICK_EPOCHS = (0, 1), 8


def record() -> dict[str, Any]:
    """How the regime and the learning rates were chosen, and every number that was looked at."""
    content: dict[str, Any] = json.loads(files(__package__).joinpath("demo.json").read_text(encoding="utf-8"))
    return content


def demo_experiment(method: str, regime: Mapping[str, Any], learning_rate: float, epochs: int = EPOCHS) -> Experiment:
    """One method of the demo; all share data, network, epochs and batch size."""
    training = Training(
        epochs=epochs,
        batch_size=BATCH_SIZE,
        progress="none",
        optimizer=Optimizer(learning_rate=learning_rate),
    )
    return Experiment(Choice("digits", {"split": "tmc", **regime}), Choice(method), training=training)


def demo_experiments(epochs: int = EPOCHS) -> dict[str, Experiment]:
    """All methods of the demo in the chosen regime, each with its chosen learning rate."""
    chosen = record()["chosen"]
    return {
        method: demo_experiment(method, chosen["regime"], chosen["learning_rates"][method], epochs)
        for method in METHODS
    }
