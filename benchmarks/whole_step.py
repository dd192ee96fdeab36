"""A whole training step of two ResNet-18 encoders, calibrated against plain.

Two copies of one network take turns, in random order, with one batch: forward, criterion, backward, SGD. In the steady
state the posteriors are renewed at one step in ten, so every repetition measures an ordinary step and a renewing one;
they are weighed nine to one. The steps between are passed by showing the criterion the same features without encoders.
"""

import copy
import random
import time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import REFRESH
from benchmarks.criteria import PlainLoss
from benchmarks.measure import alternate
from benchmarks.networks import WIDTH, ResNet18
from evigrad import CalibratedLoss

# One sample's input: a spectrogram, and two frames.
SHAPES = {"audio": (1, 1024, 128), "video": (2, 3, 224, 224)}
TINY = {"audio": (1, 64, 32), "video": (2, 3, 32, 32)}
CLASSES = 6
FIRST_STEPS = 2
REPETITIONS = 6


class Trainer:
    """A network, a criterion and an optimizer; `step` is what a training loop does, with two clocks around it."""

    def __init__(self, encoders: nn.ModuleDict, criterion: nn.Module, batch: dict[str, Tensor], target: Tensor) -> None:
        self.encoders, self.criterion = encoders, criterion
        self.batch, self.target = batch, target
        parameters = [*encoders.parameters(), *criterion.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4)
        self.steps = 0
        self.criterion_seconds: list[float] = []

    def step(self) -> float:
        """One training step; its duration. How long the criterion and its backward took is kept aside."""
        arrived: list[float] = []
        start = time.perf_counter()
        self.optimizer.zero_grad()
        features = {name: encoder(self.batch[name]) for name, encoder in self.encoders.items()}
        encoded = time.perf_counter()
        for value in features.values():
            # Runs when the encoder's backward begins, and no encoder begins before the criterion's backward is over.
            value.register_hook(lambda _: arrived.append(time.perf_counter()))
        out = self.criterion(features, self.target)
        (out if isinstance(out, Tensor) else out.loss).backward()
        self.optimizer.step()
        end = time.perf_counter()
        self.steps += 1
        self.criterion_seconds.append(arrived[0] - encoded)
        self.features = {name: value.detach() for name, value in features.items()}
        return end - start

    def pass_until(self, position: int) -> None:
        """Let the criterion alone take steps until the next one is at ``position`` of a refresh cycle."""
        while (self.steps + 1) % REFRESH != position % REFRESH or self.steps < REFRESH:
            self.criterion(self.features, self.target)
            self.steps += 1


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case for each batch size."""
    return [_case(samples, quick) for samples in ((2,) if quick else (8, 16))]


def _case(samples: int, quick: bool) -> dict[str, Any]:
    shapes = TINY if quick else SHAPES
    batch = {name: torch.randn(samples, *shape) for name, shape in shapes.items()}
    target = torch.randint(CLASSES, (samples,))
    encoders = nn.ModuleDict({"audio": ResNet18(1), "video": ResNet18(3)})
    heads = {name: nn.Linear(WIDTH, CLASSES) for name in shapes}
    joint = nn.Linear(len(shapes) * WIDTH, CLASSES)
    criteria = (PlainLoss(heads, joint), CalibratedLoss(heads, joint))
    plain, calibrated = (Trainer(copy.deepcopy(encoders), copy.deepcopy(each), batch, target) for each in criteria)
    Trainer(encoders, PlainLoss(heads, joint), batch, target).step()  # makes the convolutions choose their algorithms
    rng = random.Random(0)
    first = [_pair(plain, calibrated, rng) for _ in range(1 if quick else FIRST_STEPS)]
    cycles = []
    for _ in range(1 if quick else REPETITIONS):
        calibrated.pass_until(REFRESH // 2)
        ordinary = _pair(plain, calibrated, rng)
        calibrated.pass_until(REFRESH)
        cycles.append({"ordinary": ordinary, "renewing": _pair(plain, calibrated, rng)})
    return {"samples": samples, "inputs": shapes, "first": first, "cycles": cycles}


def _pair(plain: Trainer, calibrated: Trainer, rng: random.Random) -> dict[str, float]:
    without, with_it = alternate((plain.step, calibrated.step), rng)
    return {
        "plain": without,
        "calibrated": with_it,
        "plain_criterion": plain.criterion_seconds[-1],
        "calibrated_criterion": calibrated.criterion_seconds[-1],
    }
