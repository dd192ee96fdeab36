"""``evigrad doctor``."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

from evigrad.cli.arguments import call
from evigrad.cli.console import say, say_json, say_table
from evigrad.cli.errors import ExitCode
from evigrad.cli.extras import EXTRAS

USES = {
    "train": "training, evaluation, command line",
    "av": "sound and images of your own",
    "table": "Parquet tables",
    "onnx": "evigrad export to ONNX",
    "tracking": "TensorBoard, W&B, MLflow loggers",
}


def command(words: list[str]) -> int:
    """Run ``evigrad doctor`` with the arguments ``words``."""
    return call("doctor", doctor, words)


def doctor(check: bool = True, json: bool = False) -> int:
    """Say what is installed, which extras are missing, which devices there are, and check that the arithmetic holds.

    The check (about five seconds) trains a few epochs on the bundled digits and compares calibrated gradients with an
    independent calculation. It ends with exit code 1 if either is wrong.

    Args:
        check: Run the self-check.
        json: Print everything as JSON, for scripts.
    """
    from evigrad.training.environment import environment

    found: dict[str, Any] = {"environment": environment(), "extras": _extras(), "devices": _devices()}
    if check:
        found["check"] = _check()
    failed = [one["name"] for one in found.get("check", []) if not one["passed"]]
    if json:
        say_json({**found, "healthy": not failed})
    else:
        _say(found)
    return ExitCode.FAILED if failed else ExitCode.OK


def _extras() -> dict[str, dict[str, list[str]]]:
    return {
        extra: {
            "installed": [name for name in modules if find_spec(name)],
            "missing": [name for name in modules if not find_spec(name)],
        }
        for extra, modules in EXTRAS.items()
    }


def _devices() -> list[str]:
    import torch

    devices = [f"cpu, {torch.get_num_threads()} threads"]
    devices += [f"cuda:{number}, {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count())]
    return [*devices, "mps (not used: no 64-bit numbers)"] if torch.backends.mps.is_available() else devices


def _check() -> list[dict[str, Any]]:
    from evigrad.cli.selfcheck import TOLERANCE, gradient_error, training_gain

    started = time.monotonic()
    error = gradient_error()
    between = time.monotonic()
    reached, guessing = training_gain()
    return [
        {
            "name": "calibrated gradients equal an independent calculation",
            "passed": error < TOLERANCE,
            "found": f"relative error {error:.1g}, allowed {TOLERANCE:.0g}",
            "seconds": round(between - started, 1),
        },
        {
            "name": "a short training learns",
            "passed": reached > 2 * guessing,
            "found": f"{100 * reached:.0f} % of validation samples right, guessing {100 * guessing:.0f} %",
            "seconds": round(time.monotonic() - between, 1),
        },
    ]


def _say(found: dict[str, Any]) -> None:
    here = found["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in here["packages"].items())
    say(f"Python {here['python']} on {here['platform']}", versions, f"Devices: {'; '.join(found['devices'])}")
    rows = []
    for extra, modules in found["extras"].items():
        state = "installed" if not modules["missing"] else f"missing: {', '.join(modules['missing'])}"
        rows.append([extra, USES[extra], state])
    say_table(["extra", "for", "state"], rows, texts=3)
    lacking = [extra for extra, modules in found["extras"].items() if modules["missing"]]
    if lacking:
        say(f"To have everything: pip install 'evigrad[{','.join(lacking)}]'")
    for one in found.get("check", []):
        say(f"{'ok  ' if one['passed'] else 'FAIL'} {one['name']}: {one['found']} ({one['seconds']} s)")
