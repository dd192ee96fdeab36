"""rich's console, with a reader that goes away (head, less) reported as what it is."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class Terminal(Console):
    """Plain text in a pipe, no markup, no colours chosen by content."""

    def __init__(self, error: bool = False) -> None:
        super().__init__(stderr=error, highlight=False, emoji=False, markup=False)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line, which ends quietly, instead of exiting with code 1."""
        raise BrokenPipeError
