"""The first two stages as plain functions of a linear head, features and targets."""

import torch
from torch import Tensor, nn

from evigrad.calibration.errors import choose
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.moments import Moments, moments_at
from evigrad.calibration.sources import see
from evigrad.calibration.structures import STRUCTURES, Gaussian


def posterior(
    head: nn.Linear,
    features: Tensor,
    structure: str = "kronecker",
    loss: str = "cross_entropy",
    prior_precision: float = 1.0,
) -> Gaussian:
    r"""Laplace posterior of a linear head given features [..., K]: precision Σ_j J_jᵀB_jJ_j + τI.

    The Gauss-Newton curvature of a linear head needs no targets.

    >>> import torch
    >>> head = torch.nn.Linear(3, 2)
    >>> belief = posterior(head, torch.randn(10, 3))
    >>> belief.draw(torch.randn(100, 2, 4)).shape  # 100 deviations of [weight, bias]
    torch.Size([100, 2, 4])
    """
    flat = features.reshape(-1, features.shape[-1])
    target = torch.zeros(len(flat), head.out_features, device=flat.device)
    present = torch.ones(len(flat), dtype=torch.bool, device=flat.device)
    with torch.no_grad():
        _, seen = see(head, flat, present, target, likelihood(loss))
        return STRUCTURES[choose("structure", structure, STRUCTURES)].fit(seen, likelihood(loss), prior_precision)


def moments(
    belief: Gaussian,
    head: nn.Linear,
    features: Tensor,
    target: Tensor,
    loss: str = "cross_entropy",
    method: str = "linearized",
    draws: int = 128,
    generator: torch.Generator | None = None,
) -> Moments:
    """Mean and variance [..., K] of ∂loss/∂features of each sample when the head's weights follow ``belief``.

    >>> import torch
    >>> head, features, target = torch.nn.Linear(3, 2), torch.randn(10, 3), torch.zeros(10, dtype=torch.long)
    >>> moments(posterior(head, features), head, features, target).variance.shape
    torch.Size([10, 3])
    """
    flat = features.reshape(-1, features.shape[-1])
    present = torch.ones(len(flat), dtype=torch.bool, device=flat.device)
    labels = loss == "cross_entropy" and target.dim() < features.dim()
    one_each = target.reshape(-1) if labels else target.reshape(len(flat), -1)
    with torch.no_grad():
        point, _ = see(head, flat, present, one_each, likelihood(loss))
        result = moments_at(belief, point, likelihood(loss), method, draws, generator)
    return Moments(result.mean.view(features.shape), result.variance.view(features.shape))
