"""The doctor's self-check: calibrated gradients against an independent calculation, and a few real training steps.

The calculation here shares nothing with :mod:`evigrad.calibration`: Hessians and derivatives come from automatic
differentiation, the formulas stand as the paper prints them, sample by sample.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evigrad.calibration import CalibratedLoss
from evigrad.experiments import Choice, Experiment
from evigrad.training import Optimizer, Training

TOLERANCE = 1e-8
VARIANCE_FLOOR = 1e-6  # relative to a sample's mean squared gradient, as CalibratedLoss documents it
Weights = tuple[Tensor, Tensor]


def gradient_error(samples: int = 4, classes: int = 3, seed: int = 0) -> float:
    """Largest difference, relative to the largest gradient, between the criterion and the calculation here."""
    generator = torch.Generator().manual_seed(seed)
    widths = {"a": 2, "b": 3}
    heads = {name: _linear(width, classes, generator) for name, width in widths.items()}
    joint = _linear(sum(widths.values()), classes, generator)
    features = {n: torch.randn(samples, w, generator=generator, dtype=torch.float64) for n, w in widths.items()}
    target = torch.randint(classes, (samples,), generator=generator)
    criterion = CalibratedLoss(heads, joint, posterior="full", curvature="batch")
    leaves = {name: value.clone().requires_grad_() for name, value in features.items()}
    criterion(leaves, target).loss.backward()
    error = 0.0
    for name in widths:
        expected = _calibrated(name, heads, joint, features, target)
        found = leaves[name].grad
        assert found is not None
        error = max(error, float((found - expected).abs().max() / expected.abs().max()))
    return error


def training_gain(epochs: int = 4) -> tuple[float, float]:
    """Validation accuracy of a short calibrated training on generated views, and that of guessing."""
    training = Training(epochs=epochs, batch_size=32, progress="none", optimizer=Optimizer(learning_rate=0.05))
    data = Choice("synthetic", {"sizes": [300, 150, 150], "noise": [0.3, 0.6]})
    with tempfile.TemporaryDirectory() as folder:
        result = Experiment(data, Choice("bogc"), training=training).run(Path(folder) / "run", test=False)
    return result.metrics["validation"]["accuracy"], 0.25


def _linear(width: int, classes: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(width, classes, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(classes, width, generator=generator))
        layer.bias.copy_(torch.randn(classes, generator=generator))
    return layer


def _calibrated(
    name: str, heads: dict[str, nn.Linear], joint: nn.Linear, features: dict[str, Tensor], target: Tensor
) -> Tensor:
    """The encoder's gradient [B, K] by the paper: b_d (b_d^i μ_d^i + b_d^f μ_d^f), at the plain gradient's norm × γ."""
    whole = torch.cat(list(features.values()), dim=1)
    names = list(features)
    before = sum(features[other].shape[1] for other in names[: names.index(name)])
    place = slice(before, before + features[name].shape[1])
    own = _moments(heads[name], features[name], target)
    mean, variance = _moments(joint, whole, target)
    shared = mean[:, place], variance[:, place]
    rows = [_update(own[0][t], own[1][t], shared[0][t], shared[1][t]) for t in range(len(target))]
    update, plain = torch.stack(rows), own[0] + shared[0]
    scaled: Tensor = 1.5 * update * plain.norm() / update.norm() / len(target)
    return scaled


def _moments(head: nn.Linear, features: Tensor, target: Tensor) -> Weights:
    """Mean and variance [B, K] of each sample's gradient when the head follows its Laplace posterior."""
    size = head.weight.numel()
    theta = torch.cat([head.weight.detach().flatten(), head.bias.detach()])

    def split(vector: Tensor) -> Weights:
        return vector[:size].view_as(head.weight), vector[size:]

    def loss(vector: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(features, *split(vector)), target, reduction="sum")

    def gradient(vector: Tensor) -> Tensor:
        weight, bias = split(vector)
        return (F.linear(features, weight, bias).softmax(1) - F.one_hot(target, len(bias))) @ weight

    hessian = torch.autograd.functional.hessian(loss, theta)  # type: ignore[no-untyped-call]
    covariance = torch.linalg.inv(hessian + torch.eye(len(theta), dtype=theta.dtype))
    jacobian = torch.autograd.functional.jacobian(gradient, theta)  # type: ignore[no-untyped-call]
    variance = torch.einsum("bkp,pq,bkq->bk", jacobian, covariance, jacobian)
    mean = gradient(theta)
    return mean, torch.maximum(variance, VARIANCE_FLOOR * mean.square().mean(1, keepdim=True))


def _update(own: Tensor, own_variance: Tensor, shared: Tensor, shared_variance: Tensor) -> Tensor:
    beliefs, uncertainties = [], []
    for variance in (own_variance, shared_variance):
        evidence = variance**-0.5
        strength = (evidence + 1).sum()
        beliefs.append(evidence / strength)
        uncertainties.append(len(variance) / strength)
    first, second = beliefs
    conflict = first.sum() * second.sum() - (first * second).sum()
    combined = (first * second + first * uncertainties[1] + second * uncertainties[0]) / (1 - conflict)
    return combined * (first * own + second * shared)
