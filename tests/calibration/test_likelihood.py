import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from evigrad.calibration.likelihood import likelihood
from tests.oracles import losses
from tests.oracles.problems import target_for

LOSSES = ["cross_entropy", "binary", "square"]
KINDS = [*LOSSES, "soft cross_entropy"]


def problem(kind, seed, size=4, classes=3):
    """A loss by name, logits [B, C] and a target; `soft`: a distribution over the classes."""
    draw = torch.Generator().manual_seed(seed)
    loss = kind.split()[-1]
    logits = 2 * torch.randn(size, classes, generator=draw, dtype=torch.float64)
    if kind != loss:
        return loss, logits, torch.rand(size, classes, generator=draw, dtype=torch.float64).softmax(1)
    return loss, logits, target_for(loss, size, classes, draw)


seeds = st.integers(0, 10_000)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_value_is_spelled_out(kind, seed):
    loss, logits, target = problem(kind, seed)
    wanted = torch.stack([losses.value(loss, logits[t], target[t]) for t in range(4)])
    torch.testing.assert_close(likelihood(loss).value(logits, target), wanted)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_residual_is_the_values_gradient(kind, seed):
    loss, logits, target = problem(kind, seed)
    ours = likelihood(loss)
    residual = ours.residual(ours.mean(logits), target)
    for t in range(4):
        leaf = logits[t].clone().requires_grad_()
        (wanted,) = torch.autograd.grad(losses.value(loss, leaf, target[t]), leaf)
        torch.testing.assert_close(residual[t], wanted)
        plain = losses.residual(loss, logits[t].tolist(), target[t])  # the oracle's own shortcut
        torch.testing.assert_close(torch.tensor(plain, dtype=torch.float64), wanted)


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=seeds)
@settings(max_examples=5)
def test_sensitivity_is_the_residuals_derivative(loss, seed):
    loss, logits, target = problem(loss, seed)
    directions = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ours = likelihood(loss)
    moved = ours.sensitivity(ours.mean(logits), directions)
    shared = ours.sensitivity(ours.mean(logits), directions[:1])
    for t in range(4):
        hessian = torch.autograd.functional.hessian(lambda f, t=t: losses.value(loss, f, target[t]), logits[t])
        torch.testing.assert_close(moved[t], hessian @ directions[t])
        torch.testing.assert_close(shared[t], hessian @ directions[0])  # directions of one sample serve all


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_curvatures_are_the_hessian_of_the_negative_log_likelihood(kind, seed):
    loss, logits, target = problem(kind, seed)
    ours, weight = likelihood(loss), torch.tensor([1.0, 0, 2, 0.5]).double()
    mean = ours.mean(logits)
    hessians = torch.stack([losses.output_hessian(loss, logits[t], target[t]) for t in range(4)])
    root = ours.curvature_root(mean)
    torch.testing.assert_close(root @ root.mT, hessians)
    torch.testing.assert_close(ours.curvature_diagonal(mean), hessians.diagonal(dim1=1, dim2=2))
    torch.testing.assert_close(ours.curvature_sum(mean, weight), (hessians * weight[:, None, None]).sum(0))


@pytest.mark.parametrize("loss", LOSSES)
def test_outputs_averaged_turns_the_value_into_the_likelihood(loss):
    loss, logits, target = problem(loss, 0)
    ratio = losses.negative_log_likelihood(loss, logits[0], target[0]) / losses.value(loss, logits[0], target[0])
    torch.testing.assert_close(ratio, torch.tensor(float(likelihood(loss).outputs_averaged(3))).double())


def test_values_follow_torchs_own_reduction():
    _, logits, target = problem("square", 0)
    torch.testing.assert_close(likelihood("square").value(logits, target).mean(), F.mse_loss(logits, target))
    _, logits, target = problem("binary", 0)
    wanted = F.binary_cross_entropy_with_logits(logits, target)
    torch.testing.assert_close(likelihood("binary").value(logits, target).mean(), wanted)
    torch.testing.assert_close(likelihood("binary").value(logits, target.long()).mean(), wanted)


@pytest.mark.parametrize("loss", LOSSES)
def test_saturated_logits_stay_finite(loss):
    ours = likelihood(loss)
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]])
    mean = ours.mean(logits)
    for part in (mean, ours.curvature_diagonal(mean), ours.curvature_sum(mean, torch.ones(2))):
        assert part.isfinite().all()
    assert ours.curvature_root(mean).isfinite().all()


def test_unknown_loss_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown `loss`: 'cross-entropy'. Did you mean 'cross_entropy'\? Choose one"):
        likelihood("cross-entropy")
