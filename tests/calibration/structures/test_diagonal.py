import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import posterior
from evigrad.calibration.structures import Diagonal
from tests.oracles.curvature import look, precision
from tests.oracles.problems import linear, make_batch
from tests.oracles.update import views
from tests.properties.gaussian import assert_draws_have, assert_forms_match, assert_solves


@pytest.mark.parametrize("loss", ["cross_entropy", "binary", "square"])
@given(seed=st.integers(0, 10_000), bias=st.booleans(), size=st.integers(1, 5))
@settings(max_examples=8)
def test_variances_are_the_inverse_of_the_full_precisions_diagonal(loss, seed, bias, size):
    batch = make_batch({"audio": 3}, loss, bias=bias, size=size, seed=seed)
    view = views(batch)["audio"]
    samples = look(loss, view.theta, view.inputs, batch.target, view.present)
    full = precision("full", samples, 1.0, tuple(view.theta.shape), 0.7)
    belief = posterior(linear(batch.heads["audio"]), batch.features["audio"], "diagonal", loss, 0.7)
    torch.testing.assert_close(belief.variance.flatten(), 1 / full.diagonal())
    covariance = torch.diag(1 / full.diagonal())
    assert_draws_have(belief, covariance, 3)
    assert_solves(belief, covariance, 3)
    assert_forms_match(belief, covariance, 3, view.inputs, 3)


def test_no_samples_leave_the_prior():
    belief = Diagonal.from_statistics(Diagonal.empty(2, 3, 9), torch.zeros(()), torch.zeros(()), 4.0)
    torch.testing.assert_close(belief.variance, torch.full((2, 3), 0.25))


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # BackPACK's hooks, on plain inputs
def test_agrees_with_laplace_torch():
    pytest.importorskip("laplace")
    from laplace import DiagLLLaplace
    from laplace.curvature import BackPackGGN

    batch = make_batch({"audio": 3}, classes=4, size=6)
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    model = torch.nn.Sequential(torch.nn.Identity(), head)
    theirs = DiagLLLaplace(model, "classification", prior_precision=0.7, backend=BackPackGGN, last_layer_name="1")
    theirs.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features, batch.target), batch_size=6))
    ours = posterior(head, features, "diagonal", prior_precision=0.7).variance
    torch.testing.assert_close(torch.cat([ours[:, :3].flatten(), ours[:, 3]]), theirs.posterior_variance)
