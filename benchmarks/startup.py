"""How long a command takes to say something: whole processes, files in the system's cache, turn by turn."""

import random
import subprocess
import sys
from typing import Any

from benchmarks.environment import ROOT
from benchmarks.measure import alternate, seconds

REPETITIONS = 10
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import torch'": ["-c", "import torch"],
    "python -c 'from evigrad import CalibratedLoss'": ["-c", "from evigrad import CalibratedLoss"],
    "evigrad --help": ["-m", "evigrad", "--help"],
    "evigrad methods": ["-m", "evigrad", "methods"],
    "evigrad train --help": ["-m", "evigrad", "train", "--help"],
}


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case for each command, with the seconds of every repetition."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    rng = random.Random(0)
    for arguments in COMMANDS.values():
        _run(arguments)
    for _ in range(1 if quick else REPETITIONS):
        turn = alternate([lambda given=given: seconds(lambda: _run(given)) for given in COMMANDS.values()], rng)
        for name, one in zip(COMMANDS, turn, strict=True):
            times[name].append(one)
    return [{"command": name, "seconds": each} for name, each in times.items()]


def _run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
