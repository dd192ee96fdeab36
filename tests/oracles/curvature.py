"""Posteriors of a linear head as dense P x P precisions, P = C·D, weights in the order [c, d] (bias last)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.oracles.losses import negative_log_likelihood, output_hessian


@dataclass
class Remembered:
    """One sample that a posterior knows of."""

    weight: float  # 1 in its own batch, fading in a running average
    hessian: Tensor  # B_j [C, C]
    inputs: Tensor  # ψ̃_j [D]


def look(loss: str, theta: Tensor, inputs: Tensor, target: Tensor, present: list[bool]) -> list[Remembered]:
    """The samples of one batch that have the modality."""
    seen = []
    for t, here in enumerate(present):
        if here:
            seen.append(Remembered(1.0, output_hessian(loss, theta @ inputs[t], target[t]), inputs[t]))
    return seen


def precision(structure: str, samples: list[Remembered], copies: float, shape: tuple[int, int], prior: float) -> Tensor:
    """H for a head of this ``shape`` (C, D) given samples, each of which stands for ``copies`` times its weight."""
    outputs, width = shape
    size = outputs * width
    damping = prior * torch.eye(size, dtype=torch.float64)
    if not samples:
        return damping
    if structure == "kronecker":
        features = torch.zeros(width, width, dtype=torch.float64)
        average = torch.zeros(outputs, outputs, dtype=torch.float64)
        for one in samples:
            features += copies * one.weight * torch.outer(one.inputs, one.inputs)
            average += one.weight * one.hessian / sum(other.weight for other in samples)
        return torch.kron(average, features) + damping
    curvature = torch.zeros(size, size, dtype=torch.float64)
    for one in samples:
        jacobian = torch.kron(torch.eye(outputs, dtype=torch.float64), one.inputs[None])  # ∂f/∂Θ, [C, P]
        curvature += copies * one.weight * jacobian.T @ one.hessian @ jacobian
    if structure == "diagonal":
        curvature = torch.diag(torch.diag(curvature))
    return curvature + damping


def log_posterior_gradient(
    loss: str, theta: Tensor, inputs: Tensor, target: Tensor, present: list[bool], copies: float, prior: float
) -> Tensor:
    """q = −∇ log p(D, Θ) by autograd, [P]; each sample of the batch stands for ``copies`` samples."""

    def negative(weights: Tensor) -> Tensor:
        total = prior / 2 * (weights**2).sum()
        for t, here in enumerate(present):
            if here:
                total = total + copies * negative_log_likelihood(loss, weights @ inputs[t], target[t])
        return total

    leaf = theta.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(negative(leaf), leaf)
    return gradient.flatten()


def newton_centre(theta: Tensor, precision: Tensor, q: Tensor) -> Tensor:
    """Θ̂ − H⁻¹q, as printed."""
    return theta - (torch.linalg.inv(precision) @ q).view_as(theta)


def whole_negative_log_posterior(loss: str, flat: Tensor, inputs: Tensor, target: Tensor, prior: float) -> Tensor:
    """−log p(D, Θ) of a batch as a function of the flat weights; its Hessian is what `full` must be."""
    theta = flat.view(-1, inputs.shape[1])
    total = prior / 2 * (flat**2).sum()
    for t in range(len(inputs)):
        total = total + negative_log_likelihood(loss, theta @ inputs[t], target[t])
    return total
