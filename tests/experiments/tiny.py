"""Two small views of three separable classes, as a file of one's own, and an experiment that trains on it at once."""

from pathlib import Path

import numpy as np

from evigrad.experiments import Choice, Experiment
from evigrad.training import Optimizer, Training

CLASSES = ("cat", "dog", "owl")
WIDTHS = {"sound": 4, "image": 3}


def arrays(rows: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Raw views far from zero mean and unit variance, so that a forgotten scaling shows."""
    draw = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    views = {
        name: 50 + 10 * (4 * np.eye(3, width)[y] + draw.normal(size=(rows, width))) for name, width in WIDTHS.items()
    }
    return {**views, "y": np.array(CLASSES)[y]}


def write_views(path: Path, **changes: object) -> Path:
    """An npz file of the views; ``changes`` replace arrays, or leave them out (None)."""
    content = arrays() | changes
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    return path


def experiment(path: Path, method: str = "uniform", epochs: int = 3, **options: object) -> Experiment:
    """A run of three epochs on the file in ``path``."""
    training = Training(epochs=epochs, batch_size=12, progress="none", optimizer=Optimizer(learning_rate=0.05))
    return Experiment(Choice("views", {"path": str(path)}), Choice(method, dict(options)), training=training)
