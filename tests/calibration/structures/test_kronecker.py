import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import moments, posterior
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.structures import Kronecker, Seen
from tests.oracles.curvature import look, precision
from tests.oracles.problems import linear, make_batch
from tests.oracles.update import views
from tests.properties.gaussian import assert_draws_have, assert_forms_match, assert_solves, draw_matrix

LOSSES = ["cross_entropy", "binary", "square"]
LOSS = likelihood("cross_entropy")


def covariance_of(batch, loss, structure, prior=0.7):
    view = views(batch)["audio"]
    samples = look(loss, view.theta, view.inputs, batch.target, view.present)
    return torch.linalg.inv(precision(structure, samples, 1.0, tuple(view.theta.shape), prior))


def dense_covariance(belief, outputs, width):
    root = draw_matrix(belief, outputs * width, outputs)
    return root @ root.T


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=st.integers(0, 10_000), bias=st.booleans(), size=st.integers(1, 6), width=st.integers(1, 4))
@settings(max_examples=10)
def test_is_the_dense_kronecker_product_with_the_prior_added(loss, seed, bias, size, width):
    batch = make_batch({"audio": width}, loss, bias=bias, size=size, seed=seed)
    covariance = covariance_of(batch, loss, "kronecker")
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "kronecker", loss, 0.7)
    assert_draws_have(belief, covariance, 3)
    assert_solves(belief, covariance, 3)
    assert_forms_match(belief, covariance, 3, views(batch)["audio"].inputs, width)


@pytest.mark.parametrize("loss", LOSSES)
def test_is_the_full_posterior_of_one_sample(loss):
    batch = make_batch({"audio": 3}, loss, size=1)
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "kronecker", loss, 0.7)
    torch.testing.assert_close(dense_covariance(belief, 3, 4), covariance_of(batch, loss, "full"))


def test_is_the_full_posterior_when_all_predictions_are_equal():
    """Weights of zero, so that only the bias decides; for the square loss the curvatures are always equal."""
    batch = make_batch({"audio": 3}, size=5)
    batch.heads["audio"][0].zero_()
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], prior_precision=0.7)
    torch.testing.assert_close(dense_covariance(belief, 3, 4), covariance_of(batch, "cross_entropy", "full"))
    batch = make_batch({"audio": 3}, "square", size=5)
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], loss="square", prior_precision=0.7)
    torch.testing.assert_close(dense_covariance(belief, 3, 4), covariance_of(batch, "square", "full"))


def test_is_not_the_full_posterior_otherwise():
    batch = make_batch({"audio": 3}, size=5)
    kronecker, full = (covariance_of(batch, "cross_entropy", name) for name in ("kronecker", "full"))
    assert (kronecker - full).abs().max() > 1e-3


def test_agrees_with_laplace_torch_without_bias():
    """Its factors are per-class and per-feature sums, so the products are the same; a bias is a block apart there."""
    pytest.importorskip("laplace")
    from laplace import KronLLLaplace
    from laplace.curvature import CurvlinopsGGN

    batch = make_batch({"audio": 3}, classes=4, size=6, bias=False)
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    model = torch.nn.Sequential(torch.nn.Identity(), head)
    theirs = KronLLLaplace(model, "classification", prior_precision=0.7, backend=CurvlinopsGGN, last_layer_name="1")
    theirs.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features, batch.target), batch_size=6))
    ours = dense_covariance(posterior(head, features, prior_precision=0.7), 4, 3)
    torch.testing.assert_close(ours, torch.linalg.inv(theirs.posterior_precision.to_matrix()), rtol=1e-6, atol=1e-8)


def test_absent_samples_do_not_count():
    batch = make_batch({"audio": 3}, size=4)
    view, present = views(batch)["audio"], torch.tensor([1.0, 0, 1, 0]).double()
    mean = (view.inputs @ view.theta.T).softmax(-1)
    shown = Kronecker.fit(Seen(view.inputs * present[:, None], mean, present), LOSS, 1.0)
    here = Kronecker.fit(Seen(view.inputs[::2], mean[::2], torch.ones(2).double()), LOSS, 1.0)
    torch.testing.assert_close(dense_covariance(shown, 3, 4), dense_covariance(here, 3, 4))


# ---- the sketch: more features than `rank` ----


def spectrum(decay: str, width: int) -> torch.Tensor:
    ranks = torch.arange(1, width + 1, dtype=torch.float64)
    return {"fast": 0.7**ranks, "slow": ranks**-2.0, "flat": torch.ones(width, dtype=torch.float64)}[decay] * 100


def statistics(decay: str, width: int, rank: int, noise: float = 0.0):
    """Sums over one 'batch' of ``width`` samples whose second moments have the spectrum; and A itself."""
    draw = torch.Generator().manual_seed(0)
    rotation = torch.linalg.qr(torch.randn(width, width, generator=draw, dtype=torch.float64))[0]
    inputs = spectrum(decay, width).sqrt()[:, None] * rotation
    mean = torch.randn(width, 3, generator=draw, dtype=torch.float64).softmax(-1)
    empty = {key: value.double() for key, value in Kronecker.empty(3, width, rank).items()}
    ones = torch.ones(width, dtype=torch.float64)
    total = empty | Kronecker.observe(empty, Seen(inputs, mean, ones), LOSS)
    return total, inputs, mean


def fitted(total, width):
    return Kronecker.from_statistics(total, torch.tensor(float(width)), torch.tensor(float(width)), 1.0)


def test_up_to_rank_features_nothing_is_sketched():
    assert "fixed_probe" not in Kronecker.empty(3, 9, 8)  # 8 features and a bias
    assert Kronecker.empty(3, 10, 8)["fixed_probe"].shape == (10, 8)
    for rank in (12, 500):
        total, inputs, mean = statistics("slow", 12, rank)
        batch = Kronecker.fit(Seen(inputs, mean, torch.ones(12).double()), LOSS, 1.0)
        torch.testing.assert_close(dense_covariance(fitted(total, 12), 3, 12), dense_covariance(batch, 3, 12))


def test_features_of_lower_rank_than_the_sketch_are_exact():
    """Up to the stabilising shift, 1e-7 of the sketch's norm."""
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 4, generator=draw).double() @ torch.randn(4, 30, generator=draw).double()
    mean, ones = torch.randn(50, 3, generator=draw).double().softmax(-1), torch.ones(50).double()
    empty = {key: value.double() for key, value in Kronecker.empty(3, 30, 8).items()}
    total = empty | Kronecker.observe(empty, Seen(inputs, mean, ones), LOSS)
    exact = dense_covariance(Kronecker.fit(Seen(inputs, mean, ones), LOSS, 1.0), 3, 30)
    torch.testing.assert_close(dense_covariance(fitted(total, 50), 3, 30), exact, rtol=0, atol=1e-4)


@pytest.mark.parametrize("decay", ["fast", "slow"])
@pytest.mark.parametrize("rank", [8, 16, 32])
def test_sketch_error_is_bounded_by_the_spectrums_tail(decay, rank):
    """The kept part is below A, and its trace error is at most twice the eigenvalues beyond rank/2.

    The bound of one-pass Nyström (Tropp et al. 2017, theorem 4.1) in the mean over probes: (1 + r/(k−r−1)) Σ_{j>r} λ_j.
    """
    width = 60
    total, inputs, _ = statistics(decay, width, rank)
    belief = fitted(total, width)
    outer = torch.linalg.eigvalsh(total["outputs"] / width)[-1]
    kept = (1 / belief.variance[-1] - 1) / outer  # eigenvalues of A's sketch
    approximation = belief.basis @ torch.diag(kept) @ belief.basis.T
    difference = inputs.T @ inputs - approximation
    assert torch.linalg.eigvalsh(difference).min() > -1e-4
    assert difference.trace() < 2 * spectrum(decay, width)[rank // 2 :].sum()
    torch.testing.assert_close(belief.basis.T @ belief.basis, torch.eye(rank).double(), rtol=0, atol=1e-7)
    tail = (1 / belief.tail[-1] - 1) / outer
    torch.testing.assert_close(kept.sum() + (width - rank) * tail, (inputs.T @ inputs).trace())  # no curvature is lost


@pytest.mark.parametrize("rank", [8, 100])
def test_a_data_set_is_as_many_copies_of_what_was_seen(rank):
    """N = 3 times the samples: the same as to see each of them three times, in the sketch and in its tail."""
    width = 30
    total, inputs, mean = statistics("slow", width, rank)
    count, ones = torch.tensor(float(width)), torch.ones(3 * width).double()
    ours = Kronecker.from_statistics(total, count, 3 * count, 1.0)
    empty = {key: value.double() for key, value in Kronecker.empty(3, width, rank).items()}
    copies = empty | Kronecker.observe(empty, Seen(inputs.repeat(3, 1), mean.repeat(3, 1), ones), LOSS)
    wanted = Kronecker.from_statistics(copies, 3 * count, 3 * count, 1.0)
    torch.testing.assert_close(dense_covariance(ours, 3, width), dense_covariance(wanted, 3, width))
    assert (ours.tail > 0).all() == (rank < width)


@pytest.mark.parametrize(("decay", "rank", "bound"), [("fast", 32, 1e-3), ("slow", 32, 1e-2), ("flat", 32, 1e-9)])
def test_gradient_variances_under_a_sketch(decay, rank, bound):
    """Relative error of the variance of the gradient, at samples from the same distribution: measured, then bounded."""
    width = 60
    total, inputs, mean = statistics(decay, width, rank)
    draw = torch.Generator().manual_seed(1)
    head = torch.nn.Linear(width, 3, bias=False).double()
    with torch.no_grad():
        head.weight.copy_(torch.randn(3, width, generator=draw))
    target = torch.randint(3, (width,), generator=draw)
    sketched = moments(fitted(total, width), head, inputs, target).variance
    exact = Kronecker.fit(Seen(inputs, mean, torch.ones(width).double()), LOSS, 1.0)
    wanted = moments(exact, head, inputs, target).variance
    assert ((sketched - wanted) / wanted).abs().mean() < bound


def test_rounding_of_long_float32_sums_does_no_harm():
    """Features of rank one, and a sum whose rounding is larger than the sketch's shift, against the shift's sign."""
    width, rank = 40, 8
    inputs = torch.linspace(1, 2, width).repeat(20, 1).double()
    mean, ones = torch.full((20, 3), 1 / 3).double(), torch.ones(20).double()
    empty = {key: value.double() for key, value in Kronecker.empty(3, width, rank).items()}
    total = empty | Kronecker.observe(empty, Seen(inputs, mean, ones), LOSS)
    total["gram"] = total["gram"] - 2.5e-7 * torch.linalg.matrix_norm(total["gram"]) * total["fixed_probe"]
    exact = dense_covariance(Kronecker.fit(Seen(inputs, mean, ones), LOSS, 1.0), 3, width)
    belief = Kronecker.from_statistics(total, torch.tensor(20.0), torch.tensor(20.0), 1.0)
    torch.testing.assert_close(dense_covariance(belief, 3, width), exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize("rank", [4, 100])
def test_no_samples_leave_the_prior(rank):
    belief = Kronecker.from_statistics(Kronecker.empty(2, 12, rank), torch.zeros(()), torch.zeros(()), 4.0)
    root = belief.draw(torch.eye(24).view(24, 2, 12)).flatten(1)
    torch.testing.assert_close(root.T @ root, torch.eye(24) / 4)


def test_duplicated_and_dead_features_stay_finite_in_float32():
    batch = make_batch({"audio": 4}, size=3)
    features = batch.features["audio"].float() * 1e3
    features[:, 1], features[:, 3] = features[:, 0], 0
    belief = posterior(linear(batch.heads["audio"]).float(), features)
    forms = belief.forms(torch.cat([features, torch.ones(3, 1)], 1), belief.weights(4))
    for part in (forms.weights, forms.cross, forms.logits):
        assert part.isfinite().all()
    torch.testing.assert_close(forms.weights[:, 3], torch.ones(3))  # nothing is known of a dead feature
