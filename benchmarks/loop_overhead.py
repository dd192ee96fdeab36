"""What the training loop costs over a bare PyTorch loop: the same steps, timed in one run, as a ratio.

Both train the same network on the same batches with the same optimizer. The bare loop does the least one could:
fetch a batch, forward, loss, backward, step. ``fit`` also counts accuracies, writes a row per step, watches for
signals and shows its progress. Set-up, checkpoints and evaluation happen once an epoch and are timed apart.

Run: python benchmarks/loop_overhead.py [--steps N] [--repeats N] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evigrad.data import load
from evigrad.methods import build_method
from evigrad.networks import MultimodalNetwork, build_network
from evigrad.training import Optimizer, Selection, Training
from evigrad.training.epoch import train_epoch
from evigrad.training.launch import launch
from evigrad.training.loader import load as batches_of
from evigrad.training.order import EpochPlan
from evigrad.training.progress import build_progress
from evigrad.training.run import assemble
from evigrad.training.run_folder import RunFolder
from evigrad.training.signals import StopRequest

BATCH = 64
MODELS: dict[str, dict[str, Any]] = {
    "default: 6 x MLP 128-64": {},
    "largest: 6 x MLP 512-512": {"width": 512, "hidden": (512,)},
}


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    data = load("digits").train
    results = {name: measure(data, options, arguments) for name, options in MODELS.items()}
    report = {"threads": arguments.threads, "batch": BATCH, "samples": len(data), "models": results}
    text = json.dumps(report, indent=2)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    largest = list(results.values())[-1]["joint"]["cpu"]["overhead_percent"]
    print(f"largest model, joint training: {largest:+.1f} % processor time (target: at most +5 %)", file=sys.stderr)


def measure(data: Any, options: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Per method, the time of one epoch of both loops, alternating so that a noisy machine hits both alike."""
    found = {}
    for method in ("joint", "uniform"):
        bare, ours = bare_epoch(data, options, method), our_epoch(data, options, method)
        bare(), ours()
        steps = len(EpochPlan(len(data), BATCH))
        times = [(timed(bare), timed(ours)) for _ in range(arguments.repeats)]
        found[method] = {
            clock: compare([a[clock] for a, _ in times], [b[clock] for _, b in times], steps)
            for clock in ("cpu", "wall")
        }
    return found


def network_for(data: Any, options: dict[str, Any]) -> MultimodalNetwork:
    """A late-fusion network of equal encoders for all views."""
    return build_network(
        data.modalities, len(data.classes), encoder_options=dict.fromkeys(data.modalities, options), seed=0
    )


def bare_epoch(data: Any, options: dict[str, Any], method: str) -> Callable[[], None]:
    """One epoch of the bare loop, over the same DataLoader."""
    network, chosen = network_for(data, options), build_method(method)
    plan = EpochPlan(len(data), BATCH)
    chosen.prepare(network, len(data), len(plan), 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def epoch() -> None:
        parts = [part for step in plan.steps(plan.order(0, 0)) for part in step]
        for batch in batches_of(data, parts, torch.device("cpu")):
            optimizer.zero_grad()
            loss: Any = chosen.loss(network(batch.inputs, batch.present), batch)
            loss.backward()
            optimizer.step()

    return epoch


def our_epoch(data: Any, options: dict[str, Any], method: str) -> Callable[[], None]:
    """One epoch of ``fit``'s loop, with its rows, accuracies, signals and a progress display."""
    folder = RunFolder(tempfile.mkdtemp(prefix="evigrad-bench-"))
    training = Training(
        epochs=10**6, batch_size=BATCH, optimizer=Optimizer(learning_rate=1e-3), selection=Selection(keep="last")
    )
    run = assemble(
        launch(training.hardware), network_for(data, options), build_method(method), len(data), training, folder
    )
    progress, stop = build_progress("none", training.epochs, len(data)), StopRequest()

    def epoch() -> None:
        train_epoch(run, data, stop, progress, [])
        run.position.step_in_epoch = 0

    return epoch


def timed(work: Callable[[], None]) -> dict[str, float]:
    """Seconds that ``work`` takes: of this process's processor time, which other programs don't disturb, and in all."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def compare(bare: list[float], ours: list[float], steps: int) -> dict[str, float]:
    """Medians per step, and the median over epochs of the ratio of neighbours."""
    return {
        "bare_ms_per_step": round(1e3 * statistics.median(bare) / steps, 4),
        "fit_ms_per_step": round(1e3 * statistics.median(ours) / steps, 4),
        "overhead_percent": round(100 * (statistics.median(b / a for a, b in zip(bare, ours, strict=True)) - 1), 2),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=15, help="epochs of each loop; the ratios of neighbours are compared"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads torch may use")
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
