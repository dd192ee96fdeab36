"""Runs described by names, grids of them over methods and seeds, and what their numbers allow one to say."""

from evigrad.experiments.experiment import Architecture, Choice, Experiment, Inputs, read_experiment
from evigrad.experiments.grid import Cell, grid, run_grid
from evigrad.experiments.missing import without_each
from evigrad.experiments.new_data import read_new
from evigrad.experiments.outcome import Comparison, Outcome, compare, gather
from evigrad.experiments.process import is_first_process
from evigrad.experiments.statistics import Difference, Summary, holm, paired, summarise
from evigrad.experiments.trained import Trained, load_trained
from evigrad.experiments.verdict import verdict

__all__ = [
    "Architecture",
    "Cell",
    "Choice",
    "Comparison",
    "Difference",
    "Experiment",
    "Inputs",
    "Outcome",
    "Summary",
    "Trained",
    "compare",
    "gather",
    "grid",
    "holm",
    "is_first_process",
    "load_trained",
    "paired",
    "read_experiment",
    "read_new",
    "run_grid",
    "summarise",
    "verdict",
    "without_each",
]
