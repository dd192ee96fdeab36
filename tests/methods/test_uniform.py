import pytest
import torch
from torch.nn import functional as F

from evigrad.methods import build_method
from tests.properties.methods import assert_equals_reference, assert_same
from tests.properties.toys import prepared, sgd, toy_batch, toy_batches, toy_network, train, weights


def plain(network, batches, phi=1.0):
    optimizer = sgd(network)
    for batch in batches:
        optimizer.zero_grad()
        features = {name: encoder(batch.inputs[name]) for name, encoder in network.encoders.items()}
        own = [F.cross_entropy(head(features[name]), batch.target) for name, head in network.heads.items()]
        loss = F.cross_entropy(network.fusion.linear(torch.cat(list(features.values()), dim=1)), batch.target)
        (loss + phi * sum(own)).backward()
        optimizer.step()


@pytest.mark.parametrize("phi", [1.0, 0.3])
def test_is_a_plain_loop(phi):
    network = toy_network()
    method = prepared("uniform", network, unimodal_weight=phi)
    assert_equals_reference(method, network, lambda n, b: plain(n, b, phi), toy_batches(4))


def test_without_unimodal_losses_is_joint():
    networks = [toy_network(), toy_network()]
    for network, name, options in zip(networks, ("uniform", "joint"), ({"unimodal_weight": 0.0}, {}), strict=True):
        train(prepared(name, network, **options), network, toy_batches(3))
    idle = weights(networks[0])
    assert_same({name: idle[name] for name in weights(networks[1])}, weights(networks[1]))


def test_an_encoder_receives_the_sum_of_both_gradients():
    batch, found = toy_batch(), []
    for part in ("joint", "own", "both"):
        network = toy_network()
        output = network(batch.inputs)
        joint = F.cross_entropy(output.joint_logits, batch.target)
        own = F.cross_entropy(output.unimodal_logits["image"], batch.target)
        if part == "both":
            prepared("uniform", network).loss(output, batch).backward()
        else:
            (joint if part == "joint" else own).backward()
        found.append([p.grad for p in network.encoders["image"].parameters()])
    for first, second, both in zip(*found, strict=True):
        torch.testing.assert_close(both, first + second)


def test_needs_a_head_for_every_modality():
    network = toy_network()
    del network.heads["words"]
    with pytest.raises(
        ValueError, match=r"Uniform trains a head for every modality, and `network` has none for \['words'\]"
    ):
        prepared("uniform", network)


def test_refuses_a_negative_weight():
    with pytest.raises(ValueError, match="`unimodal_weight` must be a finite number zero or more, got -1"):
        build_method("uniform", unimodal_weight=-1.0)
