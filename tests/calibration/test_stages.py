import pytest
import torch
from torch.testing import assert_close

from evigrad.calibration import combine, moments, opinion, posterior, update
from tests.oracles import moments as oracle
from tests.oracles.curvature import look, precision
from tests.oracles.problems import calibrated, criterion_for, linear, make_batch
from tests.oracles.update import Batch, views
from tests.properties.gaussian import draw_matrix

LOSSES = ["cross_entropy", "binary", "square"]


def dense(batch, structure, loss):
    view = views(batch)["audio"]
    samples = look(loss, view.theta, view.inputs, batch.target, view.present)
    return torch.linalg.inv(
        precision("full" if structure == "lowrank" else structure, samples, 1.0, tuple(view.theta.shape), 0.8)
    )


@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal", "lowrank"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_posterior_is_that_of_the_batch(loss, structure):
    batch = make_batch({"audio": 3}, loss)
    root = draw_matrix(posterior(linear(batch.heads["audio"]), batch.features["audio"], structure, loss, 0.8), 12, 3)
    assert_close(root @ root.T, dense(batch, structure, loss))


def test_positions_count_as_samples():
    batch = make_batch({"audio": 3}, size=6)
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    flat, deep = posterior(head, features, "full"), posterior(head, features.view(2, 3, 3), "full")
    assert_close(deep.covariance, flat.covariance)
    at_flat = moments(flat, head, features, batch.target)
    at_deep = moments(flat, head, features.view(2, 3, 3), batch.target.view(2, 3))
    assert_close(at_deep.mean, at_flat.mean.view(2, 3, 3))
    assert_close(at_deep.variance, at_flat.variance.view(2, 3, 3))


@pytest.mark.parametrize("loss", LOSSES)
def test_moments_are_those_of_each_samples_own_loss(loss):
    batch = make_batch({"audio": 3}, loss)
    head, features, view = linear(batch.heads["audio"]), batch.features["audio"], views(batch)["audio"]
    got = moments(posterior(head, features, "full", loss, 0.8), head, features, batch.target, loss)
    covariance = dense(batch, "full", loss)
    for t in range(batch.size):
        mean, variance = oracle.linearized(loss, view.theta, covariance, view.inputs[t], batch.target[t], 3)
        assert_close(got.mean[t], torch.tensor(mean).double())
        assert_close(got.variance[t], torch.tensor(variance).double())


def test_probabilities_are_a_target():
    batch = make_batch({"audio": 3})
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    belief = posterior(head, features)
    hot = torch.nn.functional.one_hot(batch.target, 3).double()
    assert_close(moments(belief, head, features, hot).variance, moments(belief, head, features, batch.target).variance)


@pytest.mark.parametrize("loss", ["binary", "square"])
def test_one_output_takes_targets_without_a_class_dimension(loss):
    head, features, target = torch.nn.Linear(3, 1), torch.randn(4, 3), torch.tensor([0.0, 1, 1, 0])
    belief = posterior(head, features, loss=loss)
    bare = moments(belief, head, features, target, loss)
    assert_close(bare.mean, moments(belief, head, features, target[:, None], loss).mean)
    assert_close(moments(belief, head, features, target.long(), loss).mean, bare.mean)


def test_draws_come_from_the_generator_and_their_number():
    batch = make_batch({"audio": 3})
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    belief = posterior(head, features)

    def drawn(seed, draws):
        generator = torch.Generator().manual_seed(seed)
        return moments(belief, head, features, batch.target, method="monte_carlo", draws=draws, generator=generator)

    assert torch.equal(drawn(0, 20).mean, drawn(0, 20).mean)
    assert not torch.allclose(drawn(0, 20).mean, drawn(1, 20).mean)
    assert not torch.allclose(drawn(0, 20).mean, drawn(0, 21).mean)


def test_nothing_is_tracked():
    head, features = torch.nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)
    belief = posterior(head, features)
    got = moments(belief, head, features, torch.zeros(4, dtype=torch.long))
    assert not got.mean.requires_grad
    assert not got.variance.requires_grad


def test_the_stages_make_up_the_criterion():
    """One modality by hand, from posterior to update; what the criterion adds is the last factor, γ/B."""
    batch = make_batch({"audio": 3})
    readings = {"curvature": "batch", "rescale": "none", "scale": 1.0, "variance_floor": 0.0}
    head, joint, features = linear(batch.heads["audio"]), linear(batch.joint), batch.features["audio"]
    own = moments(posterior(head, features), head, features, batch.target)
    shared = moments(posterior(joint, features), joint, features, batch.target)
    first, second = opinion(own.variance), opinion(shared.variance)
    by_hand = update(own.mean, shared.mean, first, second)
    assert_close(calibrated(criterion_for(batch, **readings), batch)["audio"], by_hand.gradient / batch.size)
    assert isinstance(batch, Batch)
    assert_close(by_hand.unimodal_weight, combine(first, second).belief * first.belief)


def test_unknown_names_are_answered_with_the_nearest():
    head, features = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with pytest.raises(ValueError, match=r"Unknown `structure`: 'kron'. Did you mean 'kronecker'\?"):
        posterior(head, features, "kron")
    with pytest.raises(
        ValueError, match=r"Unknown `loss`: 'mse'. Did you mean 'square'\? Choose one of: cross_entropy, binary, square"
    ):
        posterior(head, features, loss="mse")
    with pytest.raises(ValueError, match=r"Unknown `moments`: 'montecarlo'. Did you mean 'monte_carlo'\?"):
        moments(posterior(head, features), head, features, torch.zeros(4, dtype=torch.long), method="montecarlo")
