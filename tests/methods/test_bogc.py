from copy import deepcopy

import pytest
import torch

from evigrad.calibration import CalibratedLoss
from evigrad.methods import Surgery, build_method
from evigrad.networks import FUSIONS
from tests.properties.methods import (
    assert_absent_inputs_are_ignored,
    assert_close,
    assert_equals_reference,
    assert_odd_batches_do_no_harm,
    assert_order_is_irrelevant,
    assert_resumes,
    assert_same,
    assert_trains,
)
from tests.properties.toys import (
    SHAPES,
    Dividing,
    gradients,
    prepared,
    sgd,
    toy_batch,
    toy_batches,
    toy_network,
    train,
    weights,
)


def uniform(network, batches):
    train(prepared("uniform", network), network, batches)


def criterion_in_a_plain_loop(network, batches):
    """What a user with their own loop writes."""
    criterion = CalibratedLoss(
        heads=dict(network.heads.items()), joint_head=network.fusion.linear, dataset_size=64
    ).double()
    optimizer = sgd(network)
    for batch in batches:
        optimizer.zero_grad()
        features = {name: encoder(batch.inputs[name]) for name, encoder in network.encoders.items()}
        criterion(features, batch.target).loss.backward()
        optimizer.step()


@pytest.mark.parametrize("fusion", ["concatenation", "film"])
def test_equal_evidence_is_uniform_training(fusion):
    """T0: s = 0 and γ = 1."""
    network = toy_network(fusion=fusion)
    method = prepared("bogc", network, evidence_power=0.0, scale=1.0)
    assert_equals_reference(method, network, uniform, toy_batches(4), exact=False)


def test_is_the_criterion_in_a_plain_loop():
    network = toy_network()
    assert_equals_reference(prepared("bogc", network), network, criterion_in_a_plain_loop, toy_batches(4))


def test_heads_get_ordinary_gradients_and_encoders_others():
    network, batch = toy_network(), toy_batch(missing=0.3)
    plain = deepcopy(network)
    gradients(prepared("uniform", plain), plain, batch, 1, Surgery())
    gradients(prepared("bogc", network, scale=1.0), network, batch, 1, Surgery())
    assert_close(
        {name: p.grad for name, p in network.named_parameters() if not name.startswith("encoders")},
        {name: p.grad for name, p in plain.named_parameters() if not name.startswith("encoders")},
    )
    for mine, theirs in zip(network.encoders.parameters(), plain.encoders.parameters(), strict=True):
        assert not torch.allclose(mine.grad, theirs.grad)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_every_fusion_carries_it(fusion):
    network = toy_network(fusion=fusion)
    assert_trains(prepared("bogc", network), network, toy_batches(3, missing=0.3))


def test_the_order_of_the_encoders_need_not_be_that_of_the_fusion():
    network, batches = toy_network(), toy_batches(3)
    other = deepcopy(network)
    other.encoders = torch.nn.ModuleDict(dict(reversed(other.encoders.items())))
    for each in (network, other):
        train(prepared("bogc", each), each, batches)
    expected = weights(network)
    assert_close({name: weights(other)[name] for name in expected}, expected)


def test_evaluation_has_the_ordinary_value_and_learns_nothing():
    network, batch = toy_network(), toy_batch()
    method = prepared("bogc", network)
    train(method, network, toy_batches(2))
    method.eval()
    network.eval()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    with torch.no_grad():
        value = method.loss(network(batch.inputs, batch.present), batch)
    expected = prepared("uniform", network).loss(network(batch.inputs, batch.present), batch)
    torch.testing.assert_close(value, expected)
    assert_same(method.state_dict(), before)


def test_its_state_holds_no_weights_of_the_network():
    network = toy_network()
    method = prepared("bogc", network)
    assert list(method.parameters()) == []
    owned = {value.data_ptr() for value in network.state_dict().values() if value.numel()}
    assert not owned & {value.data_ptr() for value in method.state_dict().values() if value.numel()}
    assert method.state_dict()


def test_draws_come_from_the_loops_generator():
    results = []
    for seed in (1, 1, 2):
        network = toy_network()
        method = prepared("bogc", network, moments="monte_carlo")
        train(method, network, toy_batches(2), surgery=Dividing(seed=seed))
        results.append(weights(network))
    assert_same(results[1], results[0])
    assert not torch.equal(results[2]["encoders.image.layers.1.weight"], results[0]["encoders.image.layers.1.weight"])


def test_diagnostics_are_the_criterions():
    network = toy_network()
    method = prepared("bogc", network)
    assert method.diagnostics() == {}
    train(method, network, toy_batches(1))
    assert {"image/conflict", "sound/uncertainty/joint", "words/sign_changed"} <= method.diagnostics().keys()


@pytest.mark.parametrize(
    "readings",
    [
        {"posterior": "diagonal", "rescale": "sample"},
        {"posterior": "full", "centre": "newton"},
        {"posterior": "lowrank", "curvature": "batch", "joint_source": "average"},
        {"curvature": "batch", "reference": "power", "weights": "source"},
        {"moments": "monte_carlo", "rescale": "none"},
    ],
)
def test_other_readings_have_the_properties_of_every_method(readings):
    if readings.get("moments") != "monte_carlo":  # draws are dealt out in the order of the modalities
        assert_order_is_irrelevant("bogc", SHAPES, **readings)
    assert_resumes("bogc", **readings)
    assert_absent_inputs_are_ignored("bogc", **readings)
    assert_odd_batches_do_no_harm("bogc", **readings)


def test_readings_are_checked_at_once():
    with pytest.raises(ValueError, match=r"Unknown `posterior`: 'kroneker'\. Did you mean 'kronecker'\?"):
        build_method("bogc", posterior="kroneker")
    with pytest.raises(ValueError, match=r"Unknown `joint_source`: 'averge'\. Did you mean 'average'\?"):
        build_method("bogc", joint_source="averge")


def test_training_needs_preparation():
    network, batch = toy_network(), toy_batch()
    with pytest.raises(RuntimeError, match=r"BOGC has no criterion yet; call prepare\(network, \.\.\.\)"):
        build_method("bogc").loss(network(batch.inputs, batch.present), batch)
