"""The numbers of a grid's runs, gathered from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evigrad.experiments.grid import Cell
from evigrad.experiments.missing import MISSING
from evigrad.experiments.statistics import Difference, Summary, holm, paired, summarise
from evigrad.training import read_result
from evigrad.training.files import read_json


@dataclass(frozen=True)
class Outcome:
    """What one experiment reached, seed by seed.

    Args:
        label: Its name in the grid.
        accuracy: Seed -> accuracy of the whole system.
        alone: Modality -> accuracies of the linear probe on its features, defined for every method; a modality that
            some split never has is left out.
        missing: Modality -> accuracies of the whole system when it is missing, where anything is left then.
        diverged: Seeds whose training diverged; they are in none of the numbers.
    """

    label: str
    accuracy: dict[int, float]
    alone: dict[str, list[float]]
    missing: dict[str, list[float]]
    diverged: list[int]

    def summary(self) -> Summary | None:
        """Mean, interval and worst seed of the accuracy; None if every seed diverged."""
        return summarise(list(self.accuracy.values())) if self.accuracy else None

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        summary = self.summary()
        return {**vars(self), "summary": vars(summary) if summary else None}


@dataclass(frozen=True)
class Comparison:
    """``label`` against a reference on the same seeds; ``p`` is adjusted (Holm) for all comparisons of its table."""

    label: str
    difference: Difference
    p: float


def gather(cells: Sequence[Cell], split: str = "test") -> list[Outcome]:
    """The outcome of each experiment of a finished grid, in the grid's order."""
    labels = list(dict.fromkeys(cell.label for cell in cells))
    return [_gather([cell for cell in cells if cell.label == label], split) for label in labels]


def compare(outcomes: Sequence[Outcome], reference: str) -> list[Comparison]:
    """Every other experiment against the one called ``reference``, paired over the seeds that both finished."""
    by_label = {outcome.label: outcome.accuracy for outcome in outcomes}
    base = by_label.pop(reference)
    differences = {}
    for label, other in by_label.items():
        seeds = [seed for seed in other if seed in base]
        if seeds:
            differences[label] = paired([other[seed] for seed in seeds], [base[seed] for seed in seeds])
    adjusted = holm([difference.p for difference in differences.values()])
    return [
        Comparison(label, difference, p) for (label, difference), p in zip(differences.items(), adjusted, strict=True)
    ]


def _gather(cells: Sequence[Cell], split: str) -> Outcome:
    complete = [cell for cell in cells if not cell.diverged]
    metrics = [read_result(cell.folder).metrics[split] for cell in complete]
    without = [read_json(cell.folder / MISSING)["accuracy_without"] if cell.test else {} for cell in complete]
    names = metrics[0]["modalities"] if metrics else {}
    probed = [name for name in names if all("probe" in numbers["modalities"][name] for numbers in metrics)]
    return Outcome(
        cells[0].label,
        {cell.seed: numbers["accuracy"] for cell, numbers in zip(complete, metrics, strict=True)},
        {name: [numbers["modalities"][name]["probe"] for numbers in metrics] for name in probed},
        {name: [run[name] for run in without] for name in names if all(name in run for run in without)},
        [cell.seed for cell in cells if cell.diverged],
    )
