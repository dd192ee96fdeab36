import torch
from torch.nn import functional as F

from tests.properties.methods import assert_equals_reference, assert_trains
from tests.properties.toys import prepared, sgd, toy_batch, toy_batches, toy_network


def plain(network, batches):
    optimizer = sgd(network)
    for batch in batches:
        optimizer.zero_grad()
        features = [encoder(batch.inputs[name]) for name, encoder in network.encoders.items()]
        F.cross_entropy(network.fusion.linear(torch.cat(features, dim=1)), batch.target).backward()
        optimizer.step()


def test_is_a_plain_loop():
    network = toy_network()
    assert_equals_reference(prepared("joint", network), network, plain, toy_batches(4))


def test_gradient_at_the_features_is_the_closed_form():
    """Check (a): (p - Y) W_m / B."""
    network, batch = toy_network(), toy_batch()
    method = prepared("joint", network)
    output = network(batch.inputs, batch.present)
    for value in output.features.values():
        value.retain_grad()
    method.loss(output, batch).backward()
    error = output.joint_logits.softmax(dim=1) - F.one_hot(batch.target, 4)
    for name, value in output.features.items():
        torch.testing.assert_close(value.grad, error @ network.fusion.block(name) / 8)


def test_has_no_unimodal_heads():
    network = toy_network()
    method = prepared("joint", network)
    assert len(network.heads) == 0
    assert method.unimodal_probabilities(network(toy_batch().inputs)) == {}
    assert_trains(method, network, toy_batches(3))


def test_predicts_with_the_joint_head():
    network, batch = toy_network().eval(), toy_batch()
    method, output = prepared("joint", network), network(batch.inputs)
    expected = output.joint_logits.exp() / output.joint_logits.exp().sum(dim=1, keepdim=True)
    torch.testing.assert_close(method.predict(output, batch.present).double(), expected, rtol=1e-6, atol=1e-6)
