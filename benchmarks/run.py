"""Runs the benchmarks, each in a process of its own, and writes their results and the page that shows them.

python benchmarks/run.py                        everything, with one and with two threads
python benchmarks/run.py --quick                tiny sizes: does it run at all; touches no recorded result
python benchmarks/run.py --only memory growth   some of them; the others' recorded results stay
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BENCHMARKS = ("whole_step", "calibration", "dense", "memory", "growth", "loop", "loading", "startup")
# The dense reference takes minutes, and its scaling over threads is not the question; starting up uses one anyway.
ONE_THREAD = ("dense", "startup")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, results into runs/benchmarks-quick")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS, help="which ones (default: all)")
    parser.add_argument("--threads", nargs="+", type=int, help="numbers of threads (default: 1 2; quick: 1)")
    arguments = parser.parse_args()
    counts = arguments.threads or ([1] if arguments.quick else [1, 2])
    quick = ROOT / "runs" / "benchmarks-quick"
    results = quick if arguments.quick else ROOT / "benchmarks" / "results"
    page = quick / "benchmarks.md" if arguments.quick else ROOT / "docs" / "benchmarks.md"
    results.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        threads = counts[:1] if name in ONE_THREAD else counts
        runs = [measured(name, count, arguments.quick) for count in threads]
        write(results / f"{name}.json", json.dumps({"benchmark": name, "runs": rounded(runs)}, indent=1) + "\n")
    subprocess.run([sys.executable, "-m", "benchmarks.page", str(results), str(page)], cwd=ROOT, check=True)
    print(f"results: {results}\npage: {page}")


def measured(name: str, threads: int, quick: bool) -> dict[str, Any]:
    """What the benchmark's process writes."""
    start = time.perf_counter()
    print(f"{name}, {threads} thread{'s' if threads > 1 else ''} ...", end=" ", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, "-m", "benchmarks.child", name, "--threads", str(threads), "--out", str(out)]
        variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        subprocess.run(command + ["--quick"] * quick, cwd=ROOT, env=variables, check=True)
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    return result


def rounded(value: Any) -> Any:
    """The same with every measured number at six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def write(path: Path, text: str) -> None:
    """Replace a file at once, so that an interrupted run leaves the old one."""
    beside = path.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


if __name__ == "__main__":
    main()
