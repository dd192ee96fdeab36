"""Section 8 of the method sheet, on random problems and for every reading that the property speaks of."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import combine, moments, posterior
from tests.oracles.problems import calibrated, criterion_for, learn, linear, make_batch, masks
from tests.oracles.update import Batch
from tests.properties.criterion import (
    assert_dimensions_permute,
    assert_equal_evidence_is_uniform_training,
    assert_finite,
    assert_heads_train_as_usual,
    assert_modalities_permute,
    assert_outer_factor_passes_through,
    assert_same_gradients,
    assert_samples_permute,
    per_sample,
    plain_loss,
    uniform_gradients,
)
from tests.properties.opinions import assert_is_opinion

LOSSES = ["cross_entropy", "binary", "square"]
POSTERIORS = [
    (posterior, curvature)
    for posterior, curvature in itertools.product(["kronecker", "diagonal", "full", "lowrank"], ["batch", "running"])
    if (posterior, curvature) != ("lowrank", "running")
]
WIDTHS = {"audio": 3, "video": 2, "text": 4, "depth": 1, "touch": 3, "smell": 2}


@st.composite
def problems(draw, loss="cross_entropy", most=4, equal=False):
    """1 to ``most`` modalities of different widths, some absent here and there, with and without bias."""
    names = list(WIDTHS)[: draw(st.integers(1, most))]
    size = draw(st.integers(1, 5))
    absent = {name: draw(st.lists(st.integers(0, size - 1), max_size=2)) for name in names}
    return make_batch(
        {name: 3 if equal else WIDTHS[name] for name in names},
        loss,
        classes=draw(st.integers(2, 4)),
        size=size,
        bias=draw(st.booleans()),
        seed=draw(st.integers(0, 10_000)),
        absent=absent,
    )


def some(data, loss, **options) -> Batch:
    return data.draw(problems(loss, **options))


few = settings(max_examples=8)


@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
@few
def test_1_equal_evidence_is_uniform_training(loss, posterior, curvature, data):
    weight = data.draw(st.sampled_from([1.0, 0.3]))
    for weights, reference in itertools.product(["printed", "source"], ["none", "power"]):
        assert_equal_evidence_is_uniform_training(
            some(data, loss),
            loss,
            posterior=posterior,
            curvature=curvature,
            weights=weights,
            reference=reference,
            unimodal_weight=weight,
        )


@pytest.mark.parametrize("structure", ["kronecker", "diagonal", "full", "lowrank"])
@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
@few
def test_2_narrow_posterior_gives_the_point_gradient(loss, structure, data):
    """With prior precision τ the mean is off by O(τ^-1/2), the variance falls as 1/τ."""
    batch = some(data, loss, most=1)
    head, features = linear(batch.heads["audio"]), batch.features["audio"]
    wanted = point_gradients(head, batch, loss)
    wide, narrow = (
        moments(
            posterior(head, features, structure, loss, precision),
            head,
            features,
            batch.target,
            loss,
            "monte_carlo",
            40,
            torch.Generator().manual_seed(0),
        )
        for precision in (1e6, 1e10)
    )
    torch.testing.assert_close(narrow.mean, wanted, rtol=0, atol=1e-2 * float((wide.mean - wanted).abs().max()) * 1.1)
    torch.testing.assert_close(narrow.variance, 1e-4 * wide.variance, rtol=0.05, atol=0)
    assert narrow.variance.max() < 1e-8 * (1 + wanted.square().max())


def point_gradients(head, batch, loss):
    leaf = batch.features["audio"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(per_sample(loss, head(leaf), batch.target).sum(), leaf)
    return gradient


@pytest.mark.parametrize("fusion", ["head", "average"])
@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
@few
def test_3_heads_train_as_usual(loss, fusion, data):
    for name, curvature in POSTERIORS:
        batch = some(data, loss, equal=fusion == "average")
        assert_heads_train_as_usual(
            batch, loss, posterior=name, curvature=curvature, fusion=fusion, unimodal_weight=0.7
        )


DETERMINISTIC = list(itertools.product(["head", "average"], ["printed", "source"], ["batch", "sample"]))


LARGE = [  # factors of the features and of the weights, and s: where float32 has no exponents left
    (1.0, 1e13, 2.0), (1.0, 1e17, 2.0), (1.0, 1e18, 0.5), (1.0, 1e20, 1.0), (1e19, 1.0, 0.5), (1e20, 1.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("power", [0.0, 0.01, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("scale", [1e-18, 1e-9, 1.0, 1e9, 1e18])
@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
def test_4_gradients_stay_finite_and_opinions_sound(posterior, curvature, scale, power):
    """In float32, with features, weights or prior of any size that squares can hold; every opinion sums to one."""
    for features_by, weights_by, prior in ((scale, 1.0, 1.0), (1.0, scale, 1.0), (1.0, 1.0, scale)):
        for reference, weights in itertools.product(["none", "power"], ["printed", "source"]):
            if reference == "power" and power not in (0.5, 2.0):
                continue  # enough of it
            batch = make_batch({"audio": 3, "video": 1}, absent={"audio": [1]})
            readings = {"reference": reference, "weights": weights, "evidence_power": power, "prior_precision": prior}
            criterion = criterion_for(batch, posterior=posterior, curvature=curvature, **readings).float()
            with torch.no_grad():
                for parameter in criterion.parameters():
                    parameter.mul_(weights_by)
            leaves = {name: (value * features_by).float().requires_grad_() for name, value in batch.features.items()}
            out = criterion(leaves, batch.target, masks(batch))
            out.loss.backward()
            for name, trace in out.diagnostics.traces.items():
                assert leaves[name].grad.isfinite().all(), f"{name}: {leaves[name].grad}"
                assert_is_opinion(trace.update.unimodal)
                assert_is_opinion(trace.update.joint)
                assert_is_opinion(combine(trace.update.unimodal, trace.update.joint))


@pytest.mark.parametrize("weights", ["printed", "source"])
@pytest.mark.parametrize(("features_by", "weights_by", "power"), LARGE)
@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
def test_4_a_gradient_of_any_size_keeps_the_plain_norm(posterior, curvature, features_by, weights_by, power, weights):
    """In float32: neither beliefs too small for it nor variances too large for it may swallow a gradient."""
    batch = make_batch({"audio": 3, "video": 2})
    readings = {"evidence_power": power, "weights": weights, "scale": 1.5}
    criterion = criterion_for(batch, posterior=posterior, curvature=curvature, **readings).float()
    with torch.no_grad():
        for parameter in criterion.parameters():
            parameter.mul_(weights_by)
    leaves = {name: (value * features_by).float().requires_grad_() for name, value in batch.features.items()}
    criterion(leaves, batch.target).loss.backward()
    again = {name: value.detach().requires_grad_() for name, value in leaves.items()}
    plain_loss(criterion, batch, again, "cross_entropy", 1.0).backward()
    for name, value in leaves.items():
        norm = again[name].grad.double().norm()
        torch.testing.assert_close(value.grad.double().norm(), 1.5 * norm, rtol=1e-4, atol=0)  # float32


@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
@given(data=st.data())
@few
def test_5_permutations(posterior, curvature, data):
    fusion, weights, rescale = data.draw(st.sampled_from(DETERMINISTIC))
    loss = data.draw(st.sampled_from(LOSSES))
    batch = some(data, loss, equal=fusion == "average")
    readings = {
        "posterior": posterior,
        "curvature": curvature,
        "loss": loss,
        "fusion": fusion,
        "weights": weights,
        "rescale": rescale,
        "moments": data.draw(st.sampled_from(["linearized", "exact"] if loss == "square" else ["linearized"])),
        "reference": data.draw(st.sampled_from(["none", "power"])),
        "centre": data.draw(st.sampled_from(["weights", "newton"])),
    }
    order = data.draw(st.permutations(range(batch.size)))
    assert_samples_permute(batch, list(order), **readings)
    assert_dimensions_permute(batch, **readings)
    assert_modalities_permute(batch, **readings)


@given(batch=problems(), factor=st.sampled_from([0.25, 1 / 3, 7.0, 65536.0, -2.0]))
@settings(max_examples=25)
def test_6_an_outer_factor_passes_through(batch, factor):
    assert_outer_factor_passes_through(batch, factor)


@given(batch=problems(), count=st.integers(1, 3))
@few
def test_6_accumulation_sums_the_micro_batches(batch, count):
    """Gradients of several micro-batches add up, each divided as its loss is."""
    criterion = criterion_for(batch, curvature="batch")
    once = calibrated(criterion, batch)
    leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
    for _ in range(count):
        (criterion(leaves, batch.target, masks(batch)).loss / count).backward()
    assert_same_gradients({name: leaf.grad for name, leaf in leaves.items()}, once, tolerance=1e-12)


@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
@pytest.mark.parametrize(
    ("modalities", "classes", "size"),
    [(1, 2, 1), (6, 3, 4), (2, 2, 1), (3, 5, 2)],
    ids=["M=1", "M=6", "C=2", "C=5"],
)
def test_9_awkward_sizes(modalities, classes, size, posterior, curvature):
    names = list(WIDTHS)[:modalities]
    batch = make_batch({name: WIDTHS[name] for name in names}, classes=classes, size=size, seed=modalities)
    assert_finite(batch, posterior=posterior, curvature=curvature)


@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
def test_9_one_feature_and_one_output(posterior, curvature):
    """K = 1, where an opinion has a single dimension; C = 1, one binary output or one value."""
    for loss in ("binary", "square"):
        batch = make_batch({"audio": 1, "video": 1}, loss, classes=1)
        assert_finite(batch, loss=loss, posterior=posterior, curvature=curvature)
    assert_finite(make_batch({"audio": 1}), posterior=posterior, curvature=curvature)


@pytest.mark.parametrize("posterior", ["kronecker", "diagonal"])
def test_9_a_thousand_classes(posterior):
    assert_finite(make_batch({"audio": 3, "video": 2}, classes=1000, size=3), posterior=posterior)


@pytest.mark.parametrize("fusion", ["head", "average"])
@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
def test_9_a_modality_absent_from_the_whole_batch(posterior, curvature, fusion):
    """It gets no gradient, and the others get what they would if it had never been named."""
    readings = {"posterior": posterior, "curvature": curvature, "fusion": fusion, "rescale": "none"}
    batch = make_batch({"audio": 3, "video": 3}, absent={"video": [0, 1, 2, 3]})
    got = calibrated(criterion_for(batch, **readings), batch)
    assert (got["video"] == 0).all()
    alone = Batch(
        {"audio": batch.heads["audio"]},
        (batch.joint[0][:, :3], batch.joint[1]),
        {"audio": batch.features["audio"]},
        batch.target,
        {"audio": batch.present["audio"]},
    )
    assert_same_gradients({"audio": got["audio"]}, calibrated(criterion_for(alone, **readings), alone))
    left_out = Batch(batch.heads, batch.joint, {"audio": batch.features["audio"]}, batch.target, {})
    assert_same_gradients(calibrated(criterion_for(batch, **readings), left_out), {"audio": got["audio"]})


@pytest.mark.parametrize("fusion", ["head", "average"])
@pytest.mark.parametrize("centre", ["weights", "newton"])
@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
def test_9_every_modality_absent_from_the_whole_batch(posterior, curvature, centre, fusion):
    """The joint loss is that of its bias, no gradient flows, and the next batch finds the memory as it was."""
    readings = {"posterior": posterior, "curvature": curvature, "centre": centre, "fusion": fusion}
    everyone = list(range(4))
    batch = make_batch({"audio": 3, "video": 3}, absent={"audio": everyone, "video": everyone})
    criterion, fresh = criterion_for(batch, **readings), criterion_for(batch, **readings)
    for value in calibrated(criterion, batch).values():
        assert (value == 0).all()
    out = criterion(batch.features, batch.target, masks(batch))
    bias = batch.joint[1].expand(4, -1)
    torch.testing.assert_close(out.loss, per_sample("cross_entropy", bias, batch.target).mean())
    full = make_batch({"audio": 3, "video": 3})
    assert_same_gradients(calibrated(criterion, full), calibrated(fresh, full))


@pytest.mark.parametrize("rescale", ["batch", "sample", "none"])
@pytest.mark.parametrize("weights", ["printed", "source"])
@pytest.mark.parametrize("reference", ["none", "power"])
def test_9_an_all_zero_gradient_stays_zero(reference, weights, rescale):
    """Heads whose weights are all zero pass no gradient on, so there is none to calibrate."""
    batch = make_batch({"audio": 3, "video": 2})
    for weight, bias in (*batch.heads.values(), batch.joint):
        weight.zero_()
        bias.zero_()
    got = calibrated(criterion_for(batch, reference=reference, weights=weights, rescale=rescale), batch)
    for value in got.values():
        assert (value == 0).all()


@pytest.mark.parametrize(("posterior", "curvature"), POSTERIORS)
@pytest.mark.parametrize("moments", ["linearized", "monte_carlo"])
def test_9_dead_and_duplicated_features(moments, posterior, curvature):
    batch = make_batch({"audio": 4, "video": 3}, size=6)
    batch.features["audio"][:, 1] = 0
    batch.features["audio"][:, 3] = batch.features["audio"][:, 2]
    batch.features["video"].zero_()
    criterion = criterion_for(batch, posterior=posterior, curvature=curvature, moments=moments).float()
    for _ in range(3):
        leaves = {name: value.float().requires_grad_() for name, value in batch.features.items()}
        criterion(leaves, batch.target).loss.backward()
        assert all(leaf.grad.isfinite().all() for leaf in leaves.values())


def test_a_perfect_fit_has_finite_gradients():
    """A square loss at its minimum: every gradient is exactly zero, in any reading."""
    batch = make_batch({"audio": 3}, "square")
    batch.heads["audio"] = batch.joint
    weight, bias = batch.joint
    batch.target = batch.features["audio"] @ weight.T + bias
    for rescale, reference in itertools.product(["batch", "sample", "none"], ["none", "power"]):
        got = calibrated(
            criterion_for(batch, loss="square", moments="exact", rescale=rescale, reference=reference), batch
        )
        assert got["audio"].isfinite().all()


def test_learning_needs_no_gradient():
    """Posteriors learn from batches whose encoders are frozen; a later step uses what they saw."""
    batch = make_batch({"audio": 3, "video": 2})
    criterion, fresh = (criterion_for(batch, dataset_size=50) for _ in range(2))
    for seed in range(3):
        learn(criterion, make_batch({"audio": 3, "video": 2}, seed=seed))
    first, second = calibrated(criterion, batch), calibrated(fresh, batch)
    assert not torch.allclose(first["audio"], second["audio"], rtol=1e-4)


def test_uniform_oracle_is_the_sum_of_the_parts():
    """The reference of these tests against a sum of two separate backward passes."""
    batch = make_batch({"audio": 3, "video": 2}, absent={"audio": [1]})
    criterion = criterion_for(batch)
    whole = uniform_gradients(criterion, batch, "cross_entropy", 0.4)
    joint = uniform_gradients(criterion, batch, "cross_entropy", 0.0)
    both = uniform_gradients(criterion, batch, "cross_entropy", 1.0)
    for name, value in whole.items():
        torch.testing.assert_close(value, 0.6 * joint[name] + 0.4 * both[name])
        assert (value[[not here for here in batch.present[name]]] == 0).all()
