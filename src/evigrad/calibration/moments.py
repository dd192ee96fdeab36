"""Mean and variance of the loss gradient at the features, when the head's weights are random."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from evigrad.calibration.errors import choose
from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures import Gaussian

MOMENTS = ("linearized", "monte_carlo", "exact")

# Largest number of entries of one temporary: samples and draws go through in groups that keep below it. On a processor
# those of the samples stay in its cache; an accelerator wants few large groups. A draw reads the whole posterior.
CACHED_ENTRIES = 2**18
LARGE_ENTRIES = 2**23
DRAW_ENTRIES = 2**21


@dataclass(frozen=True)
class Moments:
    """A gradient as a random variable: mean and variance of every dimension, both [B, K]."""

    mean: Tensor
    variance: Tensor


@dataclass(frozen=True)
class Point:
    """Where a head's gradient is asked for: its weights, the samples and their targets."""

    theta: Tensor  # [C, D], the bias last
    inputs: Tensor  # ψ̃ [B, D]
    target: Tensor
    columns: int  # K: columns of theta that multiply features

    def rows(self, rows: slice) -> "Point":
        """The same point at some of the samples."""
        return Point(self.theta, self.inputs[rows], self.target[rows], self.columns)


def gradient(point: Point, loss: Likelihood) -> Tensor:
    """Gradient g = Wᵀ ∂loss/∂logits of each sample, [B, K] (for cross-entropy Wᵀ(p − y))."""
    mean = loss.mean(point.inputs @ point.theta.T)
    return loss.residual(mean, point.target) @ point.theta[:, : point.columns]


def linearized(posterior: Gaussian, point: Point, loss: Likelihood) -> Moments:
    """First-order moments: the gradient at the centre, and diag(G Cov(Θ) Gᵀ) with G = ∂g/∂Θ.

    With r the gradient at the logits and h_d its derivative along column d of W, G's row d applied to a deviation δΘ is
    r·δW_d + h_d·(δΘψ̃), so three small covariances are all it needs.
    """
    weights = point.theta[:, : point.columns]
    shared = posterior.weights(point.columns)

    def both(group: Point) -> tuple[Tensor, Tensor]:
        mean = loss.mean(group.inputs @ group.theta.T)
        residual = loss.residual(mean, group.target)
        forms = posterior.forms(group.inputs, shared)
        return residual @ weights, forms.linear(residual, loss.sensitivity(mean, weights[None]))

    return _in_groups(both, posterior, point)


def exact(posterior: Gaussian, point: Point, loss: Likelihood) -> Moments:
    """Exact moments for the square loss, whose gradient (2/C) Σ_c W_cd (f_c − y_c) is quadratic in Gaussian weights.

    For jointly Gaussian x and z, Cov(xz, x'z') is its linear part plus Cov(x, x')Cov(z, z') + Cov(x, z')Cov(z, x').
    """
    weights = point.theta[:, : point.columns]
    factor = 2 / len(point.theta)
    shared = posterior.weights(point.columns)

    def both(group: Point) -> tuple[Tensor, Tensor]:
        residual = loss.residual(group.inputs @ group.theta.T, group.target)
        forms = posterior.forms(group.inputs, shared)
        slope = (factor * weights).expand(len(group.inputs), -1, -1)
        variance = forms.linear(residual, slope) + factor**2 * forms.product_variance()
        return residual @ weights + factor * forms.product_mean(), variance

    return _in_groups(both, posterior, point)


def monte_carlo(
    posterior: Gaussian, point: Point, loss: Likelihood, draws: int, generator: torch.Generator | None
) -> Moments:
    """Moments over ``draws`` weights shared by all samples.

    Sums run over deviations from the gradient at the centre, so that a narrow posterior loses no digits.
    """
    centre = gradient(point, loss)
    total, squares = torch.zeros_like(centre), torch.zeros_like(centre)
    for deviation in drawn_deviations(posterior, point, loss, draws, generator):
        total += deviation.sum(0)
        squares += deviation.square().sum(0)
    shift = total / draws
    return Moments(centre + shift, (squares / draws - shift.square()).clamp_min(0))


def drawn_deviations(
    posterior: Gaussian, point: Point, loss: Likelihood, draws: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """g(Θ) − g(centre) at weights drawn from the posterior, a few draws [n, B, K] at a time."""
    centre = gradient(point, loss)
    for noise in _noise(point, draws, generator):
        theta = point.theta + posterior.draw(noise)
        mean = loss.mean(torch.einsum("bd,ncd->nbc", point.inputs, theta))
        residual = loss.residual(mean, point.target)
        yield torch.einsum("nbc,nck->nbk", residual, theta[:, :, : point.columns]) - centre


def linear_deviations(
    posterior: Gaussian, point: Point, loss: Likelihood, draws: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """G δΘ for deviations δΘ made of random signs: their covariance is exactly G Cov(Θ) Gᵀ; [n, B, K] at a time."""
    weights = point.theta[:, : point.columns]
    mean = loss.mean(point.inputs @ point.theta.T)
    residual = loss.residual(mean, point.target)
    for noise in _noise(point, draws, generator):
        deviation = posterior.draw(noise.sign())
        logits = torch.einsum("bd,ncd->bcn", point.inputs, deviation)
        moved = torch.einsum("bcn,ck->nbk", loss.sensitivity(mean, logits), weights)
        yield torch.einsum("bc,nck->nbk", residual, deviation[:, :, : point.columns]) + moved


def _noise(point: Point, draws: int, generator: torch.Generator | None) -> Iterator[Tensor]:
    outputs, width = point.theta.shape
    each = max(len(point.inputs) * max(outputs, width), outputs * width)
    size = max(1, min(draws, DRAW_ENTRIES // each))
    for start in range(0, draws, size):
        shape = (min(size, draws - start), outputs, width)
        yield torch.randn(shape, generator=generator, device=point.inputs.device, dtype=point.inputs.dtype)


def moments_at(
    posterior: Gaussian,
    point: Point,
    loss: Likelihood,
    method: str = "linearized",
    draws: int = 128,
    generator: torch.Generator | None = None,
) -> Moments:
    """The gradient's moments at a point by the reading ``method``."""
    choose("moments", method, MOMENTS)
    if method == "monte_carlo":
        return monte_carlo(posterior, point, loss, draws, generator)
    if method == "exact":
        check_exact(loss)
        return exact(posterior, point, loss)
    return linearized(posterior, point, loss)


def check_exact(loss: Likelihood) -> None:
    """An error unless the loss has exact moments."""
    if not loss.quadratic:
        raise ValueError(
            "`moments='exact'` needs `loss='square'`: only there is the gradient a polynomial in the weights. "
            "Use moments='linearized' (no draws) or moments='monte_carlo'."
        )


def _group_size(posterior: Gaussian, point: Point) -> int:
    outputs = len(point.theta)
    entries = CACHED_ENTRIES if point.inputs.device.type == "cpu" else LARGE_ENTRIES
    return max(1, entries // (point.columns * outputs * (outputs if posterior.dense_forms else 1)))


def _in_groups(both: Callable[[Point], tuple[Tensor, Tensor]], posterior: Gaussian, point: Point) -> Moments:
    """Mean and variance of all samples, from ``both`` of a few at a time."""
    samples, size = len(point.inputs), _group_size(posterior, point)
    if samples <= size:  # the usual case, kept apart so that a compiler sees no loop over samples
        mean, variance = both(point)
        return Moments(mean, variance.clamp_min(0))
    # In place: small results scattered among large temporaries would keep the allocator from using their room again.
    mean = point.inputs.new_empty(samples, point.columns)
    variance = torch.empty_like(mean)
    for start in range(0, samples, size):
        rows = slice(start, start + size)
        mean[rows], variance[rows] = both(point.rows(rows))
    return Moments(mean, variance.clamp_min_(0))
