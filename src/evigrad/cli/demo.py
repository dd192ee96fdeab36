"""``evigrad demo``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evigrad.cli.arguments import call
from evigrad.cli.console import percent, remark, say, say_commands, say_json, say_prose, say_table
from evigrad.cli.errors import ExitCode
from evigrad.cli.live import GridView
from evigrad.experiments import Cell, Outcome, compare, gather, grid, run_grid, verdict
from evigrad.experiments.demo import EPOCHS, QUICK_EPOCHS, QUICK_SEEDS, REFERENCE, SEEDS, demo_experiments, record
from evigrad.training import Interrupted
from evigrad.training.files import write_json

OWN = "bogc"
QUICK = "Two seeds and short training: nothing can be concluded from --quick."
SMALL = "One small data set and one small network; other data can order the methods otherwise."


def command(words: list[str]) -> int:
    """Run ``evigrad demo`` with the arguments ``words``."""
    return call("demo", demo, words)


def demo(quick: bool = False, out: Path | None = None, jobs: int | None = None, json: bool = False) -> int:
    """Compare six methods on bundled digits with few labels and noisy views, over several seeds.

    The regime and each method's learning rate were chosen on validation data of other seeds; docs/training.md says how,
    and tools/choose_demo.py does it again. Stopped with Ctrl-C, it goes on where it was when started again.

    Args:
        quick: Two seeds and fewer epochs: to see how it works, not to conclude from.
        out: The folder for all runs; runs/demo (runs/demo-quick with --quick) if not given.
        jobs: Processes; one a core if not given, at most 8.
        json: Print all numbers as JSON instead of tables, for scripts.
    """
    folder = out or Path("runs") / ("demo-quick" if quick else "demo")
    seeds, epochs = (QUICK_SEEDS, QUICK_EPOCHS) if quick else (SEEDS, EPOCHS)
    cells = grid(demo_experiments(epochs), seeds, folder)
    remark(_introduction(cells, folder))
    started = time.monotonic()
    _run(cells, min(os.cpu_count() or 1, 8) if jobs is None else jobs, folder)
    seconds = time.monotonic() - started
    outcomes = gather(cells)
    summary = _summary(outcomes, seconds)
    write_json(folder / "comparison.json", summary)
    if json:
        say_json(summary)
    else:
        _say(outcomes, cells, folder, seconds, quick)
    return ExitCode.OK


def _run(cells: Sequence[Cell], jobs: int, folder: Path) -> None:
    try:
        with GridView(cells) as view:
            run_grid(cells, jobs, view.finished, view.tick)
    except (KeyboardInterrupt, Interrupted):
        remark(f"stopped; finished runs are in {folder}. The same command goes on.")
        raise SystemExit(ExitCode.INTERRUPTED) from None


def _introduction(cells: Sequence[Cell], folder: Path) -> str:
    chosen = record()["chosen"]["regime"]
    labels = len(dict.fromkeys(cell.label for cell in cells))
    return (
        f"{labels} methods x {len(cells) // labels} seeds on the bundled digits, {chosen['labels_per_class']} labels a "
        f"class, noisy views; runs in {folder}"
    )


def _summary(outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    finished = any(one.label == REFERENCE and one.accuracy for one in outcomes)
    comparisons = compare(outcomes, REFERENCE) if finished else []
    return {
        "reference": REFERENCE,
        "seconds": round(seconds, 1),
        "regime": record()["chosen"],
        "methods": [outcome.to_json() for outcome in outcomes],
        "comparisons": [{"label": one.label, **vars(one.difference), "p_holm": one.p} for one in comparisons],
        "verdict": verdict(outcomes, REFERENCE, OWN),
    }


def _say(outcomes: Sequence[Outcome], cells: Sequence[Cell], folder: Path, seconds: float, quick: bool) -> None:
    say_table(
        ["method", "mean", "95 % interval", "worst", "seeds"],
        [[outcome.label, *_accuracy(outcome)] for outcome in outcomes],
        "Test accuracy, %",
    )
    _say_modalities(outcomes, "alone", "Each view alone, % (linear probe on its features)")
    _say_modalities(outcomes, "missing", "Everything but one view, %: accuracy without ...")
    lines = [*verdict(outcomes, REFERENCE, OWN), *([QUICK] if quick else []), SMALL]
    say("What this shows")
    say_prose("\n".join(f"- {line}" for line in lines))
    say("")
    run = next((cell.folder for cell in cells if cell.label == OWN and not cell.diverged), cells[0].folder)
    say(f"{len(cells)} runs in {folder} ({seconds:.0f} s now). Next:")
    say_commands(
        f"evaluate {run}",
        "train --method bogc --method.weights source",
        "methods bogc",
    )


def _say_modalities(outcomes: Sequence[Outcome], what: str, title: str) -> None:
    found = {outcome.label: getattr(outcome, what) for outcome in outcomes if outcome.accuracy}
    names = list(next(iter(found.values()), {}))
    rows = [[label, *(percent(sum(values[n]) / len(values[n])) for n in names)] for label, values in found.items()]
    say_table(["method", *names], rows, title)


def _accuracy(outcome: Outcome) -> list[str]:
    summary, ran = outcome.summary(), len(outcome.accuracy) + len(outcome.diverged)
    if summary is None:
        return ["-", "-", "diverged", f"0/{ran}"]
    interval = "-" if summary.runs < 2 else f"{percent(max(summary.low, 0))} to {percent(min(summary.high, 1))}"
    worst = "diverged" if outcome.diverged else percent(summary.worst)
    return [percent(summary.mean), interval, worst, f"{summary.runs}/{ran}"]
