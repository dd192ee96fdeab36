import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evigrad.calibration import CalibratedLoss, Moments
from evigrad.calibration.engine import average
from tests.oracles.problems import (
    calibrated,
    criterion_for,
    learn,
    make_batch,
    recorded_roots,
    root_names,
)
from tests.oracles.update import Batch, Naive, naive_update
from tests.properties.criterion import assert_same_gradients

LOSSES = ["cross_entropy", "binary", "square"]
POSTERIORS = [
    (posterior, curvature)
    for posterior, curvature in itertools.product(["full", "kronecker", "diagonal", "lowrank"], ["batch", "running"])
    if (posterior, curvature) != ("lowrank", "running")
]
HEADS = [  # what decides on the moments of the two sources
    {
        "loss": loss,
        "posterior": posterior,
        "curvature": curvature,
        "centre": centre,
        "moments": moments,
        "fusion": fusion,
    }
    for loss, (posterior, curvature), centre, moments, fusion in itertools.product(
        LOSSES, POSTERIORS, ["weights", "newton"], ["linearized", "monte_carlo", "exact"], ["head", "average"]
    )
    if moments != "exact" or loss == "square"
]
TAILS = [  # what becomes of them
    {"reference": reference, "weights": weights, "rescale": rescale}
    for reference, weights, rescale in itertools.product(
        ["none", "power"], ["printed", "source"], ["batch", "sample", "none"]
    )
]
SHAPES = list(itertools.product([1, 2, 3], [True, False]))  # modalities, bias
WIDTHS = {"audio": 3, "video": 2, "text": 4}
ABSENT = [{"audio": [2]}, {"audio": [0], "video": [1]}, {"audio": [0], "video": [0, 1], "text": [3]}]
SETTINGS = {"draws": 5, "unimodal_weight": 0.7, "decay": 0.9, "prior_precision": 2.5, "scale": 1.3}


def name_of(readings: dict[str, object]) -> str:
    return "-".join(str(value) for value in readings.values())


def batches(loss: str, fusion: str, modalities: int, bias: bool) -> tuple[Batch, Batch]:
    """Two steps with different weights, samples and absences."""
    widths = dict(itertools.islice(WIDTHS.items(), modalities))
    if fusion == "average":
        widths = dict.fromkeys(widths, 3)
    first = make_batch(widths, loss, bias=bias, seed=1, size=3)
    return first, make_batch(widths, loss, bias=bias, seed=2, absent=ABSENT[modalities - 1])


def assert_equals_naive(head: dict, tails: list[dict], modalities: int, bias: bool) -> None:
    """The criterion after two steps against the naive update, for each way to finish."""
    before, batch = batches(head["loss"], head["fusion"], modalities, bias)
    # A variance floor that binds in some dimensions, a data set size: once with, once without.
    readings = head | SETTINGS | {"variance_floor": 1e-6 if bias else 0.3, "dataset_size": 20 if bias else None}
    naive = Naive(**readings)
    naive.observe(before)
    naive.observe(batch)
    sources = None
    for tail in tails:
        with recorded_roots(head["posterior"], root_names(batch, head["fusion"])) as roots:
            criterion = criterion_for(before, generator=torch.Generator().manual_seed(3), **readings | tail)
            learn(criterion, before)
            got = calibrated(criterion, batch)
        if sources is None:
            sources = naive.sources(batch, roots, torch.Generator().manual_seed(3))
        naive.r |= tail
        assert_same_gradients(got, naive.gradients(batch, sources), tolerance=1e-9)


@pytest.mark.parametrize(("number", "head"), list(enumerate(HEADS)), ids=map(name_of, HEADS))
def test_every_combination_of_readings_equals_the_naive_update(number, head):
    """2,352 combinations; the six shapes (one to three modalities, with and without bias) take turns."""
    assert_equals_naive(head, TAILS[::2], *SHAPES[number % 6])
    assert_equals_naive(head, TAILS[1::2], *SHAPES[(number + 3) % 6])


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS, ids=map(name_of, HEADS))
@pytest.mark.parametrize(("modalities", "bias"), SHAPES)
def test_every_combination_in_every_shape_equals_the_naive_update(modalities, bias, head):
    """14,112 combinations."""
    assert_equals_naive(head, TAILS, modalities, bias)


def test_the_combinations_are_all_there():
    assert len(HEADS) * len(TAILS) == (2 * 2 + 3) * 7 * 2 * 2 * 12 == 2352


@pytest.mark.parametrize("dataset_size", [None, 50])
@pytest.mark.parametrize("centre", ["weights", "newton"])
@pytest.mark.parametrize("posterior", ["full", "kronecker", "diagonal"])
def test_a_run_of_steps_equals_the_naive_run(posterior, centre, dataset_size):
    """Six steps with moving weights and absences; the posterior is renewed at 1, 2, 4 and 6, as `refresh=2` says."""
    # A strong prior keeps the Newton steps short: where all predictions saturate, p − y is nothing but rounding.
    readings = {"posterior": posterior, "centre": centre, "dataset_size": dataset_size, "prior_precision": 10.0}
    readings |= {"refresh": 2, "decay": 0.7}
    patterns = [{}, {"video": [0, 1, 2, 3]}, {"audio": [0]}, {}, {"audio": [0, 1, 2, 3]}, {"video": [2]}]
    steps = [make_batch({"audio": 3, "video": 2}, seed=seed, absent=one) for seed, one in enumerate(patterns)]
    criterion, naive = criterion_for(steps[0], **readings), Naive(**readings)
    for batch in steps:
        naive.observe(batch)
        wanted = naive.gradients(batch, naive.sources(batch))
        assert_same_gradients(calibrated(criterion, batch), wanted, tolerance=1e-9)


@given(seed=st.integers(0, 10_000), size=st.integers(1, 5), classes=st.integers(2, 4), data=st.data())
@settings(max_examples=15)
def test_random_problems_equal_the_naive_update(seed, size, classes, data):
    """Four modalities, presence at random: some samples have none, some modalities no sample."""
    samples = st.lists(st.integers(0, size - 1), max_size=2 * size)
    widths = {"audio": 2, "video": 1, "text": 3, "depth": 2}
    absent = {name: data.draw(samples) for name in widths}
    batch = make_batch(widths, classes=classes, size=size, seed=seed, absent=absent)
    readings = {
        "fusion": "head",
        "curvature": "batch",
        "posterior": data.draw(st.sampled_from(["full", "kronecker", "diagonal", "lowrank"])),
        "reference": data.draw(st.sampled_from(["none", "power"])),
        "evidence_power": data.draw(st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.0])),
        "unimodal_weight": data.draw(st.sampled_from([0.2, 1.0, 3.0])),
        "variance_floor": data.draw(st.sampled_from([0.0, 1e-6, 0.5])),
    }
    wanted = naive_update(batch, **readings)
    assert_same_gradients(calibrated(criterion_for(batch, **readings), batch), wanted, tolerance=1e-9)


def test_float32_is_near_the_naive_update():
    """With the defaults and the module as it comes."""
    batch = make_batch({"audio": 3, "video": 2})
    criterion = criterion_for(batch).float()
    leaves = {name: value.float().requires_grad_() for name, value in batch.features.items()}
    out = criterion(leaves, batch.target)
    got = torch.autograd.grad(out.loss, list(leaves.values()))
    wanted = naive_update(batch)
    assert_same_gradients({name: g.double() for name, g in zip(leaves, got, strict=True)}, wanted, tolerance=1e-4)


def test_the_defaults_are_the_oracles():
    """So that a default that moves is seen here."""
    batch = make_batch({"audio": 3, "video": 2})
    known = Naive().r
    used = criterion_for(batch).calibration.readings
    assert {name: getattr(used, name) for name in known} == known


def test_positions_are_samples():
    """[B, T, K] features with a target at every position equal [B·T, K]; a mask [B] holds for all of a sample."""
    batch = make_batch({"audio": 3, "video": 2}, size=6, absent={"audio": [2, 3]})
    flat = calibrated(criterion_for(batch), batch)
    criterion = criterion_for(batch)
    leaves = {name: value.view(3, 2, -1).clone().requires_grad_() for name, value in batch.features.items()}
    present = {"audio": torch.tensor([True, False, True])}
    out = criterion(leaves, batch.target.view(3, 2), present)
    got = torch.autograd.grad(out.loss, list(leaves.values()))
    assert_same_gradients({name: g.flatten(0, 1) for name, g in zip(leaves, got, strict=True)}, flat)
    assert out.joint_logits.shape == (3, 2, 3)
    assert out.diagnostics.conflict["audio"].shape == (3, 2)


def test_only_those_that_ask_get_a_gradient():
    """A frozen encoder changes nothing for the others."""
    batch = make_batch({"audio": 3, "video": 2})
    both = calibrated(criterion_for(batch), batch)
    leaf = batch.features["video"].clone().requires_grad_()
    out = criterion_for(batch)({"audio": batch.features["audio"], "video": leaf}, batch.target)
    (got,) = torch.autograd.grad(out.loss, [leaf])
    assert_same_gradients({"video": got}, {"video": both["video"]})
    assert list(out.diagnostics.traces) == ["video"]


def test_evaluation_learns_nothing_and_calibrates_the_same():
    first, second = (make_batch({"audio": 3, "video": 2}, seed=seed) for seed in (0, 1))
    criterion = criterion_for(first)
    learn(criterion, first)
    state = {name: value.clone() for name, value in criterion.state_dict().items() if "calibration" in name}
    criterion.eval()
    got = calibrated(criterion, second)
    for name, value in criterion.state_dict().items():
        if "calibration" in name:
            assert torch.equal(value, state[name])
    naive = Naive()
    naive.observe(first)
    assert_same_gradients(got, naive.gradients(second, naive.sources(second)), tolerance=1e-9)


def test_a_checkpoint_carries_the_posterior():
    batches = [make_batch({"audio": 3, "video": 2}, seed=seed) for seed in range(4)]
    readings = {"dataset_size": 30, "refresh": 3}
    criterion = criterion_for(batches[0], **readings)
    for batch in batches[:3]:
        learn(criterion, batch)
    resumed = criterion_for(batches[0], **readings)
    resumed.load_state_dict(criterion.state_dict())
    for _ in range(3):  # over the next renewal: the clock goes on too
        first, second = calibrated(criterion, batches[3]), calibrated(resumed, batches[3])
        assert_same_gradients(second, first, tolerance=1e-15)


def test_average_runs_over_the_modalities_that_are_there():
    """Mean and variance both divided by how many there are: 1/M as printed, not 1/M²."""
    own = {
        "audio": Moments(torch.tensor([[1.0], [1.0], [1.0]]), torch.tensor([[4.0], [4.0], [4.0]])),
        "video": Moments(torch.tensor([[3.0], [3.0], [3.0]]), torch.tensor([[2.0], [2.0], [2.0]])),
    }
    present = {"audio": torch.tensor([True, True, False]), "video": torch.tensor([True, False, False])}
    result = average(own, present)
    torch.testing.assert_close(result.mean, torch.tensor([[2.0], [1.0], [0.0]]))
    torch.testing.assert_close(result.variance, torch.tensor([[3.0], [4.0], [0.0]]))


def test_average_ignores_what_stands_in_an_absent_row():
    nan = torch.full((1, 2), torch.nan)
    own = {"audio": Moments(nan, nan), "video": Moments(torch.ones(1, 2), torch.ones(1, 2))}
    result = average(own, {"audio": torch.tensor([False]), "video": torch.tensor([True])})
    torch.testing.assert_close(result.mean, torch.ones(1, 2))
    torch.testing.assert_close(result.variance, torch.ones(1, 2))


def test_rescaling_restores_the_plain_norm_times_gamma():
    batch = make_batch({"audio": 3, "video": 2}, absent={"audio": [0]})
    for rescale in ("batch", "sample"):
        criterion = criterion_for(batch, rescale=rescale, scale=1.7)
        assert isinstance(criterion, CalibratedLoss)
        leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
        out = criterion(leaves, batch.target, {"audio": torch.tensor([False, True, True, True])})
        for trace in out.diagnostics.traces.values():
            plain, ours = trace.unimodal_gradient + trace.joint_gradient, trace.calibrated
            dim = (0, 1) if rescale == "batch" else 1
            torch.testing.assert_close(ours.norm(dim=dim), 1.7 * plain.norm(dim=dim))
