"""The whole update line by line: loops over modalities, samples, dimensions and draws, dense posteriors, float64."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.oracles import curvature, moments
from tests.oracles.curvature import Remembered
from tests.oracles.evidence import opinion, weigh
from tests.oracles.moments import Pair

Head = tuple[Tensor, Tensor | None]  # weight [C, K] and bias [C]
JOINT = "joint head"

DEFAULTS = {
    "loss": "cross_entropy",
    "unimodal_weight": 1.0,
    "evidence_power": 0.5,
    "scale": 1.5,
    "posterior": "kronecker",
    "curvature": "running",
    "centre": "weights",
    "moments": "linearized",
    "fusion": "head",
    "reference": "none",
    "weights": "printed",
    "rescale": "batch",
    "dataset_size": None,
    "prior_precision": 1.0,
    "variance_floor": 1e-6,
    "decay": 0.99,
    "refresh": 10,
    "draws": 128,
}


@dataclass
class Batch:
    """What one step is given."""

    heads: dict[str, Head]
    joint: Head
    features: dict[str, Tensor]  # [B, K], only of those modalities that are there at all
    target: Tensor
    present: dict[str, list[bool]]

    @property
    def size(self) -> int:
        return len(self.target)

    def shown(self, name: str) -> Tensor:
        """Features of a modality, zero where it is absent, [B, K]."""
        result = torch.zeros(self.size, self.heads[name][0].shape[1], dtype=torch.float64)
        for t in range(self.size):
            if self.present[name][t]:
                result[t] = self.features[name][t]
        return result


@dataclass
class View:
    """One head at one batch: weights [C, D], inputs [B, D] and who is there."""

    theta: Tensor
    inputs: Tensor
    present: list[bool]
    columns: int


def view(head: Head, features: Tensor, present: list[bool]) -> View:
    weight, bias = head
    if bias is None:
        return View(weight, features, present, weight.shape[1])
    ones = torch.ones(len(features), 1, dtype=torch.float64)
    return View(torch.cat([weight, bias[:, None]], 1), torch.cat([features, ones], 1), present, weight.shape[1])


def views(batch: Batch) -> dict[str, View]:
    result = {name: view(head, batch.shown(name), batch.present[name]) for name, head in batch.heads.items()}
    anything = [any(batch.present[name][t] for name in batch.heads) for t in range(batch.size)]
    joined = torch.cat([batch.shown(name) for name in batch.heads], 1)
    return result | {JOINT: view(batch.joint, joined, anything)}


@dataclass
class Sources:
    """Per modality and sample (None where absent): moments of both sources, and the plain gradients."""

    own: dict[str, list[Pair | None]]
    joint: dict[str, list[Pair | None]]
    plain_own: dict[str, list[list[float]]]
    plain_joint: dict[str, list[list[float]]]


class Naive:
    """The method with these readings; holds what its running posteriors remember."""

    def __init__(self, **readings: object) -> None:
        unknown = readings.keys() - DEFAULTS.keys()
        assert not unknown, unknown
        self.r = DEFAULTS | readings
        self.memory: dict[str, list[Remembered]] = {}
        self.kept: dict[str, Tensor] = {}
        self.steps = 0

    def observe(self, batch: Batch) -> None:
        """Take a batch into the running averages."""
        r = self.r
        self.steps += 1
        for name, one in views(batch).items():
            new = curvature.look(r["loss"], one.theta, one.inputs, batch.target, one.present)
            old = self.memory.get(name, [])
            if new:
                for sample in old:
                    sample.weight *= r["decay"]
            self.memory[name] = old + new
            if self.steps <= r["refresh"] or self.steps % r["refresh"] == 0:
                remembered = [Remembered(s.weight, s.hessian, s.inputs) for s in self.memory[name]]
                copies = self.samples(name) / self.weight(name) if remembered else 1.0
                self.kept[name] = curvature.precision(
                    r["posterior"], remembered, copies, tuple(one.theta.shape), r["prior_precision"]
                )

    def weight(self, name: str) -> float:
        """How many samples the average remembers."""
        return sum(sample.weight for sample in self.memory[name])

    def samples(self, name: str) -> float:
        """How many samples the curvature stands for."""
        return self.weight(name) if self.r["dataset_size"] is None else self.r["dataset_size"]

    def precision(self, name: str, batch: Batch) -> Tensor:
        r = self.r
        if r["curvature"] == "running":
            return self.kept[name]
        one = views(batch)[name]
        samples = curvature.look(r["loss"], one.theta, one.inputs, batch.target, one.present)
        structure = "full" if r["posterior"] == "lowrank" else r["posterior"]
        return curvature.precision(structure, samples, 1.0, tuple(one.theta.shape), r["prior_precision"])

    def centre(self, name: str, batch: Batch, precision: Tensor) -> Tensor:
        r, one = self.r, views(batch)[name]
        if r["centre"] == "weights":
            return one.theta
        copies = 1.0
        if r["curvature"] == "running" and any(one.present):
            copies = self.samples(name) / sum(one.present)
        q = curvature.log_posterior_gradient(
            r["loss"], one.theta, one.inputs, batch.target, one.present, copies, r["prior_precision"]
        )
        return curvature.newton_centre(one.theta, precision, q)

    def head_moments(
        self, name: str, batch: Batch, root: Tensor | None, generator: torch.Generator | None
    ) -> list[Pair | None]:
        """Moments of a head's gradient at its own input, for every sample that it sees."""
        r, one = self.r, views(batch)[name]
        precision = self.precision(name, batch)
        covariance = torch.linalg.inv(precision)
        theta = self.centre(name, batch, precision)
        drawn = []
        if r["moments"] == "monte_carlo":
            torch.testing.assert_close(root @ root.T, covariance, rtol=1e-8, atol=1e-10)
            noise = torch.randn(r["draws"], *theta.shape, generator=generator, dtype=torch.float64)
            drawn = [theta + (root @ noise[j].flatten()).view_as(theta) for j in range(r["draws"])]
        result: list[Pair | None] = []
        for t in range(batch.size):
            given = (one.inputs[t], batch.target[t], one.columns)
            if not one.present[t]:
                result.append(None)
            elif r["moments"] == "linearized":
                result.append(moments.linearized(r["loss"], theta, covariance, *given))
            elif r["moments"] == "exact":
                result.append(moments.exact_square(theta, covariance, *given))
            else:
                result.append(moments.monte_carlo(r["loss"], drawn, *given))
        return result

    def sources(
        self, batch: Batch, roots: dict[str, Tensor] | None = None, generator: torch.Generator | None = None
    ) -> Sources:
        """Sections 2 to 4 of the method sheet. ``roots`` turn white noise into draws; they are checked."""
        names, roots = list(batch.heads), roots or {}
        own = {name: self.head_moments(name, batch, roots.get(name), generator) for name in names}
        if self.r["fusion"] == "average":
            joint = self.averaged(batch, own)
        else:
            whole = self.head_moments(JOINT, batch, roots.get(JOINT), generator)
            joint = self.blocks(batch, whole)
        plain = {name: self.plain(batch, name) for name in [*names, JOINT]}
        plain_joint: dict[str, list[list[float]]] = {}
        for name, (start, stop) in spans(batch).items():
            plain_joint[name] = [row[start:stop] for row in plain[JOINT]]
        return Sources(own, joint, {name: plain[name] for name in names}, plain_joint)

    def plain(self, batch: Batch, name: str) -> list[list[float]]:
        one = views(batch)[name]
        rows = []
        for t in range(batch.size):
            g = moments.gradient(self.r["loss"], one.theta, one.inputs[t], batch.target[t], one.columns)
            rows.append(g.tolist())
        return rows

    def averaged(self, batch: Batch, own: dict[str, list[Pair | None]]) -> dict[str, list[Pair | None]]:
        """μ^f = (1/M) Σ μ^i and Σ^f = (1/M) Σ Σ^i over the modalities that the sample has."""
        rows: list[Pair | None] = []
        for t in range(batch.size):
            there = [own[name][t] for name in own if own[name][t] is not None]
            if not there:
                rows.append(None)
                continue
            width = len(there[0][0])
            mean = [sum(pair[0][d] for pair in there) / len(there) for d in range(width)]
            variance = [sum(pair[1][d] for pair in there) / len(there) for d in range(width)]
            rows.append((mean, variance))
        return dict.fromkeys(own, rows)

    def blocks(self, batch: Batch, whole: list[Pair | None]) -> dict[str, list[Pair | None]]:
        result: dict[str, list[Pair | None]] = {}
        for name, (start, stop) in spans(batch).items():
            result[name] = [pair and (pair[0][start:stop], pair[1][start:stop]) for pair in whole]
        return result

    def gradients(self, batch: Batch, sources: Sources) -> dict[str, Tensor]:
        """Sections 5 to 7: what arrives at each modality's features when the mean loss is backpropagated."""
        r, result = self.r, {}
        for name in batch.features:
            there = [t for t in range(batch.size) if batch.present[name][t]]
            width = batch.heads[name][0].shape[1]
            uniform = {
                t: [
                    r["unimodal_weight"] * sources.plain_own[name][t][d] + sources.plain_joint[name][t][d]
                    for d in range(width)
                ]
                for t in there
            }
            reference = 1.0
            if r["reference"] == "power" and there:
                reference = sum(g**2 for row in uniform.values() for g in row) / (len(there) * width)
            update = {t: self.combined(sources.own[name][t], sources.joint[name][t], reference) for t in there}
            update = rescaled(r["rescale"], r["scale"], update, uniform)
            result[name] = torch.zeros(batch.size, width, dtype=torch.float64)
            for t in there:
                for d in range(width):
                    result[name][t, d] = update[t][d] / batch.size
        return result

    def combined(self, own: Pair, joint: Pair, reference: float) -> list[float]:
        """b_d (b_d^i φ μ_d^i + b_d^f μ_d^f) of one sample."""
        r = self.r
        own, joint = floored(own, r["variance_floor"]), floored(joint, r["variance_floor"])
        b, u = opinion(own[1], r["evidence_power"], reference)
        c, v = opinion(joint[1], r["evidence_power"], reference)
        first, second = weigh(r["weights"], b, u, c, v)
        return [first[d] * r["unimodal_weight"] * own[0][d] + second[d] * joint[0][d] for d in range(len(first))]


def spans(batch: Batch) -> dict[str, tuple[int, int]]:
    """Each modality's columns in the concatenation."""
    result, start = {}, 0
    for name, (weight, _) in batch.heads.items():
        result[name] = (start, start + weight.shape[1])
        start += weight.shape[1]
    return result


def floored(pair: Pair, relative: float) -> Pair:
    """Each variance at least ``relative`` times the mean squared gradient of the sample."""
    mean, variance = pair
    least = relative * sum(m**2 for m in mean) / len(mean)
    return mean, [max(one, least) for one in variance]


def rescaled(
    reading: str, scale: float, update: dict[int, list[float]], uniform: dict[int, list[float]]
) -> dict[int, list[float]]:
    """γ times the update, with the norm of the uniform gradient over the batch or in each sample restored."""

    def norm(rows: list[list[float]]) -> float:
        return math.sqrt(sum(g**2 for row in rows for g in row))

    result = {}
    for t, row in update.items():
        factor = scale
        if reading == "batch":
            factor = scale * norm(list(uniform.values())) / norm(list(update.values()))
        elif reading == "sample":
            factor = scale * norm([uniform[t]]) / norm([row])
        result[t] = [factor * g for g in row]
    return result


def naive_update(
    batch: Batch,
    before: list[Batch] | None = None,
    roots: dict[str, Tensor] | None = None,
    generator: torch.Generator | None = None,
    **readings: object,
) -> dict[str, Tensor]:
    """The features' gradients at ``batch``, after the running averages saw the batches ``before`` it."""
    method = Naive(**readings)
    for one in [*(before or []), batch]:
        method.observe(one)
    return method.gradients(batch, method.sources(batch, roots, generator))
