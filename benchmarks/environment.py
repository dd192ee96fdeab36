"""Where and with what a number was measured."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import evigrad

ROOT = Path(__file__).parent.parent


def environment() -> dict[str, Any]:
    """Versions, hardware and commit, for the record."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "evigrad": evigrad.__version__,
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src", "benchmarks/*.py")),
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "system": platform.system(),
    }


def load() -> float:
    """Processes that wanted a core in the last minute: far above the threads in use, the numbers are noisy."""
    return os.getloadavg()[0]


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.stdout.strip()
