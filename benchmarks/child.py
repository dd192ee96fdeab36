"""One benchmark with one number of threads, in a process of its own: python -m benchmarks.child NAME --threads 1."""

import argparse
import importlib
import json
import time
from pathlib import Path

import torch

from benchmarks.environment import environment, load

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(SEED)
    before, start = load(), time.perf_counter()
    cases = importlib.import_module(f"benchmarks.{arguments.name}").measure(arguments.quick)
    record = {
        "threads": torch.get_num_threads(),
        "seed": SEED,
        "quick": arguments.quick,
        "load": [round(before, 2), round(load(), 2)],
        "seconds": round(time.perf_counter() - start, 1),
        "environment": environment(),
        "cases": cases,
    }
    arguments.out.write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
