"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere, both on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SECONDS_BETWEEN_REFRESHES = 0.25
ROOM_FOR_WORDS, SHORTEST_BAR = 48, 8


class Progress:
    """Counts samples and says where the run is; this class itself is the silent one.

    Args:
        epochs: Epochs of the whole run.
        samples: Training samples per epoch.
        done: Samples already seen by a run that is resumed.
    """

    def __init__(self, epochs: int, samples: int, done: int = 0) -> None:
        self.epochs = epochs
        self.total = epochs * samples
        self.done = done
        self.seen = 0
        self.started = time.monotonic()
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def advance(self, samples: int) -> bool:
        """Count ``samples`` more; whether it is time to :meth:`show` numbers, which costs waiting for the device."""
        self.seen += samples
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + SECONDS_BETWEEN_REFRESHES
        return True

    @property
    def throughput(self) -> float:
        """Samples per second since this process began."""
        return self.seen / max(time.monotonic() - self.started, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Time to the last epoch's end at this throughput."""
        return (self.total - self.done - self.seen) / max(self.throughput, 1e-9)

    def show(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Show the running ``numbers`` of ``epoch`` (counted from 0)."""

    def epoch(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Say how ``epoch`` ended."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainProgress(Progress):
    """One line per epoch."""

    def advance(self, samples: int) -> bool:
        """Count ``samples`` more; a line is written per epoch only."""
        self.seen += samples
        return False

    def epoch(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Write the line."""
        remark(
            f"epoch {epoch + 1}/{self.epochs}  {_words(numbers)}  {self.throughput:,.0f} samples/s  "
            f"{_duration(self.seconds_left)} left"
        )


class BarProgress(Progress):
    """A rich progress bar."""

    def __init__(self, epochs: int, samples: int, done: int = 0) -> None:
        super().__init__(epochs, samples, done)
        self._bar, self._task = _rich_bar(self.total, done)
        self._bar.start()

    def show(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Redraw the bar."""
        self._bar.update(
            self._task,
            completed=self.done + self.seen,
            description=f"epoch {epoch + 1}/{self.epochs}",
            numbers=[_words({name: value}) for name, value in numbers.items()],
            pace=f"{self.throughput:,.0f} samples/s, {_duration(self.seconds_left)} left",
        )

    def epoch(self, epoch: int, numbers: Mapping[str, float]) -> None:
        """Redraw the bar with the epoch's numbers."""
        self.show(epoch, numbers)

    def close(self) -> None:
        """Leave the last state of the bar on the terminal."""
        self._bar.stop()


def remark(line: str) -> None:
    """Write one line to standard error; a reader that goes away (``2>&1 | head``) is no reason to lose a run."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        # Not only this line: what waits in the buffer would be tried again, and Python complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def build_progress(kind: str, epochs: int, samples: int, done: int = 0) -> Progress:
    """The display called ``kind``; ``auto`` is a bar if standard error is a terminal."""
    if kind == "auto":
        kind = "bar" if sys.stderr.isatty() else "plain"
    return {"bar": BarProgress, "plain": PlainProgress, "none": Progress}[kind](epochs, samples, done)


def _rich_bar(total: int, done: int) -> tuple[RichProgress, TaskID]:
    from rich.columns import Columns
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as RichProgress

    class NumbersBelow(RichProgress):
        """In one line, a terminal of 80 columns would show neither the bar nor single modalities."""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield Columns(part for task in self.tasks for part in task.fields["numbers"])

    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), TextColumn("[dim]{task.fields[pace]}")]
    if (room := console.width - ROOM_FOR_WORDS) >= SHORTEST_BAR:
        columns.insert(1, BarColumn(bar_width=min(room, 24)))
    bar = NumbersBelow(*columns, console=console)
    return bar, bar.add_task("starting", total=total, completed=done, numbers=(), pace="")


def _words(numbers: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in numbers.items())


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
