"""Several experiments on several seeds, in several processes; what is finished is never done twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evigrad.experiments.experiment import Experiment, read_experiment
from evigrad.experiments.missing import MISSING, save_missing
from evigrad.experiments.workers import in_processes
from evigrad.training import DivergedError, RunFolder
from evigrad.training.files import write_json

DIVERGED = "diverged.json"


@dataclass(frozen=True)
class Cell:
    """One run of a grid: the experiment ``label`` on one ``seed``, in ``folder``."""

    label: str
    seed: int
    experiment: Experiment
    folder: Path
    test: bool = True

    def __str__(self) -> str:
        return f"{self.label}, seed {self.seed} ({self.folder})"

    @property
    def diverged(self) -> bool:
        """Whether this run ended in an infinite or NaN loss; running it again would end the same."""
        return (self.folder / DIVERGED).exists()

    def finished(self) -> bool:
        """Whether the folder already holds this very run, complete or diverged.

        Raises:
            ValueError: It holds another one.
        """
        place = RunFolder(self.folder)
        if not place.config.exists():
            return False
        place.require_same({**read_experiment(self.folder)[1], **self.experiment.to_config()})
        measured = not self.test or (self.folder / MISSING).exists()
        return self.diverged or (place.result.exists() and measured)


def grid(
    experiments: Mapping[str, Experiment], seeds: Sequence[int], folder: Path | str, test: bool = True
) -> list[Cell]:
    """Every experiment on every seed, seed by seed, so that a stopped grid holds comparable runs."""
    return [
        Cell(label, seed, experiment.seeded(seed), Path(folder) / label / f"seed-{seed}", test)
        for seed in seeds
        for label, experiment in experiments.items()
    ]


def run_grid(
    cells: Sequence[Cell],
    jobs: int = 1,
    finished: Callable[[Cell], None] = lambda cell: None,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Run the ``cells`` that aren't finished; started ones are resumed.

    Args:
        cells: See :func:`grid`.
        jobs: Processes. With 1 everything runs in this process.
        finished: Called here with each cell that is complete, those from earlier runs first.
        tick: Called here several times a second while other processes work.

    Raises:
        KeyboardInterrupt: After SIGINT or SIGTERM, when the runs under way have saved themselves.
        RuntimeError: A worker process died.
        Interrupted: The same, with ``jobs=1``.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}: the number of processes.")
    done = [cell for cell in cells if cell.finished()]
    for cell in done:
        finished(cell)
    rest = [cell for cell in cells if cell not in done]
    if jobs == 1 or len(rest) < 2:
        for cell in rest:
            run_cell(cell)
            finished(cell)
        return
    in_processes(run_cell, rest, jobs, max(1, (os.cpu_count() or 1) // jobs), finished, tick)


def run_cell(cell: Cell) -> None:
    """Run or resume one cell, and measure it with each modality missing; divergence is an outcome too."""
    try:
        cell.experiment.run(cell.folder, resume=True, test=cell.test)
    except DivergedError as error:
        write_json(cell.folder / DIVERGED, {"error": str(error)})
        return
    if cell.test:
        save_missing(cell.folder)
