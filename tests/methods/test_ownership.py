import pytest
from torch import nn

from evigrad.methods.ownership import encoder_parameters
from evigrad.networks import MLP, Concatenation, MultimodalNetwork
from tests.properties.toys import SHAPES, toy_network


def test_encoders_own_what_they_hold():
    network = toy_network()
    owned = encoder_parameters(network)
    for name in SHAPES:
        assert [id(p) for p in owned[name]] == [id(p) for p in network.encoders[name].parameters()]


@pytest.mark.parametrize("what", ["encoder", "head"])
def test_shared_parameters_belong_to_nobody(what):
    first, second = MLP((4,), width=4, hidden=()), MLP((4,), width=4, hidden=())
    network = MultimodalNetwork({"a": first, "b": second}, Concatenation({"a": 4, "b": 4}, 4))
    if what == "encoder":
        second.layers[1] = first.layers[1]
        assert encoder_parameters(network) == {"a": [], "b": []}
    else:
        network.heads["a"] = nn.Linear(4, 4)
        network.heads["a"].weight = first.layers[1].weight
        assert encoder_parameters(network)["a"] == [first.layers[1].bias]


def test_frozen_parameters_are_left_out():
    network = toy_network()
    network.encoders["image"].requires_grad_(False)
    assert encoder_parameters(network)["image"] == []
