"""Accumulation: micro-batches add up, each divided as its loss is."""

import copy

import pytest
import torch
from torch import nn

from tests.properties.criterion import assert_same_gradients
from tests.zoo import Model, concatenated, gradients, plain_loss


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def micro_batches(model, count=4, size=3):
    return [model.batch(size, seed) for seed in range(count)]


def joined(batches):
    inputs = {name: torch.cat([one[name] for one, _ in batches]) for name in batches[0][0]}
    return inputs, torch.cat([target for _, target in batches])


@pytest.mark.parametrize("refresh", [1, 10])
@pytest.mark.parametrize("curvature", ["batch", "running"])
def test_micro_batches_add_up_to_the_sum_of_their_own_gradients(curvature, refresh):
    """What accumulates in `.grad` over n micro-batches is the sum of each one's gradient, over n."""
    model = Model(curvature=curvature, refresh=refresh)
    apart = copy.deepcopy(model)
    batches = micro_batches(model)
    for inputs, target in batches:
        (model(inputs, target).loss / len(batches)).backward()
    wanted = {name: torch.zeros_like(value) for name, value in apart.named_parameters()}
    for inputs, target in batches:
        apart.zero_grad()
        apart(inputs, target).loss.backward()
        for name, value in gradients(apart).items():
            wanted[name] += value / len(batches)
    assert_same_gradients(gradients(model), wanted, 1e-5)  # float32
    torch.testing.assert_close(model.criterion.state_dict(), apart.criterion.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("rescale", ["sample", "none"])
@pytest.mark.parametrize("weights", ["printed", "source"])
def test_micro_batches_equal_the_whole_batch_where_samples_stand_alone(weights, rescale):
    """Given the posterior (eval mode leaves it as it is), these readings look at one sample at a time."""
    model = Model(rescale=rescale, weights=weights)
    for seed in range(5):
        model(*model.batch(seed=10 + seed))
    model.eval()
    whole, batches = copy.deepcopy(model), micro_batches(model)
    for inputs, target in batches:
        (model(inputs, target).loss / len(batches)).backward()
    whole(*joined(batches)).loss.backward()
    assert_same_gradients(gradients(model), gradients(whole), 1e-5)  # float32


def test_each_micro_batch_is_rescaled_to_its_own_plain_gradient():
    """`rescale="batch"`: the norm at the features is γ times plain training's, micro-batch by micro-batch."""
    model = Model(scale=1.5)
    for inputs, target in micro_batches(model):
        norms = []
        for loss in (calibrated(model), plain(model)):
            leaves = {name: value.detach().requires_grad_() for name, value in model.encode(inputs).items()}
            loss(leaves, target).backward()
            norms.append({name: value.grad.norm() for name, value in leaves.items()})
        for name, norm in norms[0].items():
            torch.testing.assert_close(norm, 1.5 * norms[1][name])


def calibrated(model):
    return lambda features, target: model.criterion(features, target).loss


def plain(model):
    joint = concatenated(model.heads, model.joint_head)
    return lambda features, target: plain_loss(model.heads, joint, features, target)


def test_the_running_average_takes_in_every_micro_batch():
    """n micro-batches of m samples: the count is m (1 + d + d² + ...), as for n ordinary steps."""
    model = Model(decay=0.9)
    for inputs, target in micro_batches(model, count=4, size=3):
        (model(inputs, target).loss / 4).backward()
    assert model.criterion.calibration.joint.steps == 4
    torch.testing.assert_close(model.criterion.calibration.joint.count, torch.tensor(3 * (1 + 0.9 + 0.81 + 0.729)))


def test_one_large_step_of_accumulated_gradients_trains():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batches = micro_batches(model, count=4, size=8)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        total = 0.0
        for inputs, target in batches:
            loss = model(inputs, target).loss / len(batches)
            loss.backward()
            total += float(loss.detach())
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(total)
    assert losses[-1] < 0.7 * losses[0]
