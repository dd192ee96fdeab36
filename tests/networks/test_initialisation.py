import math

import pytest
import torch
from torch import nn

from evigrad.networks import ResNet18, initialise


@pytest.mark.parametrize("scheme", ["mmpareto", "ogm"])
def test_convolutions_are_kaiming_normal_by_fan_out(scheme):
    weight = ResNet18((3, 64, 64), initialisation=scheme).stages[3][1].conv2.weight.detach()
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / (512 * 9)), rel=0.01)
    assert abs(float(weight.mean())) < 1e-4


def test_mmpareto_draws_batch_norm_and_leaves_linear_layers():
    network = nn.Sequential(nn.BatchNorm2d(4000), nn.Linear(5, 3))
    before = network[1].weight.clone()
    initialise(network, "mmpareto")
    assert float(network[0].weight.detach().mean()) == pytest.approx(1, abs=0.002)
    assert float(network[0].weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert (network[0].bias == 0).all()
    assert torch.equal(network[1].weight, before)


def test_ogm_sets_batch_norm_and_draws_linear_layers():
    network = nn.Sequential(nn.BatchNorm2d(40), nn.Linear(300, 100), nn.Linear(3, 2, bias=False))
    initialise(network, "ogm")
    assert (network[0].weight == 1).all()
    assert (network[1].bias == 0).all()
    assert float(network[1].weight.detach().std()) == pytest.approx(math.sqrt(2 / 400), rel=0.02)


def test_draws_come_from_the_generator():
    drawn = []
    for _ in range(2):
        network = nn.Conv2d(1, 2, 3)
        initialise(network, "ogm", torch.Generator().manual_seed(4))
        drawn.append(network.weight)
    assert torch.equal(*drawn)


def test_unknown_scheme_is_an_error():
    with pytest.raises(ValueError, match=r"Unknown `scheme`: 'omg'\. Did you mean 'ogm'\?"):
        initialise(nn.ReLU(), "omg")
