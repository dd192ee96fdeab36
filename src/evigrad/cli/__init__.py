"""The command line: ``evigrad COMMAND ...``, or :func:`main` from Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from evigrad.cli.commands import COMMANDS, overview, run
from evigrad.cli.errors import ExitCode, UsageError, guarded

__all__ = ["COMMANDS", "ExitCode", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see :class:`ExitCode`).

    Example:
        >>> int(main(["methods", "nonsense"]))
        2
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with_traceback = "--traceback" in given
    words = [word for word in given if word != "--traceback"]
    if words and words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return ExitCode.OK
    if words == ["--version"]:
        from evigrad import __version__

        sys.stdout.write(f"evigrad {__version__}\n")
        return ExitCode.OK
    return guarded(lambda: _dispatch(words), with_traceback)


def _dispatch(words: list[str]) -> int:
    if not words:
        raise UsageError(f"no command given. Choose one of: {', '.join(COMMANDS)}; evigrad --help explains them.")
    return run(words[0], words[1:])
