"""The benchmarks run, time the steps that they say they time, and their page shows what was recorded."""

import importlib
import inspect
import json
import math
import random
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import REFRESH, child, cost, loading, loop, run, startup, tables, whole_step
from benchmarks.criteria import PlainLoss, Shapes, calibrated_step, plain_step
from benchmarks.measure import alternate, interval, slope
from benchmarks.networks import ResNet18
from benchmarks.page import page, read
from evigrad import CalibratedLoss
from evigrad.calibration.head import HeadPosterior
from evigrad.data import load
from evigrad.training.loader import in_order

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {
    "commit": "0123456789abcdef",
    "uncommitted_changes": False,
    "torch": "2",
    "python": "3",
    "processor": "P",
    "vector_instructions": "V",
    "cores": 2,
    "system": "S",
}


class TinyEncoder(nn.Module):
    """Stands in for ResNet-18: [B, ...] to [B, 512]."""

    def __init__(self, channels):
        super().__init__()
        shape = whole_step.TINY["audio" if channels == 1 else "video"]
        self.layer = nn.Linear(math.prod(shape), whole_step.WIDTH)

    def forward(self, images):
        return self.layer(images.flatten(1))


@pytest.fixture
def renewals(monkeypatch):
    """Counts how often any posterior is made anew."""
    made = []
    fresh = HeadPosterior._fresh
    monkeypatch.setattr(HeadPosterior, "_fresh", lambda self: made.append(self) or fresh(self))
    return made


def record(cases):
    return {"runs": [{"threads": 1, "seed": 0, "load": [0.5, 1.0], "environment": ENVIRONMENT, "cases": cases}]}


def rows(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_page_is_the_one_generated_from_the_recorded_results():
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page(read(ROOT / "benchmarks" / "results"))


def test_the_recorded_results_are_those_of_full_runs():
    records = read(ROOT / "benchmarks" / "results")
    assert set(records) == set(run.BENCHMARKS) == set(tables.TABLES)
    assert not any(one["quick"] for each in records.values() for one in each["runs"])


@pytest.mark.parametrize("name", ["calibration", "dense", "growth"])
def test_a_quick_run_times_every_case(name):
    cases = json.loads(json.dumps(importlib.import_module(f"benchmarks.{name}").measure(quick=True)))
    points = [point for case in cases for point in case.get("points", [case])]
    times = [point[kind] for point in points for kind in ("ordinary", "renewing", "plain", "whole") if kind in point]
    assert len(times) >= len(points) > 0
    assert all(one > 0 for each in times for one in each)


def test_the_page_of_quick_runs_has_every_table(monkeypatch):
    monkeypatch.setattr(whole_step, "ResNet18", TinyEncoder)
    monkeypatch.setattr(startup, "COMMANDS", {"python -c pass": ["-c", "pass"]})
    names = set(run.BENCHMARKS) - {"memory"}
    records = {
        name: record(json.loads(json.dumps(importlib.import_module(f"benchmarks.{name}").measure(quick=True))))
        for name in names
    }
    text = page(records)
    assert text.count("Not measured yet.") == 1
    assert text.count("Measured at commit 0123456789 with torch 2") == len(names)


def test_a_process_writes_its_result(tmp_path, monkeypatch):
    out = tmp_path / "result.json"
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["child", "calibration", "--quick", "--out", str(out)])
    with torch.random.fork_rng():
        child.main()
    torch.set_num_threads(threads)
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["quick"] is True
    assert result["cases"][0]["classes"] == 6
    assert {"torch", "commit", "processor"} <= set(result["environment"])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's high-water mark")
def test_peak_memory_sees_what_a_step_holds(monkeypatch):
    memory = importlib.import_module("benchmarks.memory")

    class Hungry(memory.CalibratedLoss):
        def forward(self, *args):
            torch.ones(64 * 2**18)  # 64 MB
            return super().forward(*args)

    shapes = Shapes(4, 3, 8, 2)
    assert memory.peak_megabytes(shapes, "calibrated") < 16
    monkeypatch.setattr(memory, "CalibratedLoss", Hungry)
    assert 60 < memory.peak_megabytes(shapes, "calibrated") < 80


def test_the_plain_step_has_the_value_of_the_calibrated_one():
    torch.manual_seed(0)
    shapes = Shapes(5, 3, 4, 3)
    heads, joint = shapes.heads()
    features, target = shapes.batch()
    plain = PlainLoss(heads, joint)(features, target)
    torch.testing.assert_close(plain, CalibratedLoss(heads, joint)(features, target).loss)


def test_the_ordinary_steps_renew_nothing_and_the_renewing_ones_do(renewals, monkeypatch):
    counts = []

    def counted(action):
        before = len(renewals)
        action()
        counts.append(len(renewals) - before)
        return float(counts[-1])

    monkeypatch.setattr(cost, "seconds", counted)
    [case] = cost.measured([Shapes(4, 3, 2, 2)], 3, random.Random(0))
    assert case["ordinary"] == [0, 0, 0]
    assert case["renewing"] == [3, 3, 3]  # two unimodal heads and the joint one
    assert case["plain"] == [0, 0, 0]


def test_whole_steps_are_taken_where_they_should_be(renewals, monkeypatch):
    monkeypatch.setattr(whole_step, "ResNet18", TinyEncoder)
    monkeypatch.setattr(
        whole_step, "_pair", lambda _, calibrated, __: (renewals.clear(), calibrated.step(), len(renewals))[2]
    )
    monkeypatch.setattr(whole_step, "REPETITIONS", 3)
    monkeypatch.setattr(whole_step, "FIRST_STEPS", 2)
    monkeypatch.setattr(whole_step, "SHAPES", whole_step.TINY)
    case = whole_step._case(2, quick=False)
    assert case["first"] == [3, 3]
    assert case["cycles"] == [{"ordinary": 0, "renewing": 3}] * 3


def test_both_loops_take_the_same_steps():
    data = load("digits").train
    weights = []
    for epoch_of in (loop.bare_epoch, loop.fit_epoch):
        network, method = loop._parts(data, {}, "uniform")
        epoch_of(data, network, method)()
        weights.append(network.state_dict())
    torch.testing.assert_close(*weights)


def test_ready_batches_are_those_that_are_loaded(tmp_path):
    data = load("table", path=loading.write_table(tmp_path, rows=4, size=16), image_size=(16, 16)).train
    parts = in_order(len(data), 3)
    here, elsewhere = ([batch.inputs for batch in loading.fetched(data, parts, workers)] for workers in (0, 1))
    assert [len(inputs["sound"]) for inputs in here] == [3, 1]
    torch.testing.assert_close(here, elsewhere)


def test_the_refresh_cycle_is_that_of_the_defaults():
    assert inspect.signature(CalibratedLoss).parameters["refresh"].default == REFRESH


def test_resnet_18_is_the_published_one():
    network = ResNet18(3)
    assert sum(parameter.numel() for parameter in network.parameters()) == 11_689_512 - 512 * 1000 - 1000
    assert network(torch.randn(2, 3, 3, 32, 32)).shape == (2, 512)  # three frames
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 512)


def test_frames_are_averaged_after_the_encoder():
    torch.manual_seed(0)
    network = ResNet18(1).eval()
    frames = torch.randn(2, 3, 1, 32, 32)
    each = torch.stack([network(frames[:, index]) for index in range(3)])
    torch.testing.assert_close(network(frames), each.mean(0))


def test_heads_steps_leave_no_gradient():
    for step in (plain_step(Shapes(4, 3, 2, 2)), calibrated_step(Shapes(4, 3, 2, 2))):
        step()
        assert all(leaf.grad is None for leaf in (*step.features.values(), *step.criterion.parameters()))


@pytest.mark.parametrize(("count", "rank", "coverage"), [(6, 1, 0.96875), (10, 2, 0.978516), (20, 6, 0.958611)])
def test_the_interval_is_the_tabled_one_of_the_sign_test(count, rank, coverage):
    values = list(range(1, count + 1))
    random.Random(0).shuffle(values)
    one = interval(values)
    assert (one.low, one.high) == (rank, count + 1 - rank)
    assert one.median == (count + 1) / 2
    assert one.coverage == pytest.approx(coverage, abs=1e-6)


def test_few_values_have_their_range_as_interval():
    assert interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0, 0.75)
    assert interval([2.0]) == (2.0, 2.0, 2.0, 0.0)


def test_the_slope_of_a_power_law_is_its_exponent():
    assert slope([1, 2, 4, 8], [3 * size**1.7 for size in (1, 2, 4, 8)]) == pytest.approx(1.7)


def test_alternation_keeps_each_result_in_its_place():
    taken = []
    actions = [lambda index=index: taken.append(index) or float(index) for index in range(3)]
    rng = random.Random(0)
    assert all(alternate(actions, rng) == [0, 1, 2] for _ in range(20))
    assert len({tuple(taken[start : start + 3]) for start in range(0, 60, 3)}) == 6  # every order comes up


def test_rounding_keeps_six_digits_and_integers():
    assert run.rounded({"a": [1.23456789, 7], "b": True}) == {"a": [1.23457, 7], "b": True}


def test_ratios_of_whole_steps_weigh_nine_ordinary_steps_and_a_renewing_one():
    def pair(plain, calibrated, own):
        return {"plain": plain, "calibrated": calibrated, "plain_criterion": 0.01, "calibrated_criterion": own}

    cycle = {"ordinary": pair(2.0, 2.02, 0.03), "renewing": pair(2.0, 2.3, 0.21)}
    case = {"samples": 8, "first": [pair(2.0, 2.5, 0.2)], "cycles": [cycle]}
    [row] = rows(tables.whole_step({"whole_step": record([case])}))
    ratio = (0.9 * 2.02 + 0.1 * 2.3) / 2
    accounted = 1 + (0.9 * 0.02 + 0.1 * 0.2) / 2
    assert row[:3] == ["1", "8", "2.00 s"]
    assert [cell.split()[0] for cell in row[3:]] == [f"{ratio:.3f}", "1.250", f"{accounted:.3f}"]


def test_the_dense_reference_is_extrapolated_by_its_operations():
    stages = [{"posterior": [1.0], "draws": [0.5]}, {"posterior": [8.0], "draws": [2.0]}]
    theirs = [{"classes": 3, "modalities": 2, "whole": [11.0], "heads": stages}]
    ours = [{"classes": classes, "ordinary": [0.01], "renewing": [0.11], "plain": [0.0]} for classes in (3, 6)]
    at_3, at_6 = rows(tables.dense({"dense": record(theirs), "calibration": record(ours)}))
    wanted = 2 * (1.0 * 8 + 0.5 * 4) + (8.0 * 8 + 2.0 * 4)
    assert at_3 == ["3", "11.0 s", "", "550", "100"]
    assert at_6 == ["6", "", f"{wanted:.1f} s", f"{wanted / 0.02:,.0f}", f"{wanted / 0.11:,.0f}"]


def test_exponents_are_of_what_the_calibration_adds():
    sizes = [1, 2, 4]
    points = [{"plain": [1.0], "ordinary": [1.0 + size], "renewing": [1.0 + size + 10 * size**3]} for size in sizes]
    [row] = rows(tables.growth({"growth": record([{"sweep": "M", "sizes": sizes, "points": points}])}))
    assert row[1:3] == ["M: 1, 2, 4", "2000.0 / 10000.0 / 68000.0"]
    assert [cell.split()[0] for cell in row[3:5]] == ["1.00", "3.00"]
    assert row[6].split()[0] == f"{math.log2(6.8):.2f}"


def test_the_loop_is_compared_turn_by_turn():
    turns = [
        {"bare": {"wall": bare, "cpu": 1.0}, "fit": {"wall": ratio * bare, "cpu": 1.5}}
        for bare, ratio in ((2.0, 1.1), (4.0, 1.2), (40.0, 1.3))
    ]
    case = {"model": "N", "method": "joint", "steps": 4, "epochs": turns}
    assert rows(tables.loop({"loop": record([case])})) == [
        ["1", "N", "joint", "1000.00 ms", "1.200 [1.100, 1.300]", "1.500 [1.500, 1.500]"]
    ]


def test_loading_is_compared_with_ready_batches():
    epochs = {"ready": [2.0, 4.0], "workers 0": [3.0, 6.0], "workers 1": [2.0, 4.0]}
    case = {"samples": 8, "batches": 4, "epochs": epochs, "loading": [1.0, 1.0]}
    assert rows(tables.loading({"loading": record([case])})) == [
        ["1", "8", "750 ms", "250 ms", "1.500 [1.500, 1.500]", "1.000 [1.000, 1.000]"]
    ]


def test_a_cost_lost_in_the_noise_has_no_exponent():
    points = [{"plain": [1.0], "ordinary": [2.0], "renewing": [renewing]} for renewing in (1.9, 3.0)]
    [row] = rows(tables.growth({"growth": record([{"sweep": "B", "sizes": [1, 2], "points": points}])}))
    assert row[4] == "-"
