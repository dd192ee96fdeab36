import importlib
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import moments, posterior
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.moments import (
    DRAW_ENTRIES,
    Point,
    drawn_deviations,
    exact,
    gradient,
    linear_deviations,
    linearized,
    moments_at,
    monte_carlo,
)
from tests.oracles import moments as oracle
from tests.oracles.curvature import look, precision
from tests.oracles.problems import linear, make_batch
from tests.oracles.update import views
from tests.properties.gaussian import draw_matrix

MODULE = importlib.import_module("evigrad.calibration.moments")  # the package's `moments` is the function
LOSSES = ["cross_entropy", "binary", "square"]
STRUCTURES = ["full", "kronecker", "diagonal", "lowrank"]
small = {"seed": st.integers(0, 10_000), "bias": st.booleans(), "width": st.integers(1, 4), "size": st.integers(1, 4)}


def problem(loss, structure, seed=0, bias=True, width=3, size=4, prior=0.7):
    """A head's posterior and the point of its gradient; the same as a dense covariance."""
    batch = make_batch({"audio": width}, loss, bias=bias, size=size, seed=seed)
    view = views(batch)["audio"]
    samples = look(loss, view.theta, view.inputs, batch.target, view.present)
    dense = "full" if structure == "lowrank" else structure
    covariance = torch.linalg.inv(precision(dense, samples, 1.0, tuple(view.theta.shape), prior))
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], structure, loss, prior)
    return belief, Point(view.theta, view.inputs, batch.target, width), covariance


def at_each(point, reference):
    """Means and variances [B, K] by a reference that takes one sample: its inputs, target and number of columns."""
    pairs = [reference(point.inputs[t], point.target[t], point.columns) for t in range(len(point.inputs))]
    return tuple(torch.tensor(part, dtype=torch.float64) for part in zip(*pairs, strict=True))


def assert_moments(got, wanted, tolerance=1e-9):
    scale = float(wanted[0].abs().max()) + 1e-12
    torch.testing.assert_close(got.mean, wanted[0], rtol=tolerance, atol=tolerance * scale)
    scale = float(wanted[1].abs().max()) + 1e-12
    torch.testing.assert_close(got.variance, wanted[1], rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("loss", LOSSES)
@given(**small)
@settings(max_examples=5)
def test_gradient_is_autograds(loss, seed, bias, width, size):
    _, point, _ = problem(loss, "diagonal", seed, bias, width, size)
    for t, row in enumerate(gradient(point, likelihood(loss))):
        torch.testing.assert_close(row, oracle.gradient(loss, point.theta, point.inputs[t], point.target[t], width))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", LOSSES)
@given(**small)
@settings(max_examples=6)
def test_linearized_is_diag_of_g_cov_gt(loss, structure, seed, bias, width, size):
    belief, point, covariance = problem(loss, structure, seed, bias, width, size)
    wanted = at_each(point, lambda *at: oracle.linearized(loss, point.theta, covariance, *at))
    assert_moments(linearized(belief, point, likelihood(loss)), wanted)


@pytest.mark.parametrize("structure", STRUCTURES)
@given(**small)
@settings(max_examples=6)
def test_exact_is_isserlis_theorem(structure, seed, bias, width, size):
    belief, point, covariance = problem("square", structure, seed, bias, width, size)
    wanted = at_each(point, lambda *at: oracle.exact_square(point.theta, covariance, *at))
    assert_moments(exact(belief, point, likelihood("square")), wanted)


def test_isserlis_theorem_itself():
    """The oracle against known moments of one and of two Gaussians."""
    assert oracle.expectation([0, 0, 0, 0], [0.0], [[2.0]]) == pytest.approx(3 * 2**2)
    mean, variance = 1.5, 0.5
    wanted = mean**4 + 6 * mean**2 * variance + 3 * variance**2
    assert oracle.expectation([0] * 4, [mean], [[variance]]) == pytest.approx(wanted)
    cov = [[1.0, 0.3], [0.3, 2.0]]
    assert oracle.expectation([0, 0, 1, 1], [0.0, 0.0], cov) == pytest.approx(1 * 2 + 2 * 0.3**2)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_exact_is_the_limit_of_monte_carlo(structure):
    """40,000 draws: means within 5 standard errors, variances within 5 % (their standard error is near 1 %)."""
    belief, point, _ = problem("square", structure, size=2)
    drawn = monte_carlo(belief, point, likelihood("square"), 40_000, torch.Generator().manual_seed(0))
    closed = exact(belief, point, likelihood("square"))
    assert ((drawn.mean - closed.mean).abs() < 5 * (closed.variance / 40_000).sqrt()).all()
    torch.testing.assert_close(drawn.variance, closed.variance, rtol=0.05, atol=0)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", LOSSES)
def test_linearized_is_the_limit_of_monte_carlo_as_the_posterior_narrows(loss, structure):
    """20,000 draws of a narrow posterior: the standard error of a variance is sqrt(2/n), 1 %."""
    belief, point, _ = problem(loss, structure, prior=1e6)
    drawn = monte_carlo(belief, point, likelihood(loss), 20_000, torch.Generator().manual_seed(0))
    linear_ = linearized(belief, point, likelihood(loss))
    assert ((drawn.mean - linear_.mean).abs() < 6 * (linear_.variance / 20_000).sqrt()).all()
    torch.testing.assert_close(drawn.variance, linear_.variance, rtol=0.06, atol=0)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", LOSSES)
def test_monte_carlo_is_the_loop_over_draws(loss, structure):
    belief, point, covariance = problem(loss, structure)
    got = monte_carlo(belief, point, likelihood(loss), 7, torch.Generator().manual_seed(3))
    noise = torch.randn(7, *point.theta.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    root = draw_matrix(belief, len(covariance), 3)
    torch.testing.assert_close(root @ root.T, covariance, rtol=1e-8, atol=1e-10)
    drawn = [point.theta + (root @ one.flatten()).view(3, -1) for one in noise]
    wanted = at_each(point, lambda *at: oracle.monte_carlo(loss, drawn, *at))
    assert_moments(got, wanted)


def test_a_very_narrow_posterior_keeps_its_variance():
    """Variances 1e-20 of the squared mean, where E[g²] − μ² is nothing but rounding: the sums run over deviations."""
    belief, point, _ = problem("cross_entropy", "diagonal", prior=1e20)
    drawn = monte_carlo(belief, point, likelihood("cross_entropy"), 2000, torch.Generator().manual_seed(0))
    wanted = linearized(belief, point, likelihood("cross_entropy")).variance
    torch.testing.assert_close(drawn.variance, wanted, rtol=0.2, atol=0)  # 6 standard errors


@pytest.mark.parametrize("entries", [1, 40, 100])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_groups_of_samples_do_not_change_the_result(structure, entries, monkeypatch):
    belief, point, _ = problem("square", structure)
    for method in (linearized, exact):
        whole = method(belief, point, likelihood("square"))
        with monkeypatch.context() as patch:
            patch.setattr(MODULE, "CACHED_ENTRIES", entries)
            parts = method(belief, point, likelihood("square"))
        assert_moments(parts, (whole.mean, whole.variance))


def test_groups_of_draws_do_not_change_the_result(monkeypatch):
    belief, point, _ = problem("cross_entropy", "kronecker")
    loss, noise = likelihood("cross_entropy"), torch.randn(10, 3, 4, dtype=torch.float64)
    results = []
    for size in (10, 4, 1):
        monkeypatch.setattr(MODULE, "_noise", lambda *_, size=size: iter(noise.split(size)))
        results.append(monte_carlo(belief, point, loss, 10, None))
    for one in results[1:]:
        assert_moments(one, (results[0].mean, results[0].variance))


@pytest.mark.parametrize(("entries", "sizes"), [(DRAW_ENTRIES, [10]), (16 * 4, [4, 4, 2]), (1, [1] * 10)])
def test_noise_comes_in_groups_that_fit(entries, sizes, monkeypatch):
    """An entry of a group is one number for each draw, sample and output or feature: here 4 samples x 4 columns."""
    monkeypatch.setattr(MODULE, "DRAW_ENTRIES", entries)
    _, point, _ = problem("cross_entropy", "diagonal")
    noise = list(MODULE._noise(point, 10, torch.Generator().manual_seed(0)))
    assert [tuple(one.shape) for one in noise] == [(size, 3, 4) for size in sizes]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", LOSSES)
def test_sign_deviations_have_exactly_the_linearized_covariance(loss, structure, monkeypatch):
    """Over all 2^P sign patterns the mean square of G δΘ is diag(G Cov Gᵀ), and δΘ has mean zero."""
    belief, point, _ = problem(loss, structure, width=2, size=3)
    patterns = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=9)), dtype=torch.float64).view(-1, 3, 3)
    monkeypatch.setattr(MODULE, "_noise", lambda *_: iter([patterns]))
    (deviations,) = linear_deviations(belief, point, likelihood(loss), len(patterns), None)
    wanted = linearized(belief, point, likelihood(loss)).variance
    torch.testing.assert_close(deviations.square().mean(0), wanted)
    torch.testing.assert_close(deviations.mean(0), torch.zeros_like(wanted), rtol=0, atol=1e-12)


def test_drawn_deviations_add_up_to_monte_carlo():
    belief, point, _ = problem("cross_entropy", "kronecker")
    loss = likelihood("cross_entropy")
    (deviations,) = drawn_deviations(belief, point, loss, 9, torch.Generator().manual_seed(0))
    assert deviations.shape == (9, 4, 3)
    got = monte_carlo(belief, point, loss, 9, torch.Generator().manual_seed(0))
    torch.testing.assert_close(got.mean, gradient(point, loss) + deviations.mean(0))
    torch.testing.assert_close(got.variance, deviations.var(0, correction=0))


def test_variances_are_never_negative():
    """Where cancellation could leave less than nothing: a huge curvature in float32."""
    batch = make_batch({"audio": 4}, size=6)
    head, features = linear(batch.heads["audio"]).float(), batch.features["audio"].float() * 1e4
    for structure in STRUCTURES:
        belief = posterior(head, features, structure)
        got = moments(belief, head, features, batch.target)
        assert (got.variance >= 0).all()
        assert got.variance.isfinite().all()


def test_one_draw_has_no_variance():
    belief, point, _ = problem("cross_entropy", "full")
    got = monte_carlo(belief, point, likelihood("cross_entropy"), 1, torch.Generator().manual_seed(0))
    torch.testing.assert_close(got.variance, torch.zeros_like(got.variance), rtol=0, atol=1e-15)


def test_errors_name_the_reading():
    belief, point, _ = problem("cross_entropy", "full")
    with pytest.raises(ValueError, match=r"Unknown `moments`: 'linearised'. Did you mean 'linearized'\?"):
        moments_at(belief, point, likelihood("cross_entropy"), "linearised")
    with pytest.raises(ValueError, match=r"`moments='exact'` needs `loss='square'`.*Use moments='linearized'"):
        moments_at(belief, point, likelihood("cross_entropy"), "exact")
