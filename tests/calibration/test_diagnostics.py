import math

import pytest
import torch
from torch.testing import assert_close

from evigrad.calibration import Diagnostics, Opinion, Trace, Update
from tests.oracles import evidence as oracle
from tests.oracles.problems import criterion_for, make_batch, masks
from tests.oracles.update import Naive
from tests.properties.criterion import uniform_gradients

ABSENT = {"audio": [1], "video": [0, 2]}


def step(**readings):
    """Diagnostics of one step, and what the naive update finds at it."""
    batch = make_batch({"audio": 3, "video": 2}, absent=ABSENT)
    criterion = criterion_for(batch, **readings)
    leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
    out = criterion(leaves, batch.target, masks(batch))
    out.loss.backward()
    naive = Naive(**readings)
    naive.observe(batch)
    return batch, criterion, leaves, out.diagnostics, naive.sources(batch)


def opinions(sources, name, t):
    return oracle.opinion(sources.own[name][t][1], 0.5), oracle.opinion(sources.joint[name][t][1], 0.5)


def there(batch, name):
    return [t for t, here in enumerate(batch.present[name]) if here]


def test_conflict_is_the_cosine_of_the_two_plain_gradients():
    batch, _, _, diagnostics, sources = step(unimodal_weight=0.3)
    for name, got in diagnostics.conflict.items():
        for t in range(batch.size):
            if t not in there(batch, name):
                assert math.isnan(got[t])
                continue
            first, second = sources.plain_own[name][t], sources.plain_joint[name][t]
            dot = sum(a * b for a, b in zip(first, second, strict=True))
            assert got[t].item() == pytest.approx(dot / math.hypot(*first) / math.hypot(*second))


def test_conflict_mass_is_dempsters_c():
    batch, _, _, diagnostics, sources = step()
    for name, got in diagnostics.conflict_mass.items():
        for t in there(batch, name):
            (b, _), (c, _) = opinions(sources, name, t)
            assert got[t].item() == pytest.approx(oracle.conflict(b, c))
        assert got.isnan().sum() == batch.size - len(there(batch, name))


def test_uncertainty_is_the_mean_over_the_samples_that_have_the_modality():
    batch, _, _, diagnostics, sources = step()
    for name, got in diagnostics.uncertainty.items():
        pairs = [opinions(sources, name, t) for t in there(batch, name)]
        for source, which in (("unimodal", 0), ("joint", 1)):
            wanted = sum(pair[which][1] for pair in pairs) / len(pairs)
            assert got[source].item() == pytest.approx(wanted)


@pytest.mark.parametrize("weights", ["printed", "source"])
def test_share_is_each_sources_part_of_the_weight(weights):
    batch, _, _, diagnostics, sources = step(weights=weights)
    for name, got in diagnostics.share.items():
        shares = []
        for t in there(batch, name):
            (b, u), (c, v) = opinions(sources, name, t)
            own, joint = oracle.weigh(weights, b, u, c, v)
            shares.append(sum(own) / (sum(own) + sum(joint)))
        assert got["unimodal"].item() == pytest.approx(sum(shares) / len(shares))
        assert got["unimodal"] + got["joint"] == pytest.approx(1)


def test_share_of_equal_evidence_is_a_half():
    *_, diagnostics, _ = step(evidence_power=0.0)
    for got in diagnostics.share.values():
        assert_close(got["unimodal"], torch.tensor(0.5).double())


def test_sign_changed_is_the_fraction_of_dimensions_that_turned():
    batch, criterion, leaves, diagnostics, _ = step(fusion="head", centre="newton")
    plain = uniform_gradients(criterion, batch, "cross_entropy", 1.0)
    turned = 0.0
    for name, got in diagnostics.sign_changed.items():
        rows = there(batch, name)
        wanted = (leaves[name].grad * plain[name] < 0)[rows].double().mean()
        assert got.item() == pytest.approx(wanted.item())
        turned += wanted
    assert turned > 0  # the Newton centre turns some, or the test says nothing


def test_equal_evidence_changes_no_sign():
    *_, diagnostics, _ = step(evidence_power=0.0)
    assert all(value == 0 for value in diagnostics.sign_changed.values())


def test_summary_has_a_number_for_everything():
    *_, diagnostics, _ = step()
    summary = diagnostics.summary()
    kinds = ["conflict", "conflict_mass", "uncertainty/unimodal", "uncertainty/joint"]
    kinds += ["share/unimodal", "share/joint", "sign_changed"]
    assert set(summary) == {f"{name}/{kind}" for name in ("audio", "video") for kind in kinds}
    assert all(isinstance(value, float) and math.isfinite(value) for value in summary.values())
    assert summary["audio/conflict"] == pytest.approx(float(diagnostics.conflict["audio"].nanmean()), rel=1e-5)
    assert summary["video/share/joint"] == pytest.approx(float(diagnostics.share["video"]["joint"]), rel=1e-5)


def test_nothing_calibrated_is_empty():
    empty = Diagnostics()
    assert empty.conflict == empty.conflict_mass == empty.uncertainty == empty.share == empty.sign_changed == {}
    assert empty.summary() == {}
    batch = make_batch({"audio": 3})
    assert criterion_for(batch)(batch.features, batch.target).diagnostics.summary() == {}


def test_a_modality_that_nobody_has_is_nan():
    batch = make_batch({"audio": 3, "video": 2}, absent={"video": [0, 1, 2, 3]})
    leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
    diagnostics = criterion_for(batch)(leaves, batch.target, masks(batch)).diagnostics
    summary = diagnostics.summary()
    assert math.isnan(summary["video/conflict"])
    assert math.isnan(summary["video/share/joint"])
    assert math.isfinite(summary["audio/conflict"])


def test_an_absent_modality_has_no_opinion():
    """b = 0 and u = 1, the vacuous one, in the rows of samples that lack it and nowhere else."""
    batch, _, _, diagnostics, _ = step()
    for name, trace in diagnostics.traces.items():
        here = torch.tensor(batch.present[name])
        own = trace.update.unimodal
        assert (own.belief[~here] == 0).all()
        assert (own.uncertainty[~here] == 1).all()
        assert (own.uncertainty[here] < 1).all()


def test_zero_gradients_do_not_conflict():
    batch = make_batch({"audio": 3})
    for weight, bias in (batch.heads["audio"], batch.joint):
        weight.zero_()
        bias.zero_()
    leaf = batch.features["audio"].clone().requires_grad_()
    assert (criterion_for(batch)({"audio": leaf}, batch.target).diagnostics.conflict["audio"] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-10, 1.0, 1e10, 1e20])
def test_conflict_is_free_of_scale(scale, dtype):
    """Late in training gradients are tiny: the angle between them is still what it is."""
    draw = torch.Generator().manual_seed(0)
    first, second = (torch.randn(3, 4, generator=draw).to(dtype) for _ in "12")
    masses = Opinion(torch.zeros(3, 4))
    combined = Update(first, masses, masses, first, second)
    trace = Trace(scale * first, scale * second, combined, first, torch.ones(3, dtype=torch.bool))
    for got, one, two in zip(Diagnostics({"a": trace}, (3,)).conflict["a"], first, second, strict=True):
        dot = sum(a * b for a, b in zip(one.tolist(), two.tolist(), strict=True))
        assert got.item() == pytest.approx(dot / math.hypot(*one) / math.hypot(*two), rel=1e-5)  # float32
