import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from evigrad.methods import Surgery, build_method
from evigrad.methods.mmpareto import combine, min_norm_weights
from tests.properties.methods import (
    assert_absent_inputs_are_ignored,
    assert_equals_reference,
    assert_micro_batches_add_up,
    assert_order_is_irrelevant,
    assert_resumes,
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
    weights,
)

VECTORS = st.integers(0, 2**31).map(
    lambda seed: torch.randn(2, 12, generator=torch.Generator().manual_seed(seed)).double()
)


def split(vector: torch.Tensor) -> list[torch.Tensor]:
    return [vector[:5], vector[5:8].reshape(1, 3), vector[8:]]


def flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def opposed(pair: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two vectors, the second turned so that they conflict."""
    return (pair[0], -pair[1]) if pair[0] @ pair[1] > 0 else (pair[0], pair[1])


@given(VECTORS)
def test_without_conflict_it_is_gamma_times_the_sum(pair):
    """Check (a)."""
    first, second = opposed(pair)
    edited, cosine = combine(split(first), split(-second), gamma=1.5)
    torch.testing.assert_close(flat(edited), 1.5 * (first - second), rtol=1e-15, atol=0)
    assert float(cosine) > 0


@given(VECTORS)
def test_under_conflict_it_descends_both_alike(pair):
    """Check (b): 2 x the minimum-norm point h has <h, g_mm> = <h, g_u> = ½|h|²."""
    first, second = opposed(pair)
    weight = min_norm_weights(first @ first, second @ second, first @ second)
    point = 2 * weight * first + 2 * (1 - weight) * second
    half = 0.5 * float(point @ point)
    assert float(point @ first) == pytest.approx(half, rel=1e-9)
    assert float(point @ second) == pytest.approx(half, rel=1e-9)
    direction = flat(combine(split(first), split(second), 1.0, "encoder")[0])
    torch.testing.assert_close(direction / direction.norm(), point / point.norm())


@given(VECTORS)
def test_weight_is_the_minimum_over_the_segment(pair):
    """Against a search."""
    first, second = opposed(pair)
    grid = torch.linspace(0, 1, 2001).double()
    norms = (grid[:, None] * first + (1 - grid)[:, None] * second).norm(dim=1)
    weight = min_norm_weights(first @ first, second @ second, first @ second)
    assert float(weight) == pytest.approx(float(grid[norms.argmin()]), abs=1e-3)


@given(VECTORS)
def test_norms_are_restored(pair):
    """Check (d): per tensor never below the plain sum's; per encoder exactly the plain sum's."""
    first, second = opposed(pair)
    by_tensor, _ = combine(split(first), split(second), 1.0, "tensor")
    for edited, total in zip(by_tensor, split(first + second), strict=True):
        assert float(edited.norm()) >= float(total.norm()) * (1 - 1e-12)
    whole = flat(combine(split(first), split(second), 1.0, "encoder")[0])
    assert float(whole.norm()) == pytest.approx(float((first + second).norm()), rel=1e-12)


def test_special_cases():
    """Check (c), and gradients that are zero."""
    x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert min_norm_weights(x @ x, y @ y, x @ y) == 0.5
    (opposite,), cosine = combine([x], [-3 * x])
    assert float(cosine) == -1
    assert opposite.isfinite().all()
    assert (opposite == 0).all()
    (lonely,), cosine = combine([x], [0 * x], gamma=1.5)
    assert torch.equal(lonely, 1.5 * x)
    assert cosine == 0
    (nothing,), _ = combine([0 * x], [0 * x])
    assert (nothing == 0).all()
    (cancelled, kept), _ = combine([x, 3 * y], [-x, y])
    assert (cancelled == 0).all()
    assert torch.equal(kept, 1.5 * 4 * y)


def test_gradients_that_are_not_finite_come_back_as_their_sum():
    for bad in (math.inf, math.nan):
        (edited, other), _ = combine([torch.tensor([bad]), torch.ones(2)], [torch.ones(1), -torch.ones(2)])
        assert not edited.isfinite().any()
        assert (other == 0).all()


def test_half_precision_norms_do_not_overflow():
    big = torch.full((4,), 6e4, dtype=torch.float16)
    _, cosine = combine([big], [-big / 2])
    assert float(cosine) == pytest.approx(-1)


def aligned_network():
    """Heads that start as the joint head's blocks, so that both losses pull the same way."""
    network = toy_network()
    with torch.no_grad():
        for name, head in network.heads.items():
            head.weight.copy_(network.fusion.block(name))
    return network


def two_backwards(network, batches):
    """Uniform training in a plain loop, each loss backpropagated by itself."""
    optimizer = sgd(network)
    for batch in batches:
        optimizer.zero_grad()
        features = {name: encoder(batch.inputs[name]) for name, encoder in network.encoders.items()}
        joint = network.fusion.linear(torch.cat(list(features.values()), dim=1))
        F.cross_entropy(joint, batch.target).backward(retain_graph=True)
        own = [F.cross_entropy(head(features[name]), batch.target) for name, head in network.heads.items()]
        sum(own).backward()
        optimizer.step()


def test_gamma_one_without_conflict_is_uniform_training():
    """T0, bit for bit against uniform training with one backward per loss."""
    network, batches = aligned_network(), toy_batches(3)
    method, cosines = prepared("mmpareto", network, gamma=1.0), []
    step = method.after_backward

    def watched(*arguments):
        step(*arguments)
        cosines.extend(method.diagnostics().values())

    method.after_backward = watched
    assert_equals_reference(method, network, two_backwards, batches)
    assert len(cosines) == 9
    assert min(cosines) > 0


def four_backward_oracle(network, batch, gamma):
    """The released scheme by hand: one backward per loss, encoder by encoder, tensor by tensor."""

    def backward(pick):
        clone = deepcopy(network)
        output = clone(batch.inputs)
        pick(output).backward()
        return {name: p.grad for name, p in clone.named_parameters() if p.grad is not None}

    joint = backward(lambda output: F.cross_entropy(output.joint_logits, batch.target))
    expected = dict(joint)
    for modality in network.modalities:
        own = backward(lambda output, m=modality: F.cross_entropy(output.unimodal_logits[m], batch.target))
        names = [name for name in own if name.startswith("encoders.")]
        first, second = flat([joint[name] for name in names]), flat([own[name] for name in names])
        product, one, two = first @ second, first @ first, second @ second
        share = 0.5 if product > 0 else (two - product) / (one + two - 2 * product)
        for name in own:
            expected[name] = joint.get(name, 0) + own[name]
        for name in names:
            mixed = 2 * share * joint[name] + 2 * (1 - share) * own[name]
            ratio = float(expected[name].norm() / mixed.norm()) if mixed.norm() > 0 else 1.0
            expected[name] = gamma * mixed * max(ratio, 1.0)
    return expected


@pytest.mark.parametrize("seed", range(4))
def test_two_passes_give_the_four_pass_result(seed):
    """Check (e), heads included: theirs is the plain gradient."""
    network, batch = toy_network(seed=seed), toy_batch(seed=seed)
    expected = four_backward_oracle(network, batch, 1.5)
    method = prepared("mmpareto", network)
    gradients(method, network, batch, 1, Surgery())
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-9, atol=1e-12)


def test_the_oracle_saw_conflict_and_agreement():
    found = []
    for seed in range(4):
        network = toy_network(seed=seed)
        method = prepared("mmpareto", network)
        gradients(method, network, toy_batch(seed=seed), 1, Surgery())
        found += method.diagnostics().values()
    assert min(found) < 0 < max(found)


def test_surgery_comes_after_accumulation():
    """Four micro-batches, even with a loss scale: the surgery of the whole batch's two gradients."""
    shapes = {"sound": (6,), "image": (12,)}
    network, batch = toy_network(shapes), toy_batch(shapes)
    expected = four_backward_oracle(network, batch, 1.5)
    gradients(prepared("mmpareto", network), network, batch, 4, Dividing(micro=4, scale=512.0))
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-9, atol=1e-12)


def test_frozen_and_shared_encoders_are_left_alone():
    network, batch = toy_network({"sound": (6,), "image": (6,)}), toy_batch({"sound": (6,), "image": (6,)})
    network.encoders["image"] = network.encoders["sound"]
    plain = deepcopy(network)
    gradients(prepared("uniform", plain), plain, batch, 1, Surgery())
    gradients(prepared("mmpareto", network), network, batch, 1, Surgery())
    for mine, theirs in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    network.encoders["image"].requires_grad_(False)
    network.zero_grad()
    gradients(prepared("mmpareto", network), network, batch, 1, Surgery())
    assert all(p.grad is None for p in network.encoders.parameters())


class Stopped(torch.nn.Module):
    """A head whose loss does not reach the encoder."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, features):
        return self.head(features.detach())


@pytest.mark.parametrize("micro", [1, 2])
def test_a_gradient_that_only_one_loss_gives_is_no_conflict(micro):
    """The own gradient of "image" is None, not zero; that of "sound" meets the joint one as ever."""
    shapes = {"sound": (6,), "image": (12,)}
    network, batch = toy_network(shapes), toy_batch(shapes)
    network.heads["image"] = Stopped(network.heads["image"])
    joint = deepcopy(network)
    F.cross_entropy(joint(batch.inputs).joint_logits, batch.target).backward()
    gradients(prepared("mmpareto", network), network, batch, micro, Dividing(micro))
    for mine, theirs in zip(network.encoders["image"].parameters(), joint.encoders["image"].parameters(), strict=True):
        torch.testing.assert_close(mine.grad, 1.5 * theirs.grad)
    for mine, theirs in zip(network.encoders["sound"].parameters(), joint.encoders["sound"].parameters(), strict=True):
        assert not torch.allclose(mine.grad, 1.5 * theirs.grad)


def test_a_tensor_that_only_one_loss_reaches_has_its_gradient_in_the_norm():
    """Against both gradients written out, one tensor of each being zero."""
    joint, own = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])], [torch.tensor([-1.0, 2.0]), torch.tensor([0.0])]
    share = (5 + 3) / (25 + 5 + 6)
    mixed = [2 * share * a + 2 * (1 - share) * b for a, b in zip(joint, own, strict=True)]
    expected = [1.5 * h * max(1.0, float((a + b).norm() / h.norm())) for h, a, b in zip(mixed, joint, own, strict=True)]
    edited, cosine = combine(joint, own, 1.5)
    assert float(cosine) == pytest.approx(-3 / math.sqrt(25 * 5))
    for mine, theirs in zip(edited, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_one_rescaling_an_encoder_has_the_properties_of_every_method():
    assert_order_is_irrelevant("mmpareto", SHAPES, rescale="encoder")
    assert_resumes("mmpareto", rescale="encoder")
    assert_absent_inputs_are_ignored("mmpareto", rescale="encoder")
    assert_micro_batches_add_up("mmpareto", rescale="encoder")


class Scaling(Surgery):
    """What a loop with a real GradScaler lends."""

    def __init__(self, scaler):
        super().__init__()
        self.scaler = scaler

    def backward(self, loss, retain_graph=False):
        self.scaler.scale(loss).backward(retain_graph=retain_graph)

    def unscale(self, tensors):
        for tensor in tensors:
            tensor.div_(self.scaler.get_scale())


@pytest.mark.parametrize("name", ["mmpareto", "ogm_ge"])
def test_an_overflowing_step_is_skipped_and_forgotten(name):
    """The scaler sees the overflow, skips the step, lowers its scale; the next step is as if nothing had happened."""
    network, batch = toy_network().float(), toy_batch()
    batch = type(batch)({k: v.float() for k, v in batch.inputs.items()}, batch.target, batch.present, batch.index)
    method, optimizer = prepared(name, network).float(), sgd(network)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-117, growth_interval=1000)
    surgery, start = Scaling(scaler), weights(network)
    moved = []
    for _ in range(2):
        optimizer.zero_grad()
        method.step(network, batch, surgery.backward, surgery)
        scaler.unscale_(optimizer)
        method.after_backward(network, surgery)
        scaler.step(optimizer)
        scaler.update()
        moved.append(any(not torch.equal(p, start[key]) for key, p in network.named_parameters()))
        if len(moved) == 1:
            network.load_state_dict(start)
            surgery.generator.manual_seed(0)
    assert moved == [False, True]
    assert scaler.get_scale() == 2.0**10

    other = toy_network().float()
    again, plain = prepared(name, other).float(), Surgery(torch.Generator().manual_seed(0))
    second = sgd(other)
    gradients(again, other, batch, 1, plain)
    second.step()
    for key, parameter in other.named_parameters():
        torch.testing.assert_close(network.get_parameter(key), parameter, rtol=1e-5, atol=1e-7)


def test_bad_options_are_errors():
    with pytest.raises(ValueError, match="`gamma` must be a finite number above zero, got 0"):
        build_method("mmpareto", gamma=0)
    with pytest.raises(ValueError, match=r"Unknown `rescale`: 'tensors'\. Did you mean 'tensor'\?"):
        build_method("mmpareto", rescale="tensors")
