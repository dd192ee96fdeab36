"""What holds for every subjective opinion over K dimensions."""

import torch
from torch import Tensor

from evigrad.calibration import Opinion, combine


def assert_is_opinion(opinion: Opinion, tolerance: float = 1e-5) -> None:
    """Σ_d b_d + u = 1; every part is finite and lies in [0, 1]."""
    belief, uncertainty = opinion.belief, opinion.uncertainty
    for part in (belief, uncertainty):
        assert part.isfinite().all()
        assert (part >= 0).all()
        assert (part <= 1 + tolerance).all()
    total = belief.sum(-1) + uncertainty
    assert (total - 1).abs().max() < tolerance, f"beliefs and uncertainty sum to {total}"


def assert_same(first: Opinion, second: Opinion, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(first.belief, second.belief, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(first.uncertainty, second.uncertainty, rtol=tolerance, atol=tolerance)


def assert_combination_commutes(first: Opinion, second: Opinion) -> None:
    assert_same(combine(first, second), combine(second, first))


def assert_vacuous_is_neutral(opinion: Opinion) -> None:
    """Combining with b = 0, u = 1 changes nothing."""
    nothing = vacuous(opinion.log_evidence)
    assert_same(combine(opinion, nothing), opinion)
    assert_same(combine(nothing, opinion), opinion)


def vacuous(like: Tensor) -> Opinion:
    return Opinion(torch.full_like(like, float("-inf")))
