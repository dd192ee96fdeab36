"""The linear probe: how much of the label can be read off an encoder's features."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def fit_probe(features: Tensor, target: Tensor, classes: int, strength: float = 1e-3) -> nn.Linear:
    """Multinomial logistic regression on ``features`` ``[N, K]``, solved to convergence.

    Minimises, over standardised features, the mean cross-entropy plus ``strength / 2`` times the squared norm of the
    weights (not of the biases) by full-batch L-BFGS in 64 bits. The published probes train a linear layer by SGD for
    10 or 15 epochs, which measures that schedule too; the minimum depends on the features alone, and on no seed.

    Example:
        >>> features = torch.tensor([[-1.0], [1.0], [-2.0], [2.0]])
        >>> fit_probe(features, torch.tensor([0, 1, 0, 1]), classes=2)(features).argmax(1)
        tensor([0, 1, 0, 1])
    """
    values = features.detach().double().cpu()
    mean, spread = values.mean(dim=0), values.std(dim=0, correction=0)
    # A feature that never varies says nothing; dividing by its zero spread would.
    spread = torch.where(spread > 1e-12, spread, torch.ones_like(spread))
    weight, bias = _minimise((values - mean) / spread, target.cpu(), classes, strength)
    probe = nn.Linear(values.shape[1], classes, dtype=torch.float64)
    with torch.no_grad():
        probe.weight.copy_(weight / spread)
        probe.bias.copy_(bias - (weight / spread) @ mean)
    return probe.float().to(features.device)


def _minimise(values: Tensor, target: Tensor, classes: int, strength: float) -> tuple[Tensor, Tensor]:
    weight = torch.zeros(classes, values.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias], max_iter=500, history_size=10, tolerance_grad=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = nn.functional.cross_entropy(values @ weight.T + bias, target)
        loss = loss + strength / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        solver.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
