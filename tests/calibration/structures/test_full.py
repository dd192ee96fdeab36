import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import posterior
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.structures import Full, Seen
from tests.oracles.curvature import look, precision, whole_negative_log_posterior
from tests.oracles.problems import linear, make_batch
from tests.oracles.update import views
from tests.properties.gaussian import assert_draws_have, assert_forms_match, assert_solves, draw_matrix

LOSSES = ["cross_entropy", "binary", "square"]
small = {"seed": st.integers(0, 10_000), "bias": st.booleans(), "width": st.integers(1, 4), "size": st.integers(1, 5)}


def flat_covariance(belief):
    outputs, width = belief.covariance.shape[:2]
    return belief.covariance.reshape(outputs * width, outputs * width)


@pytest.mark.parametrize("loss", LOSSES)
@given(**small)
@settings(max_examples=15)
def test_precision_is_autograds_hessian(loss, seed, bias, width, size):
    """Of the summed negative log-likelihood and the prior, at the head's weights."""
    batch = make_batch({"audio": width}, loss, bias=bias, size=size, seed=seed)
    view = views(batch)["audio"]
    hessian = torch.autograd.functional.hessian(
        lambda flat: whole_negative_log_posterior(loss, flat, view.inputs, batch.target, 0.7), view.theta.flatten()
    )
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "full", loss, 0.7)
    torch.testing.assert_close(torch.linalg.inv(flat_covariance(belief)), hessian, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@given(**small)
@settings(max_examples=8)
def test_draws_solutions_and_forms_follow_the_naive_covariance(loss, seed, bias, width, size):
    batch = make_batch({"audio": width}, loss, bias=bias, size=size, seed=seed)
    view = views(batch)["audio"]
    samples = look(loss, view.theta, view.inputs, batch.target, view.present)
    covariance = torch.linalg.inv(precision("full", samples, 1.0, tuple(view.theta.shape), 0.7))
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "full", loss, 0.7)
    torch.testing.assert_close(flat_covariance(belief), covariance)
    assert_draws_have(belief, covariance, 3)
    assert_solves(belief, covariance, 3)
    assert_forms_match(belief, covariance, 3, view.inputs, width)


def test_absent_samples_do_not_count():
    batch = make_batch({"audio": 2}, size=4)
    view = views(batch)["audio"]
    loss, present = likelihood("cross_entropy"), torch.tensor([1.0, 0, 1, 0]).double()
    mean = (view.inputs @ view.theta.T).softmax(-1)
    shown = Full.fit(Seen(view.inputs * present[:, None], mean, present), loss, 1.0)
    here = Full.fit(Seen(view.inputs[::2], mean[::2], torch.ones(2).double()), loss, 1.0)
    torch.testing.assert_close(shown.covariance, here.covariance)


def test_statistics_of_parts_add_up_and_stretch():
    """Summed statistics of two halves, taken for twice the samples, are the batch seen twice."""
    batch = make_batch({"audio": 2}, size=4)
    view = views(batch)["audio"]
    loss, ones = likelihood("cross_entropy"), torch.ones(4).double()
    mean = (view.inputs @ view.theta.T).softmax(-1)
    halves = [Full.observe({}, Seen(view.inputs[i], mean[i], ones[i]), loss) for i in (slice(0, 2), slice(2, 4))]
    total = {"curvature": halves[0]["curvature"] + halves[1]["curvature"]}
    doubled = Full.from_statistics(total, torch.tensor(4.0), torch.tensor(8.0), 1.0)
    twice = Full.fit(Seen(view.inputs.repeat(2, 1), mean.repeat(2, 1), ones.repeat(2)), loss, 1.0)
    torch.testing.assert_close(doubled.covariance, twice.covariance)


def test_no_samples_leave_the_prior():
    belief = Full.from_statistics(Full.empty(2, 3, 9), torch.zeros(()), torch.zeros(()), 4.0)
    torch.testing.assert_close(flat_covariance(belief), torch.eye(6) / 4)


def test_duplicated_and_dead_features_stay_finite_in_float32():
    batch = make_batch({"audio": 4}, size=3)
    features = batch.features["audio"].float() * 1e3
    features[:, 1], features[:, 3] = features[:, 0], 0
    belief = posterior(linear(batch.heads["audio"]).float(), features, "full", prior_precision=1e-3)
    assert belief.covariance.isfinite().all()
    torch.testing.assert_close(belief.covariance[:, 3, :, 3], torch.eye(3) * 1e3)  # nothing is known of a dead feature
    assert (torch.linalg.eigvalsh(flat_covariance(belief).double()) > -1e-3).all()


def test_agrees_with_laplace_torch():
    """Weights there are all of W, then all of b; here the bias is the last column."""
    pytest.importorskip("laplace")
    from laplace import FullLLLaplace
    from laplace.curvature import CurvlinopsGGN

    batch = make_batch({"audio": 3}, classes=4, size=6)
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    model = torch.nn.Sequential(torch.nn.Identity(), head)
    theirs = FullLLLaplace(model, "classification", prior_precision=0.7, backend=CurvlinopsGGN, last_layer_name="1")
    theirs.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features, batch.target), batch_size=3))
    ours = draw_matrix(posterior(head, features, "full", prior_precision=0.7), 16, 4)
    order = [c * 4 + k for c in range(4) for k in range(3)] + [c * 4 + 3 for c in range(4)]
    covariance = (ours @ ours.T)[order][:, order]
    torch.testing.assert_close(covariance, theirs.posterior_covariance, rtol=1e-6, atol=1e-8)
