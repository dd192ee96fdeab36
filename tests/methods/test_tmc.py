import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Dirichlet, kl_divergence
from torch.nn.functional import one_hot

from evigrad.methods import build_method
from evigrad.methods.tmc import combine_evidence, dirichlet_loss, evidence, kl_to_uniform, opinion
from evigrad.networks import NoFusion
from tests.properties.methods import (
    assert_a_batch_without_a_modality_leaves_its_encoder,
    assert_absent_inputs_are_ignored,
    assert_equals_reference,
    assert_micro_batches_add_up,
    assert_odd_batches_do_no_harm,
    assert_order_is_irrelevant,
    assert_resumes,
    assert_trains,
)
from tests.properties.toys import SHAPES, prepared, sgd, toy_batch, toy_batches, toy_network

EVIDENCE = st.integers(0, 2**31).map(
    lambda seed: torch.rand(3, 5, 4, generator=torch.Generator().manual_seed(seed)).double().pow(-2) - 1
)


def dempster(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Evidence of two combined opinions by the published quotient, with loops over classes."""
    (b1, u1), (b2, u2) = opinion(first), opinion(second)
    classes = first.shape[1]
    conflict = sum(b1[:, i] * b2[:, j] for i in range(classes) for j in range(classes) if i != j)
    belief = torch.stack(
        [(b1[:, k] * b2[:, k] + b1[:, k] * u2 + b2[:, k] * u1) / (1 - conflict) for k in range(classes)], dim=1
    )
    doubt = u1 * u2 / (1 - conflict)
    torch.testing.assert_close(belief.sum(dim=1) + doubt, torch.ones_like(doubt))
    return belief * (classes / doubt)[:, None]


@given(EVIDENCE)
def test_closed_form_equals_the_published_fold(views):
    """Check (b)."""
    torch.testing.assert_close(
        combine_evidence(list(views)), dempster(dempster(views[0], views[1]), views[2]), rtol=1e-8, atol=1e-8
    )


@given(EVIDENCE)
def test_combination_is_a_commutative_monoid(views):
    """Check (a)."""
    first, second, third = views
    together = combine_evidence([first, second])
    torch.testing.assert_close(combine_evidence([second, first]), together)
    left, right = combine_evidence([together, third]), combine_evidence([first, combine_evidence([second, third])])
    torch.testing.assert_close(left, right)
    torch.testing.assert_close(combine_evidence([first, torch.zeros_like(first)]), first)


@given(EVIDENCE)
def test_opinions_sum_to_one_and_never_grow_less_certain(views):
    belief, doubt = opinion(views[0])
    torch.testing.assert_close(belief.sum(dim=1) + doubt, torch.ones(5).double())
    least = torch.stack([opinion(view)[1] for view in views]).min(dim=0).values
    assert (opinion(combine_evidence(list(views)))[1] <= least * (1 + 1e-12)).all()


def test_confident_conflict_stays_finite():
    first = torch.tensor([[1e12, 0.0]], requires_grad=True)
    combined = combine_evidence([first, torch.tensor([[0.0, 1e12]])])
    dirichlet_loss(combined, torch.tensor([0]), 1.0).sum().backward()
    assert combined.isfinite().all()
    assert first.grad.isfinite().all()


@pytest.mark.parametrize("classes", [2, 6, 10])
def test_loss_without_evidence_is_a_harmonic_sum(classes):
    """Check (c): for six classes 2.28333."""
    value = dirichlet_loss(torch.zeros(1, classes).double(), torch.tensor([1]), 0.0)
    assert float(value) == pytest.approx(sum(1 / k for k in range(1, classes)), rel=1e-12)


@given(EVIDENCE)
def test_loss_is_the_expected_cross_entropy_and_the_penalty_a_divergence(views):
    """Against torch.distributions."""
    alpha, target = views[0] + 1, torch.tensor([0, 1, 2, 3, 0])
    expected = Dirichlet(alpha)
    penalty = kl_divergence(expected, Dirichlet(torch.ones_like(alpha)))
    torch.testing.assert_close(kl_to_uniform(alpha), penalty, rtol=1e-7, atol=1e-9)
    strength = alpha.sum(dim=1)
    cross_entropy = strength.digamma() - alpha[range(5), target].digamma()
    wrong = alpha.clone()
    wrong[range(5), target] = 1.0
    both = cross_entropy + 0.3 * kl_divergence(Dirichlet(wrong), Dirichlet(torch.ones_like(alpha)))
    torch.testing.assert_close(dirichlet_loss(views[0], target, 0.3), both, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_the_gradient_keeps_its_digits_where_every_class_has_evidence(size):
    """∂ℓ/∂α_k by the trigamma functions of the formula; float32 throughout would miss it by 39 % at 1e4."""
    views = size * (1 + torch.arange(12.0).reshape(3, 4) / 12)
    target = torch.tensor([0, 2, 3])
    leaf = views.clone().requires_grad_()
    dirichlet_loss(leaf, target, 1.0).sum().backward()
    trigamma = partial(torch.polygamma, 1)
    alpha = views.double() + 1
    right = one_hot(target, 4).double()
    wrong = right + (1 - right) * alpha
    expected = trigamma(alpha.sum(1, keepdim=True)) - right * trigamma(alpha)
    excess = (wrong - 1).sum(1, keepdim=True)
    expected += (1 - right) * ((wrong - 1) * trigamma(wrong) - excess * trigamma(wrong.sum(1, keepdim=True)))
    # the two sums are of float32 numbers
    torch.testing.assert_close(leaf.grad.double(), expected, rtol=1e-5, atol=1e-7 * float(expected.abs().max()))


def test_expected_cross_entropy_by_sampling():
    torch.manual_seed(0)
    alpha = torch.tensor([3.0, 1.5, 1.0])
    sampled = -Dirichlet(alpha).sample((200_000,))[:, 0].log().mean()
    assert float(dirichlet_loss(alpha[None] - 1, torch.tensor([0]), 0.0)) == pytest.approx(float(sampled), abs=5e-3)


def test_penalty_is_zero_only_without_wrong_evidence():
    """Check (c)."""
    right_only, wrong = torch.tensor([[7.0, 0.0, 0.0]]), torch.tensor([[7.0, 0.1, 0.0]])
    label = torch.tensor([0])
    assert dirichlet_loss(right_only, label, 1.0) == dirichlet_loss(right_only, label, 0.0)
    assert dirichlet_loss(wrong, label, 1.0) > dirichlet_loss(wrong, label, 0.0)


def test_annealing_goes_from_zero_to_one():
    """Check (d); epochs from 0, never stepped per batch."""
    method, seen = build_method("tmc", annealing=4), []
    for epoch in range(7):
        method.start_epoch(epoch)
        seen.append(method.penalty)
    assert seen == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert build_method("tmc", annealing=0).penalty == 1.0


def by_hand(network, batches, pseudo_view):
    """The whole method from its formulas, with softplus, the published fold and torch.distributions."""
    optimizer = sgd(network)
    for batch in batches:
        optimizer.zero_grad()
        features = {name: encoder(batch.inputs[name]) for name, encoder in network.encoders.items()}
        views = [torch.log1p(network.heads[name](value).exp()) for name, value in features.items()]
        if pseudo_view:
            views.append(torch.log1p(network.fusion.linear(torch.cat(list(features.values()), dim=1)).exp()))
        combined = views[0]
        for view in views[1:]:
            combined = dempster(combined, view)
        total = torch.zeros(8, dtype=torch.float64)
        for view in [*views, combined]:
            alpha, wrong = view + 1, (view + 1).scatter(1, batch.target[:, None], 1.0)
            right = alpha.gather(1, batch.target[:, None])[:, 0]
            total = total + alpha.sum(dim=1).digamma() - right.digamma()
            total = total + 0.5 * kl_divergence(Dirichlet(wrong), Dirichlet(torch.ones_like(wrong)))
        total.mean().backward()
        optimizer.step()


@pytest.mark.parametrize("pseudo_view", [False, True])
def test_training_equals_the_formulas(pseudo_view):
    """Three optimizer steps in epoch 1 of T = 2, so with λ = ½."""
    network = toy_network()
    method = prepared("tmc", network, annealing=2, pseudo_view=pseudo_view)
    start = method.start_epoch
    method.start_epoch = lambda _: start(1)
    assert_equals_reference(method, network, lambda n, b: by_hand(n, b, pseudo_view), toy_batches(3), exact=False)


def test_an_absent_view_is_vacuous_and_has_no_loss():
    network, batch = toy_network(), toy_batch()
    method = prepared("tmc", network)
    method.start_epoch(5)
    batch.present["words"][:] = False
    output = network(batch.inputs, batch.present)
    views = {name: evidence(output.unimodal_logits[name]) for name in ("sound", "image")}
    combined = combine_evidence(views.values())
    expected = sum(dirichlet_loss(view, batch.target, 0.5).mean() for view in (*views.values(), combined))
    torch.testing.assert_close(method.loss(output, batch), expected)
    alpha = combined + 1
    torch.testing.assert_close(method.predict(output, batch.present), alpha / alpha.sum(dim=1, keepdim=True))
    nothing = {name: torch.zeros(8, dtype=torch.bool) for name in SHAPES}
    assert (method.uncertainty(output, nothing) == 1).all()
    assert (method.predict(output, nothing) == 0.25).all()


@torch.no_grad()
def test_diagnostics_are_means_over_the_samples_that_have_the_view():
    network, batch = toy_network(), toy_batch(missing=0.5)
    method = prepared("tmc", network)
    output = network(batch.inputs, batch.present)
    method.loss(output, batch)
    for name, mask in batch.present.items():
        logits = output.unimodal_logits[name][mask]
        doubts = [4 / (4 + sum(math.log1p(math.exp(value)) for value in row)) for row in logits.tolist()]
        assert method.diagnostics()[f"uncertainty/{name}"] == pytest.approx(sum(doubts) / len(doubts))
    assert 0 < len(doubts) < 8


def test_the_pseudo_view_has_the_properties_of_every_method():
    assert_order_is_irrelevant("tmc", SHAPES, pseudo_view=True)
    assert_resumes("tmc", pseudo_view=True)
    assert_absent_inputs_are_ignored("tmc", pseudo_view=True)
    assert_micro_batches_add_up("tmc", pseudo_view=True)
    assert_a_batch_without_a_modality_leaves_its_encoder("tmc", pseudo_view=True)
    assert_odd_batches_do_no_harm("tmc", pseudo_view=True)


def test_trains_only_what_it_uses():
    network = toy_network()
    method = prepared("tmc", network)
    assert isinstance(network.fusion, NoFusion)
    assert_trains(method, network, toy_batches(3))
    assert all(0 < value < 1 for value in method.diagnostics().values())
    enhanced = toy_network()
    assert_trains(prepared("tmc", enhanced, pseudo_view=True), enhanced, toy_batches(3))


def test_half_precision_logits_are_widened():
    network, batch = toy_network().float(), toy_batch()
    inputs = {name: value.float() for name, value in batch.inputs.items()}
    method = prepared("tmc", network).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(inputs)
        assert output.unimodal_logits["image"].dtype == torch.bfloat16
        loss = method.loss(output, batch)
    assert loss.dtype == torch.float32
    assert math.isfinite(loss.detach())


def test_refuses_negative_annealing():
    with pytest.raises(ValueError, match="`annealing` must be a finite number zero or more, got -1"):
        build_method("tmc", annealing=-1)
