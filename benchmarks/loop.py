"""What the training loop costs over a bare PyTorch loop: the same network, batches and optimizer, epoch by epoch.

The bare loop does the least one could: fetch a batch, forward, loss, backward, step. ``fit``'s own epoch also counts
accuracies, writes a row for every step and watches for signals. Set-up, checkpoints and evaluation happen once an epoch
and are not steps.
"""

import random
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import alternate
from evigrad.data import load
from evigrad.methods import Method, build_method
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
REPETITIONS = 15
MODELS: dict[str, dict[str, Any]] = {
    "default, 6 x MLP 128-64": {},
    "largest, 6 x MLP 512-512": {"width": 512, "hidden": (512,)},
}
METHODS = ("joint", "uniform")
Seconds = dict[str, float]


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case for each network and method: seconds of an epoch of both loops, which take turns."""
    data, rng = load("digits").train, random.Random(0)
    models = dict(list(MODELS.items())[:1]) if quick else MODELS
    return [
        {"model": model, "method": method, "steps": len(EpochPlan(len(data), BATCH)), "epochs": epochs}
        for model, options in models.items()
        for method in METHODS
        for epochs in [_epochs(data, options, method, 2 if quick else REPETITIONS, rng)]
    ]


def _epochs(data: Any, options: dict[str, Any], method: str, repetitions: int, rng: random.Random) -> Any:
    loops = (bare_epoch(data, *_parts(data, options, method)), fit_epoch(data, *_parts(data, options, method)))
    for epoch in loops:
        epoch()
    return [_turn(loops, rng) for _ in range(repetitions)]


def _turn(loops: tuple[Callable[[], None], Callable[[], None]], rng: random.Random) -> dict[str, Seconds]:
    clocks: list[Seconds] = [{}, {}]

    def timed(place: int) -> float:
        clocks[place].update(_seconds(loops[place]))
        return 0.0

    alternate((lambda: timed(0), lambda: timed(1)), rng)
    return dict(zip(("bare", "fit"), clocks, strict=True))


def _seconds(work: Callable[[], None]) -> Seconds:
    """On the clock, and of this process's processor time, which other programs disturb less."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _parts(data: Any, options: dict[str, Any], method: str) -> tuple[MultimodalNetwork, Method]:
    """A late-fusion network of equal encoders for all views, and its method."""
    each = dict.fromkeys(data.modalities, options)
    return build_network(data.modalities, len(data.classes), encoder_options=each), build_method(method)


def bare_epoch(data: Any, network: MultimodalNetwork, method: Method) -> Callable[[], None]:
    """One epoch of the bare loop, over the same batches in the same order."""
    plan = EpochPlan(len(data), BATCH)
    method.prepare(network, len(data), len(plan), 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def epoch() -> None:
        parts = [part for step in plan.steps(plan.order(0, 0)) for part in step]
        for batch in batches_of(data, parts, torch.device("cpu")):
            optimizer.zero_grad()
            loss: Any = method.loss(network(batch.inputs, batch.present), batch)
            loss.backward()
            optimizer.step()

    return epoch


def fit_epoch(data: Any, network: MultimodalNetwork, method: Method) -> Callable[[], None]:
    """One epoch of ``fit``'s loop; it never ends, so that nothing but steps is timed."""
    folder = RunFolder(tempfile.mkdtemp(prefix="evigrad-bench-"))
    training = Training(
        epochs=10**6, batch_size=BATCH, optimizer=Optimizer(learning_rate=1e-3), selection=Selection(keep="last")
    )
    run = assemble(launch(training.hardware), network, method, len(data), training, folder)
    progress, stop = build_progress("none", training.epochs, len(data)), StopRequest()

    def epoch() -> None:
        train_epoch(run, data, stop, progress, [])
        run.position.step_in_epoch = 0

    return epoch
