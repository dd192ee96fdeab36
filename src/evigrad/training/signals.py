"""SIGINT and SIGTERM ask the loop to stop at the next safe moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

INTERRUPTED = 75
"""Exit code of a run that was asked to stop and saved itself: EX_TEMPFAIL, "try again later"."""


class Interrupted(SystemExit):
    """Raised by ``fit`` after SIGINT or SIGTERM, once everything is saved.

    Left alone it ends the program with exit code 75 (``INTERRUPTED``), on which a script can requeue the job.
    """

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(INTERRUPTED)
        self.folder = folder
        self.step = step

    def __str__(self) -> str:
        return f"stopped after step {self.step} and saved in {self.folder}; resume to go on (exit code {INTERRUPTED})"


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Listen for signals inside the block; a second SIGINT interrupts at once, without saving.

        Python delivers signals to the main thread only; in any other thread nothing is installed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
