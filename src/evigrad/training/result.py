"""The outcome of a run, in memory and in ``result.json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evigrad.training.files import read_json


@dataclass(frozen=True)
class Result:
    """What ``fit`` returns.

    Args:
        folder: The run folder.
        best_epoch: The epoch whose weights are reported, counted from 0.
        epochs: How many epochs were trained.
        metrics: Split -> the numbers of :func:`~evigrad.training.evaluate`.
        protocol: Split, selection rule, seed and everything else a number must be printed with.
        cost: Seconds, throughput and peak memory of the process that finished the run.
    """

    folder: Path
    best_epoch: int
    epochs: int
    metrics: dict[str, dict[str, Any]]
    protocol: dict[str, Any]
    cost: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Everything but the folder's own place, which may change."""
        return {name: getattr(self, name) for name in ("protocol", "best_epoch", "epochs", "metrics", "cost")}


def read_result(folder: Path | str) -> Result:
    """The result of a finished run."""
    path = Path(folder) / "result.json"
    if not path.exists():
        raise FileNotFoundError(f"{path} doesn't exist: the run isn't finished. Resume it first.")
    content = read_json(path)
    try:
        return Result(Path(folder), **content)
    except TypeError as error:
        raise ValueError(
            f"{path} isn't a result as this version writes it. Delete it and resume the run, which measures it again."
        ) from error
