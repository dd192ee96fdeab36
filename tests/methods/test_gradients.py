import torch
from torch import nn

from evigrad.methods import Surgery
from evigrad.methods.gradients import put, reduce_gradients, take


def test_taking_and_putting_back():
    layer = nn.Linear(2, 3)
    layer.weight.grad = torch.ones(3, 2)
    parameters = list(layer.parameters())
    taken = take(parameters)
    assert layer.weight.grad is None
    assert list(taken) == [layer.weight]
    put(parameters, taken)
    assert (layer.weight.grad == 1).all()
    assert layer.bias.grad is None


class TwoRanks(Surgery):
    """This rank and one whose gradients are all zero, or all missing."""

    world_size = 2

    def all_reduce(self, tensor, operation="mean"):
        return tensor / 2 if operation == "mean" else tensor


def test_reduction_averages_and_keeps_unused_parameters_without_gradient():
    layer = nn.Linear(2, 3)
    parameters = [*layer.parameters(), nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))]
    given = {layer.weight: torch.ones(3, 2), parameters[2]: torch.ones(4, dtype=torch.bfloat16)}
    reduced = reduce_gradients(parameters, given, TwoRanks())
    assert list(reduced) == [layer.weight, parameters[2]]
    assert (reduced[layer.weight] == 0.5).all()
    assert reduced[parameters[2]].dtype == torch.bfloat16
    assert reduce_gradients([], {}, TwoRanks()) == {}
