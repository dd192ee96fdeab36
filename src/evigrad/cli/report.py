"""What the commands show of a run's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evigrad.cli.console import percent, say_table

if TYPE_CHECKING:
    from evigrad.training import Result

READINGS = {
    "probe": "a fresh linear classifier on the frozen features",
    "own_head": "the method's own head for this modality",
    "block": "the modality's part of the joint head",
    "ablation": "the joint head, features of the others set to zero",
}
CALIBRATION = ("accuracy", "f1_macro", "f1_weighted", "nll", "ece", "brier", "aurc")


def headline(result: Result) -> list[str]:
    """The outcome in two sentences, protocol included."""
    accuracies = ", ".join(f"{name} {percent(numbers['accuracy'])} %" for name, numbers in result.metrics.items())
    return [
        f"Accuracy: {accuracies}.",
        f"Reported: {result.protocol['selection']} (epoch {result.best_epoch + 1} of {result.epochs}).",
    ]


def say_numbers(numbers: Mapping[str, Any], title: str) -> None:
    """One row of everything about calibration and accuracy."""
    say_table(["samples", *CALIBRATION], [[str(numbers["samples"]), *_row(numbers)]], title)


def say_modalities(modalities: Mapping[str, Mapping[str, Any]]) -> None:
    """Each modality alone, by the four definitions."""
    rows = [[name, *(percent(found.get(reading)) for reading in READINGS)] for name, found in modalities.items()]
    say_table(["modality alone, %", *READINGS], rows)


def say_grid(label: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """One line for each condition of a grid."""
    shown = ("accuracy", "nll", "ece")
    say_table([label, "accuracy", "nll", "ece"], [[name, *_row(numbers, shown)] for name, numbers in rows])


def _row(numbers: Mapping[str, Any], names: Sequence[str] = CALIBRATION) -> list[str]:
    whole = ("accuracy", "f1_macro", "f1_weighted")
    return [percent(numbers.get(name)) if name in whole else _decimal(numbers.get(name)) for name in names]


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
