"""Peak memory that a criterion needs beyond its heads, each in a fresh process.

The process warms up on tiny shapes (code and thread pools are loaded), makes heads and features, returns what is free
to the system, resets the kernel's high-water mark, and takes a few steps. Needs Linux's /proc.
"""

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.criteria import HeadStep, PlainLoss, Shapes
from benchmarks.environment import ROOT
from evigrad import CalibratedLoss

STEPS = 3  # each of a criterion's first steps renews the posteriors and calibrates: all that any step does


def measure(quick: bool) -> list[dict[str, Any]]:
    """Megabytes by number of classes and criterion; nothing where the system can't say."""
    if not Path("/proc/self/clear_refs").exists():
        return []
    shapes = [Shapes(8, 6, 16, 2)] if quick else [Shapes(64, classes, 512, 2) for classes in (6, 31, 101, 1000)]
    kinds = ("plain", "calibrated")
    return [vars(each) | {kind: _in_a_fresh_process(each, kind) for kind in kinds} for each in shapes]


def _in_a_fresh_process(shapes: Shapes, kind: str) -> float:
    what = json.dumps({"shapes": vars(shapes), "kind": kind, "threads": torch.get_num_threads()})
    command = [sys.executable, "-m", "benchmarks.memory", what]
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return float(answer.stdout)


def peak_megabytes(shapes: Shapes, kind: str) -> float:
    """Growth of the resident set to its peak."""
    _steps(Shapes(4, 3, 8, 2), kind)
    heads, joint = shapes.heads()
    step = HeadStep(shapes, PlainLoss(heads, joint))
    step()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    if kind == "calibrated":
        step.criterion = CalibratedLoss(heads, joint)
    for _ in range(STEPS):
        step()
    return (_status("VmHWM") - before) / 1024


def _steps(shapes: Shapes, kind: str) -> None:
    heads, joint = shapes.heads()
    step = HeadStep(shapes, CalibratedLoss(heads, joint) if kind == "calibrated" else PlainLoss(heads, joint))
    for _ in range(STEPS):
        step()


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def _main(what: str) -> None:
    wanted = json.loads(what)
    torch.set_num_threads(wanted["threads"])
    print(peak_megabytes(Shapes(**wanted["shapes"]), wanted["kind"]))


if __name__ == "__main__":
    _main(sys.argv[1])
