"""The commands by name. A command's module, and all that is heavy in it, is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from evigrad.cli.errors import ExitCode, UsageError, nearest

COMMANDS = {
    "demo": "compare six methods on bundled data in about a minute",
    "train": "train a network by a method; everything lands in a run folder",
    "resume": "go on with a run that was stopped or killed",
    "evaluate": "measure a run: calibration, modalities alone or missing, noise",
    "predict": "apply a run to new files, with modalities missing if need be",
    "export": "write a run as a torch.export program and ONNX, and check both",
    "data": "list data sets, describe one, prepare one from its original files",
    "methods": "list training methods, or say where one comes from",
    "doctor": "what is installed, what is missing, and a five-second self-check",
}


def overview() -> str:
    """The text of ``evigrad --help``."""
    lines = [f"  {name:<10}{text}" for name, text in COMMANDS.items()]
    codes = [f"  {code.value:>3}  {code.meaning}" for code in ExitCode]
    return "\n".join(
        [
            "usage: evigrad COMMAND [options]",
            "",
            "Multi-modal training with evidence-weighted gradients and other methods.",
            "",
            "commands:",
            *lines,
            "",
            "evigrad COMMAND --help explains every option. --traceback, anywhere, shows",
            "where an error came from (so does the environment variable EVIGRAD_TRACEBACK=1).",
            "",
            "exit codes:",
            *codes,
            "",
        ]
    )


def run(name: str, arguments: list[str]) -> int:
    """Call the command ``name``; returns its exit code."""
    if name not in COMMANDS:
        raise UsageError(f"unknown command {name!r}.{nearest(name, COMMANDS)} Choose one of: {', '.join(COMMANDS)}.")
    command: Callable[[list[str]], int] = import_module(f"evigrad.cli.{name}").command
    return command(arguments)
