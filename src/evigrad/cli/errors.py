"""Exit codes, and errors told in one line."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from enum import IntEnum

from evigrad.cli.extras import remedy


class ExitCode(IntEnum):
    """What the shell is told. Where sysexits.h has a code for it, that one is used."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "a check failed: diverged training, a wrong export, a doctor's finding"
    USAGE = 2, "something asked for is wrong: an option, settings, data, a run folder"
    UNAVAILABLE = 69, "a package is missing; the message says which extra to install"
    INTERNAL = 70, "a defect in evigrad; the traceback is shown"
    STORAGE = 74, "a disk is full or a folder can't be written"
    INTERRUPTED = 75, "stopped by a signal and saved; evigrad resume RUN goes on"
    STOPPED = 130, "stopped by Ctrl-C where there is nothing to go on with"


FAILURES = ("DivergedError", "ExportError")


class UsageError(ValueError):
    """The command line itself is wrong."""


class CheckError(RuntimeError):
    """The work was done, and what came out isn't right."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like ``name``, as a question to append; empty when none is.

    Example:
        >>> nearest("trian", ["train", "predict"])
        " Did you mean 'train'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def guarded(work: Callable[[], int], with_traceback: bool = False) -> int:
    """Run ``work``; whatever it raises becomes a line on standard error and an exit code."""
    with_traceback = with_traceback or os.environ.get("EVIGRAD_TRACEBACK", "") not in ("", "0")
    try:
        return work()
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except KeyboardInterrupt:
        sys.stderr.write("\nevigrad: stopped; what was finished is kept\n")
        return ExitCode.STOPPED
    except SystemExit as leaving:
        return _leave(leaving)
    except Exception as error:
        code = exit_code(error)
        if with_traceback or code == ExitCode.INTERNAL:
            traceback.print_exception(error)
        sys.stderr.write(f"evigrad: {_text(error, code)}\n")
        return code


def exit_code(error: Exception) -> ExitCode:
    """Which code an error ends with."""
    if isinstance(error, ImportError):
        return ExitCode.UNAVAILABLE
    if isinstance(error, CheckError) or type(error).__name__ in FAILURES:
        return ExitCode.FAILED
    if isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError | IsADirectoryError):
        return ExitCode.USAGE
    if isinstance(error, OSError):
        return ExitCode.STORAGE
    return ExitCode.USAGE if isinstance(error, ValueError) else ExitCode.INTERNAL


def _leave(leaving: SystemExit) -> int:
    if not isinstance(leaving.code, int):
        return ExitCode.OK if leaving.code is None else ExitCode.FAILED
    folder = getattr(leaving, "folder", None)
    if folder is not None:
        from evigrad.cli.console import program

        sys.stderr.write(f"evigrad: {leaving}\nevigrad: go on with: {program()} resume {folder}\n")
    return leaving.code


def _text(error: Exception, code: ExitCode) -> str:
    if code == ExitCode.INTERNAL:
        return f"this is a defect in evigrad, please report it with the lines above ({type(error).__name__}: {error})"
    if isinstance(error, ModuleNotFoundError) and (words := remedy(error.name or "")):
        return words
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
