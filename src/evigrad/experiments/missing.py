"""A finished run with each modality missing in turn."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from evigrad.experiments.trained import load_trained
from evigrad.training import missing_grid
from evigrad.training.files import write_json

MISSING = "missing.json"


def without_each(modalities: Collection[str]) -> list[tuple[str, ...]]:
    """The subsets that lack exactly one modality, in the order of the one that is missing.

    Example:
        >>> without_each(["a", "b", "c"])
        [('b', 'c'), ('a', 'c'), ('a', 'b')]
    """
    return [tuple(name for name in modalities if name != gone) for gone in modalities]


def save_missing(folder: Path) -> None:
    """Measure the run in ``folder`` on its test part with each modality missing in turn; kept in the folder."""
    trained = load_trained(folder)
    test = trained.experiment.splits().test
    names = tuple(test.modalities)
    rows = missing_grid(trained.network, trained.method, test, without_each(names)) if len(names) > 1 else []
    found = zip(names, rows, strict=bool(rows))
    accuracy = {name: row["accuracy"] for name, row in found if row["samples"]}
    write_json(folder / MISSING, {"protocol": test.protocol, "accuracy_without": accuracy})
