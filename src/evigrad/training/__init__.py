"""The one training loop, evaluation, and the folder a run keeps itself in."""

from evigrad.training.config import Hardware, Optimizer, Schedule, Selection, Training
from evigrad.training.evaluate import evaluate
from evigrad.training.export import ExportError, export
from evigrad.training.files import StorageError
from evigrad.training.grids import missing_grid, noise_grid
from evigrad.training.loop import fit
from evigrad.training.metrics import classification_metrics
from evigrad.training.predictions import Predictions, predict
from evigrad.training.restore import restore
from evigrad.training.result import Result, read_result
from evigrad.training.run_folder import RunFolder
from evigrad.training.signals import INTERRUPTED, Interrupted
from evigrad.training.step import DivergedError

__all__ = [
    "INTERRUPTED",
    "DivergedError",
    "ExportError",
    "Hardware",
    "Interrupted",
    "Optimizer",
    "Predictions",
    "Result",
    "RunFolder",
    "Schedule",
    "Selection",
    "StorageError",
    "Training",
    "classification_metrics",
    "evaluate",
    "export",
    "fit",
    "missing_grid",
    "noise_grid",
    "predict",
    "read_result",
    "restore",
]
