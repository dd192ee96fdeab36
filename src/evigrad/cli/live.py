"""A grid of runs while it goes on: one line per method on a terminal, one per finished run elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from evigrad.cli.console import console, percent, remark
from evigrad.experiments import Cell, gather

if TYPE_CHECKING:
    from rich.console import RenderableType


class GridView:
    """Shows what is finished, on standard error.

    Args:
        cells: All runs of the grid.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        from rich.live import Live

        self.cells = cells
        self.done: list[Cell] = []
        self.started = time.monotonic()
        self.new = 0
        self._console = console(error=True)
        self._live = Live(self._table(), console=self._console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def finished(self, cell: Cell) -> None:
        """Note that ``cell`` is complete."""
        self.done.append(cell)
        self.new += 1
        if not self._console.is_terminal:
            remark(f"{len(self.done)}/{len(self.cells)}  {cell.label}, seed {cell.seed}: {self._reached(cell)}")
        self.tick()

    def tick(self) -> None:
        """Draw the present state."""
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> RenderableType:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False)
        for label in dict.fromkeys(cell.label for cell in self.cells):
            mine = [cell for cell in self.cells if cell.label == label]
            table.add_row(label, *self._line([cell for cell in self.done if cell.label == label], len(mine)))
        seconds = time.monotonic() - self.started
        table.add_row("", f"{len(self.done)} of {len(self.cells)} runs", f"{seconds:.0f} s")
        return table

    def _line(self, done: list[Cell], of: int) -> tuple[str, str]:
        accuracies = [value for outcome in gather(done) for value in outcome.accuracy.values()] if done else []
        mean = f"{percent(sum(accuracies) / len(accuracies))} % so far" if accuracies else ""
        return "■" * len(done) + "□" * (of - len(done)), mean

    def _reached(self, cell: Cell) -> str:
        values = list(gather([cell])[0].accuracy.values())
        return f"{percent(values[0])} %" if values else "diverged"
