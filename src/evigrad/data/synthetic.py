r"""A generator whose truth is known, so that what a method says about uncertainty can be checked.

A row of class y shows, in modality m,

.. math:: x_m = a_m \, \mu_m(c_m) + \sigma_m \, \epsilon, \qquad \epsilon \sim N(0, I),

with signal strength a_m, a noise level sigma_m of its own for each row and modality, and the class c_m that
the modality claims: y itself, or another class where a conflict was planted. A prototype mixes the whole
label and the part of it that only this modality knows, mu_m(y) = sqrt(r) P_m[y] + sqrt(1 - r)
Q_m[digit_m(y)], where digit_m is the m-th digit of y to the base ceil(C^(1/M)). Redundancy r = 1: each
modality alone tells the class; r = 0: only all together do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from .dataset import Info, Splits
from .errors import DataError
from .memory import Views
from .missing import draw
from .seeding import stream


@dataclass(frozen=True)
class Planted:
    """What was planted in N rows. Every mapping goes from the name of a modality to a tensor.

    ``noise`` [N]: standard deviation; ``claimed`` [N]: the class shown; ``signal``: strength a_m (one
    number); ``prototypes`` [C, K]: mu_m. ``conflict`` [N] is true where one modality claims another class.
    """

    noise: dict[str, Tensor]
    claimed: dict[str, Tensor]
    conflict: Tensor
    signal: dict[str, float]
    prototypes: dict[str, Tensor]
    conflict_rate: float

    def log_likelihood(self, name: str, values: Tensor) -> Tensor:
        """Log p(x_m | claimed class) up to a constant, [N, C], for the inputs ``values`` [N, K] of this part."""
        distance = torch.cdist(values.double(), self.signal[name] * self.prototypes[name].double())
        return -0.5 * (distance / self.noise[name].double()[:, None]).square()

    def posterior(self, inputs: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Tensor:
        """p(y | all that is present), [N, C], by Bayes' rule with everything planted known except who is in conflict.

        With one modality, that is the posterior of a lone modality; no method can be better calibrated.
        """
        logs = {n: self.log_likelihood(n, x) * present[n][:, None] for n, x in inputs.items()}
        total = torch.stack(list(logs.values())).sum(0)
        rate, sources = self.conflict_rate, len(self.signal)
        agree = total + _log(1 - rate + rate * (1 - len(logs) / sources))
        others = [total - log + _log_mean_of_others(log) + _log(rate / sources) for log in logs.values()]
        return torch.logsumexp(torch.stack([agree, *others]), 0).softmax(1)


class SyntheticViews(Views):
    """Views that remember what was planted in them."""

    truth: Planted

    def select(self, rows: Tensor, protocol: str | None = None) -> Self:
        """The data set of ``rows`` ([n] long) alone, with what was planted in them."""
        chosen = super().select(rows, protocol)
        noise = {name: values[rows] for name, values in self.truth.noise.items()}
        claimed = {name: values[rows] for name, values in self.truth.claimed.items()}
        chosen.truth = replace(self.truth, noise=noise, claimed=claimed, conflict=self.truth.conflict[rows])
        return chosen


INFO = Info(
    name="synthetic",
    title="Generated views with known signal, noise, conflict, redundancy and missing rate",
    modalities=("strong", "weak"),
    classes=4,
    samples=2000,
    licence="none needed",
    source="generated",
    protocols=("independent rows",),
)


def synthetic(
    *,
    signal: Mapping[str, float] | None = None,
    noise: tuple[float, float] = (0.5, 2.0),
    conflict: float = 0.0,
    redundancy: float = 1.0,
    missing: float = 0.0,
    classes: int = 4,
    features: int | Mapping[str, int] = 16,
    sizes: Sequence[int] = (1000, 500, 500),
    seed: int = 0,
) -> Splits:
    """Three parts of :class:`SyntheticViews`; ``splits.train.truth`` is what was planted.

    Args:
        signal: {modality: strength a_m}; {strong: 3, weak: 1} if not given, since unequal modalities are what
            balancing is about. 0 plants pure noise.
        noise: Between these two the standard deviation of each row and modality is drawn, log-uniformly, so that
            some rows are certain and some are not.
        conflict: Chance that one modality of a row shows another class; 0, as a conflict is planted on purpose.
        redundancy: 1: each modality alone tells the class; 0: only all together do.
        missing: Chance that a modality of a row is absent; one always stays.
        classes: C.
        features: K, one number or {modality: number}.
        sizes: Rows of train, validation and test.
        seed: Of everything that is drawn.
    """
    strengths = dict(signal or {"strong": 3.0, "weak": 1.0})
    widths = dict(features) if isinstance(features, Mapping) else dict.fromkeys(strengths, features)
    if len(sizes) != 3 or min(sizes) < 1:
        raise DataError(f"sizes={sizes}: give the rows of train, validation and test, each at least 1")
    _check(
        strengths,
        widths,
        noise,
        {"conflict": conflict, "redundancy": redundancy, "missing": missing},
        classes,
    )
    prototypes = {
        name: _prototypes(order, len(strengths), classes, widths[name], redundancy, stream(seed, "prototypes", name))
        for order, name in enumerate(strengths)
    }
    line = f"seed {seed}, signal {strengths}, noise {noise}, conflict {conflict}, redundancy {redundancy}"
    parts = {
        part: _rows(strengths, prototypes, noise, conflict, missing, size, stream(seed, "rows", part), line)
        for part, size in zip(("train", "validation", "test"), sizes, strict=True)
    }
    info = replace(INFO, modalities=tuple(strengths), classes=classes, samples=sum(sizes))
    return Splits(**parts, info=info)


def _rows(
    signal: dict[str, float],
    prototypes: dict[str, Tensor],
    noise: tuple[float, float],
    conflict: float,
    missing: float,
    size: int,
    generator: torch.Generator,
    line: str,
) -> SyntheticViews:
    classes = len(next(iter(prototypes.values())))
    target = torch.randint(classes, (size,), generator=generator)
    hit = torch.rand(size, generator=generator) < conflict
    liar = torch.randint(len(signal), (size,), generator=generator)
    other = (target + torch.randint(1, classes, (size,), generator=generator)) % classes
    present = draw(torch.ones(size, len(signal), dtype=torch.bool), missing, generator)
    low, high = torch.tensor(noise).log()
    claimed, sigma, inputs = {}, {}, {}
    for order, name in enumerate(signal):
        claimed[name] = torch.where(hit & (liar == order), other, target)
        sigma[name] = (low + (high - low) * torch.rand(size, generator=generator)).exp()
        clean = signal[name] * prototypes[name][claimed[name]]
        inputs[name] = clean + sigma[name][:, None] * torch.randn(clean.shape, generator=generator)
    there = {name: present[:, order] for order, name in enumerate(signal)}
    rows = SyntheticViews(inputs, target, [str(c) for c in range(classes)], f"synthetic: {line}", there)
    rows.truth = Planted(sigma, claimed, hit, signal, prototypes, conflict)
    return rows


def _prototypes(order: int, sources: int, classes: int, width: int, redundancy: float, rng: torch.Generator) -> Tensor:
    base = next(b for b in range(1, classes + 1) if b**sources >= classes)
    digit = torch.arange(classes) // base**order % base
    shared, own = _directions(classes, base, width, rng)
    return math.sqrt(redundancy) * shared + math.sqrt(1 - redundancy) * own[digit]


def _directions(classes: int, base: int, width: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Unit vectors, orthogonal if the width allows, so that distances between classes are known: sqrt(2) a_m."""
    drawn = torch.randn(width, classes + base, generator=rng)
    if width >= classes + base:
        drawn = torch.linalg.qr(drawn).Q
    unit = (drawn / drawn.norm(dim=0)).T
    return unit[:classes], unit[classes:]


def _log_mean_of_others(log: Tensor) -> Tensor:
    """Log of the mean of exp(log) [N, C] over all other classes, for every class."""
    count = log.shape[1]
    without = log[:, None, :].expand(-1, count, -1).masked_fill(torch.eye(count, dtype=torch.bool), -torch.inf)
    return without.logsumexp(2) - _log(count - 1)


def _log(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64).log()


def _check(
    signal: Mapping[str, float],
    widths: Mapping[str, int],
    noise: Sequence[float],
    rates: Mapping[str, float],
    classes: int,
) -> None:
    if classes < 2:
        raise DataError(f"classes={classes}: give at least 2")
    if len(noise) != 2 or not 0 < noise[0] <= noise[1]:
        raise DataError(f"noise={noise}: give the smallest and the largest standard deviation, both positive")
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise DataError(f"{name}={rate}: it must lie between 0 and 1")
    if min(widths.values()) < 1:
        raise DataError(f"features={dict(widths)}: give each modality at least 1")
    if set(widths) != set(signal):
        raise DataError(f"features names {sorted(widths)}, signal names {sorted(signal)}; name the same modalities")
