"""Mean and variance of one sample's gradient at the features, for weights with a dense P x P covariance."""

import torch
from torch import Tensor

from tests.oracles.losses import residual, value
from tests.oracles.memo import remembered

Pair = tuple[list[float], list[float]]  # mean and variance of every dimension


def gradient(loss: str, theta: Tensor, inputs: Tensor, target: Tensor, columns: int) -> Tensor:
    """g = ∂value/∂ψ of one sample by autograd, [K], differentiable in Θ; ``inputs`` is ψ̃ (a bias appends a 1)."""
    features = inputs[:columns].clone().requires_grad_()
    logits = theta @ torch.cat([features, inputs[columns:]])
    (result,) = torch.autograd.grad(value(loss, logits, target), features, create_graph=True)
    return result


@remembered
def jacobian(loss: str, theta: Tensor, inputs: Tensor, target: Tensor, columns: int) -> Tensor:
    """G = ∂g/∂Θ by autograd, [K, P]."""
    whole = torch.autograd.functional.jacobian(lambda w: gradient(loss, w, inputs, target, columns), theta)
    return torch.as_tensor(whole).flatten(1)


def linearized(loss: str, theta: Tensor, cov: Tensor, inputs: Tensor, target: Tensor, columns: int) -> Pair:
    """g at the centre and diag(G Cov Gᵀ)."""
    mean = gradient(loss, theta, inputs, target, columns)
    slope = jacobian(loss, theta, inputs, target, columns)
    return mean.tolist(), (slope @ cov @ slope.T).diagonal().tolist()


def monte_carlo(loss: str, weights: list[Tensor], inputs: Tensor, target: Tensor, columns: int) -> Pair:
    """(1/n) Σ g(Θ_j) and (1/n) Σ g(Θ_j)² − μ², summed over deviations from the mean."""
    draws = []
    for theta in weights:
        rows = theta.tolist()
        logits = [sum(w * x for w, x in zip(row, inputs.tolist(), strict=True)) for row in rows]
        slope = residual(loss, logits, target)
        draws.append([sum(slope[c] * rows[c][d] for c in range(len(rows))) for d in range(columns)])
    mean = [sum(draw[d] for draw in draws) / len(draws) for d in range(columns)]
    variance = [sum((draw[d] - mean[d]) ** 2 for draw in draws) / len(draws) for d in range(columns)]
    return mean, variance


def expectation(which: list[int], mean: list[float], cov: list[list[float]]) -> float:
    """E[x_i x_j ...] of jointly Gaussian variables, any number of them, by Isserlis' theorem (means included)."""
    if not which:
        return 1.0
    first, *rest = which
    total = mean[first] * expectation(rest, mean, cov)
    for position, other in enumerate(rest):
        total += cov[first][other] * expectation(rest[:position] + rest[position + 1 :], mean, cov)
    return total


def exact_square(theta: Tensor, cov: Tensor, inputs: Tensor, target: Tensor, columns: int) -> Pair:
    """Moments of g_d = (2/C) Σ_c W_cd (f_c − y_c), f = Θψ̃: E[g_d] and E[g_d²] − E[g_d]² term by term."""
    outputs, width = theta.shape
    size = outputs * width
    # Everything in terms of the 2C Gaussians W_1d .. W_Cd, f_1 − y_1 .. f_C − y_C, which are linear in the weights.
    mean, variance = [], []
    for d in range(columns):
        maps = torch.zeros(2 * outputs, size, dtype=torch.float64)
        for c in range(outputs):
            maps[c, c * width + d] = 1
            for k in range(width):
                maps[outputs + c, c * width + k] = inputs[k]
        centre = (maps @ theta.flatten()).tolist()
        for c in range(outputs):
            centre[outputs + c] -= float(target[c])
        spread = (maps @ cov @ maps.T).tolist()
        first = second = 0.0
        for c in range(outputs):
            first += 2 / outputs * expectation([c, outputs + c], centre, spread)
            for e in range(outputs):
                second += (2 / outputs) ** 2 * expectation([c, outputs + c, e, outputs + e], centre, spread)
        mean.append(first)
        variance.append(second - first**2)
    return mean, variance
