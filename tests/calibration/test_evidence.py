import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evigrad.calibration import Moments, Opinion, combine, conflict_mass, opinion, update
from evigrad.calibration.evidence import floor, rescale
from tests.oracles import evidence as oracle
from tests.properties.opinions import (
    assert_combination_commutes,
    assert_is_opinion,
    assert_same,
    assert_vacuous_is_neutral,
    vacuous,
)

POWERS = [0.0, 0.01, 0.5, 1.0, 2.0]


def floats(low, high):
    return st.floats(low, high, allow_nan=False)


moderate = st.lists(floats(0.01, 100), min_size=1, max_size=6)


@st.composite
def pairs(draw, low=-20.0, high=20.0):
    """Variances of two sources over the same dimensions, σ from 10^low to 10^high."""
    width = draw(st.integers(1, 6))
    exponents = st.lists(floats(low, high), min_size=width, max_size=width)
    return [torch.tensor([10.0 ** (2 * one) for one in draw(exponents)], dtype=torch.float64)[None] for _ in "12"]


@given(variance=moderate, power=st.sampled_from(POWERS), reference=floats(0.01, 100))
def test_opinion_is_the_printed_one(variance, power, reference):
    for given_reference in (None, reference):
        ours = opinion(
            torch.tensor([variance], dtype=torch.float64),
            power,
            None if given_reference is None else torch.tensor(reference, dtype=torch.float64),
        )
        belief, uncertainty = oracle.opinion(variance, power, given_reference or 1.0)
        torch.testing.assert_close(ours.belief, torch.tensor([belief], dtype=torch.float64))
        torch.testing.assert_close(ours.uncertainty, torch.tensor([uncertainty], dtype=torch.float64))


@given(pair=pairs(-1.0, 1.0), power=st.sampled_from(POWERS))
def test_combination_is_dempsters_reduced_rule(pair, power):
    first, second = (opinion(one, power) for one in pair)
    ours = combine(first, second)
    parts = [x.squeeze(0).tolist() for x in (first.belief, first.uncertainty, second.belief, second.uncertainty)]
    belief, uncertainty = oracle.combine(*parts)
    torch.testing.assert_close(ours.belief, torch.tensor([belief], dtype=torch.float64))
    torch.testing.assert_close(ours.uncertainty, torch.tensor([uncertainty], dtype=torch.float64))
    wanted = torch.tensor([oracle.conflict(parts[0], parts[2])], dtype=torch.float64)
    torch.testing.assert_close(conflict_mass(first, second), wanted, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("weights", ["printed", "source"])
@given(pair=pairs(-1.0, 1.0), power=st.sampled_from(POWERS))
@settings(max_examples=30)
def test_update_weighs_the_two_means(weights, pair, power):
    first, second = (opinion(one, power) for one in pair)
    means = [torch.linspace(-1, 2, one.shape[1], dtype=torch.float64)[None] + k for k, one in enumerate(pair)]
    ours = update(*means, first, second, weights)
    parts = [x.squeeze(0).tolist() for x in (first.belief, first.uncertainty, second.belief, second.uncertainty)]
    own, joint = (torch.tensor([one], dtype=torch.float64) for one in oracle.weigh(weights, *parts))
    torch.testing.assert_close(ours.unimodal_weight, own)
    torch.testing.assert_close(ours.joint_weight, joint)
    torch.testing.assert_close(ours.gradient, own * means[0] + joint * means[1])
    assert ours.unimodal is first
    assert ours.joint is second


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reference", [None, 1e-30, 1e30])
@given(pair=pairs(), power=st.sampled_from(POWERS))
def test_extreme_variances_give_opinions(dtype, reference, pair, power):
    """σ from 1e-20 to 1e20 in one vector."""
    power_of = None if reference is None else torch.tensor(reference, dtype=dtype)
    first, second = (opinion(one.to(dtype), power, power_of) for one in pair)
    for one in (first, second, combine(first, second)):
        assert_is_opinion(one)
    assert_combination_commutes(first, second)
    assert_vacuous_is_neutral(first)
    mass = conflict_mass(first, second)
    assert ((mass >= 0) & (mass <= 1)).all()
    for weights in ("printed", "source"):
        result = update(
            torch.ones_like(pair[0], dtype=dtype), -torch.ones_like(pair[0], dtype=dtype), first, second, weights
        )
        assert result.gradient.isfinite().all()
        assert ((result.unimodal_weight >= 0) & (result.joint_weight >= 0)).all()


@given(array=hnp.arrays("float32", (3, 5), elements=st.floats(0, width=32, allow_nan=False)))
def test_any_variance_that_float32_can_hold(array):
    """Zero, denormal, huge and infinite."""
    assert_is_opinion(opinion(torch.from_numpy(array.copy())))


def test_conflict_near_one_keeps_its_digits():
    """Two certain opinions on different dimensions: 1 − C is 1e-12, and Dempster's rule must still sum to one."""
    first = opinion(torch.tensor([[1e-24, 1.0, 1e24]], dtype=torch.float64), 1.0)
    second = opinion(torch.tensor([[1e24, 1.0, 1e-24]], dtype=torch.float64), 1.0)
    assert conflict_mass(first, second) > 1 - 1e-9
    combined = combine(first, second)
    assert_is_opinion(combined, tolerance=1e-12)
    torch.testing.assert_close(combined.belief[:, 0], combined.belief[:, 2])
    single = combine(opinion(torch.tensor([[1e-24, 1e24]]), 1.0), opinion(torch.tensor([[1e24, 1e-24]]), 1.0))
    assert_is_opinion(single)
    torch.testing.assert_close(single.belief, torch.tensor([[0.5, 0.5]]))


def test_one_minus_conflict_without_cancellation():
    """1 − C = Σ (b b' + b u' + b' u) + u u', the denominator that the log-evidence form amounts to."""
    first, second = opinion(torch.rand(4, 5).double()), opinion(torch.rand(4, 5).double())
    b, u, c, v = first.belief, first.uncertainty[:, None], second.belief, second.uncertainty[:, None]
    rest = (b * c + b * v + c * u).sum(-1) + (u * v).squeeze(-1)
    torch.testing.assert_close(1 - conflict_mass(first, second), rest)
    torch.testing.assert_close(combine(first, second).uncertainty, (u * v).squeeze(-1) / rest)


def test_vacuous_opinions():
    nothing = vacuous(torch.zeros(2, 3))
    assert_is_opinion(nothing)
    torch.testing.assert_close(nothing.uncertainty, torch.ones(2))
    assert_same(combine(nothing, nothing), nothing)
    assert (conflict_mass(nothing, opinion(torch.ones(2, 3))) == 0).all()


def test_where_blanks_the_absent():
    some = opinion(torch.rand(3, 4))
    shown = some.where(torch.tensor([True, False, True]))
    torch.testing.assert_close(shown.belief[[0, 2]], some.belief[[0, 2]])
    assert (shown.belief[1] == 0).all()
    torch.testing.assert_close(shown.uncertainty[1], torch.tensor(1.0))


@given(factor=floats(1e-6, 1e6))
@settings(max_examples=20)
def test_power_reference_is_free_of_scale(factor):
    """Gradients times a constant: variance and P grow by its square, and the opinion stays; the printed one moves."""
    variance = torch.tensor([[0.5, 2.0, 0.1]], dtype=torch.float64)
    power = torch.tensor(0.3, dtype=torch.float64)
    scaled = opinion(variance * factor**2, 0.5, power * factor**2)
    assert_same(scaled, opinion(variance, 0.5, power), tolerance=1e-9)
    if not 0.5 < factor < 2:
        assert not torch.allclose(opinion(variance * factor**2).uncertainty, opinion(variance).uncertainty, rtol=0.05)


def test_zero_power_makes_every_evidence_one():
    belief = opinion(torch.tensor([[1e-30, 1.0, 1e30, 0.0]]), 0.0)
    torch.testing.assert_close(belief.belief, torch.full((1, 4), 1 / 8))
    torch.testing.assert_close(belief.uncertainty, torch.tensor([0.5]))


def test_uncertainty_of_sources_with_small_variance_hardly_differs():
    """Section 5: σ = 0.01 and 0.02 give u near 0.01 and 0.02, total mass near one whatever the reliability."""
    for sigma, wanted in ((0.01, 1 / 101), (0.02, 1 / 51)):
        torch.testing.assert_close(opinion(torch.full((1, 64), sigma**2)).uncertainty, torch.tensor([wanted]))


@given(gradient=hnp.arrays("float32", (3, 4), elements=st.floats(-1e3, 1e3, width=32)))
def test_rescale_restores_a_norm(gradient):
    gradient = torch.from_numpy(gradient.copy())
    squares = gradient.double().square().sum()
    result = rescale(gradient, squares, torch.tensor(4.0).double(), 1.5)
    assert result.dtype == torch.float32
    if squares > 1e-30:
        torch.testing.assert_close(result.double().norm(), torch.tensor(3.0).double())
    if squares == 0:
        assert (result == 0).all()


def test_rescale_of_tiny_gradients():
    """1e-25 in float32: squares that only float64 can hold."""
    gradient = torch.full((1, 4), 1e-25)
    result = rescale(gradient, gradient.double().square().sum(), torch.tensor(1.0).double(), 1.0)
    torch.testing.assert_close(result.norm(), torch.tensor(1.0))


def test_floor_is_relative_to_each_samples_mean_square():
    mean = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    result = floor(Moments(mean, torch.tensor([[0.2, 0.9], [0.0, 1e-9]])), 0.1)
    torch.testing.assert_close(result.variance, torch.tensor([[0.5, 0.9], [0.0, 1e-9]]))
    assert result.mean is mean
    tiny = floor(Moments(1e-6 * mean, torch.zeros(2, 2)), 0.1)
    torch.testing.assert_close(tiny.variance[0], torch.tensor([5e-13, 5e-13]))


def test_unknown_weights_are_answered_with_the_nearest():
    some = Opinion(torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"Unknown `weights`: 'sources'. Did you mean 'source'\?"):
        update(torch.zeros(1, 2), torch.zeros(1, 2), some, some, "sources")
