"""Several experiments on several seeds, in several processes; what is finished is never done twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # documented, but not in its __all__

from evigrad.experiments.experiment import Experiment, read_experiment
from evigrad.experiments.missing import MISSING, save_missing
from evigrad.training import INTERRUPTED, DivergedError, Interrupted, RunFolder
from evigrad.training.files import write_json

DIVERGED = "diverged.json"
SECONDS_BETWEEN_TICKS = 0.2


@dataclass(frozen=True)
class Cell:
    """One run of a grid: the experiment ``label`` on one ``seed``, in ``folder``."""

    label: str
    seed: int
    experiment: Experiment
    folder: Path
    test: bool = True

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
    done = [cell for cell in cells if cell.finished()]
    for cell in done:
        finished(cell)
    rest = [cell for cell in cells if cell not in done]
    if jobs == 1 or len(rest) < 2:
        for cell in rest:
            run_cell(cell)
            finished(cell)
        return
    _in_processes(rest, min(jobs, len(rest)), finished, tick)


def run_cell(cell: Cell) -> None:
    """Run or resume one cell, and measure it with each modality missing; divergence is an outcome too."""
    try:
        cell.experiment.run(cell.folder, resume=True, test=cell.test)
    except (DivergedError, LinAlgError) as error:  # curvatures overflow before the loss does
        write_json(cell.folder / DIVERGED, {"error": str(error)})
        return
    if cell.test:
        save_missing(cell.folder)


def _in_processes(cells: Sequence[Cell], jobs: int, finished: Callable[[Cell], None], tick: Callable[[], None]) -> None:
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start_worker, (jobs,))
    with _interruptible():
        try:
            # Ignored signals stay ignored in new processes: a worker that is still importing isn't torn apart.
            with _ignoring(signal.SIGINT):
                waiting = {pool.submit(_work, cell): cell for cell in cells}
            _collect(waiting, finished, tick)
        except BaseException:
            _stop_children()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    pool.shutdown()


def _collect(waiting: dict[Future[None], Cell], finished: Callable[[Cell], None], tick: Callable[[], None]) -> None:
    while waiting:
        done, _ = wait(waiting, SECONDS_BETWEEN_TICKS, FIRST_COMPLETED)
        for future in done:
            cell = waiting.pop(future)
            _result(future, cell)
            finished(cell)
        tick()


def _start_worker(jobs: int) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))


def _work(cell: Cell) -> None:
    try:
        run_cell(cell)
    except Interrupted:
        # Everything is saved. A worker that went on waiting for work would keep the pool from closing.
        os._exit(INTERRUPTED)


def _result(future: Future[None], cell: Cell) -> None:
    try:
        future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            f"a worker process died (killed, or out of memory?) while {cell.folder} was on its way. What was finished "
            "is kept: start again to go on, with fewer jobs if memory is short."
        ) from error


def _stop_children() -> None:
    """Ask every worker to save and end; one between two runs just ends."""
    for child in multiprocessing.active_children():
        child.terminate()


@contextmanager
def _ignoring(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM, too, arrives as a KeyboardInterrupt."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
