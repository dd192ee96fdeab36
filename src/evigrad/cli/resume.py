"""``evigrad resume``."""

from __future__ import annotations

from pathlib import Path

from evigrad.cli.arguments import call
from evigrad.cli.console import remark
from evigrad.cli.train import report
from evigrad.experiments import is_first_process, read_experiment
from evigrad.training import RunFolder, read_result


def command(words: list[str]) -> int:
    """Run ``evigrad resume`` with the arguments ``words``."""
    return call("resume", resume, words)


def resume(run: Path, json: bool = False) -> int:
    """Go on with a run that was stopped, killed or cut off, under exactly the settings it was started with.

    It ends with the weights and numbers of a run that never stopped. A finished run is only reported, and its data
    aren't needed.

    Args:
        run: The run folder.
        json: Print the result as JSON, for scripts.
    """
    experiment, _ = read_experiment(run)
    if RunFolder(run).result.exists():
        return report(read_result(run), json)
    if is_first_process():
        remark(f"going on with {experiment.method.name} on {experiment.data.name} in {run}")
    return report(experiment.run(run, resume=True), json)
