"""Handwritten as the multi-view literature circulates it: the bundled digits, rounded, with two published splits."""

from __future__ import annotations

from pathlib import Path

from .arrays import read_arrays
from .dataset import Info, Splits
from .errors import nearest
from .memory import split_views
from .partition import partition
from .root import folder_of
from .views import views_from_arrays

INFO = Info(
    name="handwritten",
    title="Handwritten: the six views of UCI Multiple Features as in the multi-view literature",
    modalities=("pix240", "fou76", "fac216", "zer47", "kar64", "mor6"),
    classes=10,
    samples=2000,
    licence="CC BY 4.0",
    source="RCML and TMC releases of UCI Multiple Features; row numbers by Trust4Conflict and TMC",
    protocols=("trust4conflict", "tmc"),
    note="Six pairs of rows are identical in all views; in each split one pair lies on both sides.",
)


def load_handwritten(
    *,
    root: str | Path | None = None,
    split: str = "trust4conflict",
    seed: int = 0,
    validation: float = 0.2,
    scaling: str = "standard",
) -> Splits:
    """1,600/400 rows of a published split; the validation rows are cut off the first part, stratified.

    Args:
        root: The folder of the release, or the one above it; the environment variable EVIGRAD_DATA if not given.
        split: "trust4conflict" or "tmc", whose rows are given by number.
        seed: Of the validation rows.
        validation: Share of the training rows that is held out to select on; a fifth is enough to rank epochs by.
        scaling: "standard" (zero mean, unit variance) or "minmax", fitted on training rows alone; "none"; or
            "minmax_tmc" and "minmax_rcml", which let test rows speak into the scaling as the released code does.
    """
    prefixes = {"trust4conflict": "", "tmc": "tmc_"}
    if split not in prefixes:
        raise nearest("split", split, prefixes)
    path = folder_of("handwritten", root, ["handwritten.npz"]) / "handwritten.npz"
    arrays = read_arrays(path)
    data = views_from_arrays(path.name, arrays)
    given = {part: arrays[f"{prefixes[split]}{part}_idx"] for part in ("train", "test")}
    rows, line = partition(path.name, data.target, given, None, "given", seed, validation, 0.2)
    return split_views(data, rows, INFO, f"{split} split: {line}; scaling {scaling!r}", scaling)
