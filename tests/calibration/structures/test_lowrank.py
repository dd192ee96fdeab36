import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import posterior
from tests.oracles.curvature import look, precision
from tests.oracles.problems import linear, make_batch
from tests.oracles.update import views
from tests.properties.gaussian import assert_draws_have, assert_forms_match, assert_solves


@pytest.mark.parametrize("loss", ["cross_entropy", "binary", "square"])
@given(
    seed=st.integers(0, 10_000),
    bias=st.booleans(),
    size=st.integers(1, 6),  # B·C below and above P
    width=st.integers(1, 4),
    prior=st.sampled_from([1e-3, 0.7, 1e3]),
)
@settings(max_examples=10)
def test_is_the_full_posterior(loss, seed, bias, size, width, prior):
    batch = make_batch({"audio": width}, loss, bias=bias, size=size, seed=seed)
    view = views(batch)["audio"]
    samples = look(loss, view.theta, view.inputs, batch.target, view.present)
    covariance = torch.linalg.inv(precision("full", samples, 1.0, tuple(view.theta.shape), prior))
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "lowrank", loss, prior)
    assert_draws_have(belief, covariance, 3)
    assert_solves(belief, covariance, 3)
    assert_forms_match(belief, covariance, 3, view.inputs, width)


def test_duplicated_and_dead_features_stay_finite_in_float32():
    batch = make_batch({"audio": 4}, size=3)
    features = batch.features["audio"].float() * 1e3
    features[:, 1], features[:, 3] = features[:, 0], 0
    belief = posterior(linear(batch.heads["audio"]).float(), features, "lowrank")
    forms = belief.forms(torch.cat([features, torch.ones(3, 1)], 1), belief.weights(4))
    for part in (forms.weights, forms.cross, forms.logits):
        assert part.isfinite().all()
    torch.testing.assert_close(forms.weights[:, :, 3], torch.eye(3))  # nothing is known of a dead feature


def test_its_root_is_the_symmetric_one():
    batch = make_batch({"audio": 2}, size=3)
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "lowrank")
    root = belief.draw(torch.eye(9, dtype=torch.float64).view(9, 3, 3)).flatten(1)
    torch.testing.assert_close(root, root.T)


@pytest.mark.parametrize("size", [4, 64])  # B·C below and far above P
@pytest.mark.parametrize("prior", [1.0, 1e-2])
def test_float32_loses_few_digits(prior, size):
    """Every covariance is a difference from I/τ: where samples outnumber weights, what cancels must not be kept."""
    batch = make_batch({"audio": 5}, size=size)
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    wanted = posterior(head, features, "full", prior_precision=prior)
    inputs = torch.cat([features, torch.ones(size, 1)], 1)
    exact = wanted.forms(inputs, wanted.weights(5)).logits
    narrow = posterior(head.float(), features.float(), "lowrank", prior_precision=prior)
    ours = narrow.forms(inputs.float(), narrow.weights(5)).logits
    condition = 1 / (prior * torch.linalg.eigvalsh(wanted.covariance.reshape(18, 18)).min())
    error = ((ours - exact).abs() / exact.diagonal(dim1=1, dim2=2).amax(1)[:, None, None]).max()
    assert error < (10 + 0.05 * condition) * torch.finfo(torch.float32).eps
