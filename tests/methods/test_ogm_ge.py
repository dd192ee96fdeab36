import math
from copy import deepcopy

import pytest
import torch

from evigrad.methods import Surgery, build_method
from evigrad.methods.ogm_ge import coefficients, discrepancies, modulate, pair_scores
from tests.properties.methods import (
    assert_absent_inputs_are_ignored,
    assert_equals_reference,
    assert_micro_batches_add_up,
    assert_order_is_irrelevant,
    assert_resumes,
    assert_trains,
)
from tests.properties.toys import (
    SHAPES,
    Dividing,
    gradients,
    prepared,
    toy_batch,
    toy_batches,
    toy_network,
    train,
    weights,
)

TWO = {"sound": (1, 8, 8), "image": (1, 6, 6)}


def network_of(shapes=TWO, **options):
    network = toy_network(shapes)
    return network, prepared("ogm_ge", network, **options)


def joint(network, batches):
    train(prepared("joint", network), network, batches)


def edited(noise: bool, batch=None, **options):
    """Gradients before and after the surgery of one step, and the method."""
    network, method = network_of(noise=noise, **options)
    plain, batch = deepcopy(network), batch or toy_batch(TWO)
    gradients(prepared("joint", plain), plain, batch, 1, Surgery())
    gradients(method, network, batch, 1, Surgery())
    pairs = zip(network.named_parameters(), plain.parameters(), strict=True)
    return {name: (mine.grad, theirs.grad) for (name, mine), theirs in pairs}, method


def test_strength_zero_without_noise_is_joint_training():
    """T0 and check (e)."""
    network, method = network_of(alpha=0.0, noise=False)
    assert_equals_reference(method, network, joint, toy_batches(4, shapes=TWO))


@pytest.mark.parametrize(("start", "end", "active"), [(0, None, True), (3, None, False), (0, 1, False), (2, 2, True)])
def test_outside_its_window_it_is_joint_training(start, end, active):
    network, method = network_of(start=start, end=end)
    expected, batches = deepcopy(network), toy_batches(3, shapes=TWO)
    joint(expected, batches)
    train(method, network, batches, epoch=2)
    same = all(torch.equal(value, weights(expected)[name]) for name, value in weights(network).items())
    assert same is not active


def test_only_convolutions_of_the_leading_encoder_are_damped():
    """Checks (b) and (c): one k below 1, parallel to the original gradient, nothing else changed."""
    found, method = edited(noise=False, alpha=0.8)
    factors = {name.split("/")[1]: value for name, value in method.diagnostics().items()}
    (leader,) = [name for name, value in factors.items() if value < 1]
    assert 0 < factors[leader] <= 1 - math.tanh(0.8)
    for name, (mine, plain) in found.items():
        damped = name.startswith(f"encoders.{leader}.") and mine.dim() == 4
        torch.testing.assert_close(mine, factors[leader] * plain if damped else plain, rtol=1e-6, atol=0)


@torch.no_grad()
def test_the_leader_is_the_modality_with_the_higher_score():
    """Scores by a loop over samples from the block logits; the factor from the printed formula."""
    network, method = network_of(noise=False, alpha=0.8)
    batch, score = toy_batch(TWO), {}
    features = toy_network(TWO)(batch.inputs).features
    for name, value in features.items():
        logits = value @ network.fusion.block(name).T + network.fusion.linear.bias / 2
        score[name] = sum(float(row.softmax(0)[label]) for row, label in zip(logits, batch.target, strict=True))
    with torch.enable_grad():
        gradients(method, network, batch, 1, Surgery())
    ratio = score["sound"] / score["image"]
    expected = {"sound": ratio, "image": 1 / ratio}
    for name, value in expected.items():
        factor = 1 - math.tanh(0.8 * value) if value > 1 else 1.0
        assert method.diagnostics()[f"coefficient/{name}"] == pytest.approx(factor, rel=1e-5)


def test_noise_has_the_gradients_spread_in_every_encoder():
    """Check (d): over many draws the mean is k g, the deviation from it has the spread of g."""
    found, _ = edited(noise=True, alpha=0.8)
    for name, (mine, plain) in found.items():
        touched = name.startswith("encoders.") and mine.dim() == 4
        assert touched == (not torch.equal(mine, plain))
    gradient, factor = torch.randn(40, 3, dtype=torch.float64) + 0.3, torch.tensor(0.4)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([modulate(gradient, factor, generator) for _ in range(4000)])
    spread = float(gradient.std())
    assert float((draws.mean(dim=0) - 0.4 * gradient).abs().max()) < 5 * spread / math.sqrt(4000)
    assert float((draws - 0.4 * gradient).std()) == pytest.approx(spread, rel=0.01)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_resumed_run_knows_where_in_its_window_it_is(fresh):
    """T3 in epoch 1: a checkpoint that forgot the epoch would end (start=1) or begin (end=0) the modulation."""
    assert_resumes("ogm_ge", **({"start": 1} if fresh else {"end": 0}))


def test_plain_ogm_has_the_properties_of_every_method():
    assert_order_is_irrelevant("ogm_ge", SHAPES, noise=False, tensors="matrices")
    assert_resumes("ogm_ge", noise=False, tensors="matrices")
    assert_absent_inputs_are_ignored("ogm_ge", noise=False, tensors="matrices")
    assert_micro_batches_add_up("ogm_ge", noise=False, tensors="matrices")


@torch.no_grad()
def test_three_modalities_with_samples_missing():
    """The whole way from features to factors, by loops: mean ratio over the others, on samples that have both."""
    network, batch = toy_network(), toy_batch(missing=0.4)
    features = deepcopy(network)(batch.inputs, batch.present).features
    method = prepared("ogm_ge", network, noise=False)
    with torch.enable_grad():
        gradients(method, network, batch, 1, Surgery())
    confidence = {}
    for name, value in features.items():
        logits = value @ network.fusion.block(name).T + network.fusion.linear.bias / 3
        confidence[name] = [float(row.softmax(0)[label]) for row, label in zip(logits, batch.target, strict=True)]
    for name in SHAPES:
        ratios = []
        for other in SHAPES:
            rows = [row for row in range(8) if batch.present[name][row] and batch.present[other][row]]
            if other != name and rows:
                ratios.append(sum(confidence[name][r] for r in rows) / sum(confidence[other][r] for r in rows))
        ratio = sum(ratios) / len(ratios)
        factor = 1 - math.tanh(0.8 * ratio) if ratio > 1 else 1.0
        # scores are 32-bit numbers
        assert method.diagnostics()[f"coefficient/{name}"] == pytest.approx(factor, rel=1e-5)


def test_noise_is_repeatable_and_survives_single_entries():
    one, two = (modulate(torch.ones(3, 3), torch.tensor(1.0), torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one, two)
    single = modulate(torch.ones(1, 1, 1, 1), torch.tensor(1.0), torch.Generator().manual_seed(5))
    assert single.isfinite().all()


def test_discrepancy_averages_the_ratios_to_the_others():
    scores = torch.tensor([6.0, 3.0, 2.0])
    ratios = discrepancies(scores[:, None].expand(3, 3))
    torch.testing.assert_close(ratios, torch.tensor([(2 + 3) / 2, (0.5 + 1.5) / 2, (1 / 3 + 2 / 3) / 2]))


def test_damping_sets_in_just_above_one():
    factors = coefficients(torch.tensor([0.999, 1.0, 1.001]).double(), 0.8)
    assert factors.tolist() == [1.0, 1.0, pytest.approx(1 - math.tanh(0.8 * 1.001))]


def test_nobody_is_damped_in_a_tie_or_alone():
    assert (coefficients(discrepancies(torch.full((2, 2), 3.0)), 0.8) == 1).all()
    assert (coefficients(discrepancies(torch.full((1, 1), 3.0)), 0.8) == 1).all()


def test_scores_compare_samples_that_have_both():
    logits, target = torch.randn(6, 2, 4), torch.randint(0, 4, (6,))
    present = torch.tensor([[1, 1], [1, 0], [0, 1], [1, 1], [0, 0], [1, 0]]).bool()
    scores = pair_scores(logits, target, present)
    for m in range(2):
        for j in range(2):
            rows = [r for r in range(6) if present[r, m] and present[r, j]]
            expected = sum(float(logits[r, m].softmax(0)[target[r]]) for r in rows)
            assert float(scores[m, j]) == pytest.approx(expected, rel=1e-5)


class BesideAnotherRank(Surgery):
    """A rank whose peer has ``scores``."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def all_reduce(self, tensor, operation="mean"):
        assert operation == "sum"
        return tensor + self.scores


def test_scores_of_all_ranks_are_added_before_the_nonlinearity():
    """This rank alone would damp the one modality; with its peer's scores it is the other that leads."""
    network, method = network_of(noise=False)
    gradients(method, network, toy_batch(TWO), 1, Surgery())
    alone = {name.split("/")[1]: value for name, value in method.diagnostics().items()}
    peer = torch.tensor([[0.0, 0.0] if alone[name] < 1 else [500.0, 500.0] for name in TWO])
    gradients(method, network, toy_batch(TWO), 1, BesideAnotherRank(peer))
    together = {name.split("/")[1]: value for name, value in method.diagnostics().items()}
    assert [together[name] < 1 for name in TWO] == [alone[name] == 1 for name in TWO]


def test_scores_keep_their_digits_under_autocast():
    """Features come in bfloat16, but logits and confidences are computed in float32: 1e-5 and not 1e-2."""
    network, batch = toy_network(TWO).float(), toy_batch(TWO)
    batch = type(batch)({k: v.float() for k, v in batch.inputs.items()}, batch.target, batch.present, batch.index)
    method = prepared("ogm_ge", network, noise=False).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = deepcopy(network)(batch.inputs).features
        gradients(method, network, batch, 1, Surgery())
    score, bias = {}, network.fusion.linear.bias.detach().double() / 2
    for name, value in features.items():
        logits = value.detach().double() @ network.fusion.block(name).detach().double().T + bias
        score[name] = float(logits.softmax(dim=1)[range(8), batch.target].sum())
    ratio = max(score.values()) / min(score.values())
    assert min(method.diagnostics().values()) == pytest.approx(1 - math.tanh(0.8 * ratio), rel=1e-5)


def test_a_confidence_that_vanished_is_not_divided_by():
    scores = torch.tensor([[5.0, 5.0, 5.0], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]])
    torch.testing.assert_close(discrepancies(scores), torch.tensor([2.5, 1.0, 0.4]))


def test_modalities_that_never_meet_are_not_compared():
    scores = pair_scores(torch.randn(2, 2, 4), torch.tensor([0, 1]), torch.eye(2).bool())
    assert (discrepancies(scores) == 1).all()


def test_a_skipped_step_leaves_no_scores_behind():
    """Scores of a step whose surgery never came must not leak into the next."""
    network, method = network_of(noise=False)
    other = deepcopy(network)
    surgery, batch = Dividing(), toy_batch(TWO, seed=1)
    method.step(network, toy_batch(TWO), surgery.backward, surgery)
    network.zero_grad()
    for buffer, fresh in zip(network.buffers(), other.buffers(), strict=True):
        buffer.copy_(fresh)
    gradients(method, network, batch, 1, surgery)
    clean = prepared("ogm_ge", other, noise=False)
    gradients(clean, other, batch, 1, surgery)
    assert method.diagnostics() == clean.diagnostics()


@pytest.mark.parametrize(("tensors", "lowest"), [("auto", 2), ("matrices", 2)])
def test_encoders_without_convolutions_have_their_matrices_damped(tensors, lowest):
    shapes = {"image": (12,), "smell": (6,)}
    network = toy_network(shapes)
    method = prepared("ogm_ge", network, noise=False, tensors=tensors)
    plain, batch = deepcopy(network), toy_batch(shapes)
    gradients(prepared("joint", plain), plain, batch, 1, Surgery())
    gradients(method, network, batch, 1, Surgery())
    for (name, mine), theirs in zip(network.encoders.named_parameters(), plain.encoders.parameters(), strict=True):
        factor = method.diagnostics()[f"coefficient/{name.split('.')[0]}"]
        factor = factor if mine.dim() >= lowest else 1.0
        torch.testing.assert_close(mine.grad, factor * theirs.grad, rtol=1e-6, atol=0)


def test_sum_fusion_has_block_logits_too():
    network = toy_network(TWO, fusion="sum")
    method = prepared("ogm_ge", network)
    assert_trains(method, network, toy_batches(3, shapes=TWO))
    assert min(method.diagnostics().values()) < 1


def test_a_frozen_encoder_is_left_alone():
    network = toy_network(TWO)
    network.encoders["image"].requires_grad_(False)
    method, start = prepared("ogm_ge", network), weights(network)
    train(method, network, toy_batches(2, shapes=TWO))
    assert all(
        torch.equal(p, start[f"encoders.image.{name}"]) for name, p in network.encoders["image"].named_parameters()
    )


def test_what_cannot_be_modulated_is_an_error():
    with pytest.raises(
        ValueError, match=r"OGMGE needs logits that are a sum over modalities, .* fuses with Gated; use"
    ):
        prepared("ogm_ge", toy_network(TWO, fusion="gated"))
    with pytest.raises(
        ValueError, match=r"finds nothing to damp in the encoder of modality 'image' .* tensors='matrices'"
    ):
        prepared("ogm_ge", toy_network({"image": (12,)}), tensors="convolutions")
    with pytest.raises(ValueError, match=r"Unknown `tensors`: 'matrix'\. Did you mean 'matrices'\?"):
        build_method("ogm_ge", tensors="matrix")
    with pytest.raises(ValueError, match=r"`end` 1 is before `start` 3"):
        build_method("ogm_ge", start=3, end=1)
    with pytest.raises(ValueError, match=r"`alpha` must be a finite number zero or more, got -0.1"):
        build_method("ogm_ge", alpha=-0.1)
