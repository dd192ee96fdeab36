import importlib
import json

import pytest

from evigrad.cli import demo
from evigrad.cli.console import program
from evigrad.experiments import Choice, Experiment
from evigrad.training import Optimizer, Training


def small(epochs):
    """The demo's shape on data that train at once."""
    data = Choice("synthetic", {"sizes": [60, 30, 30], "noise": [0.5, 1.0]})
    training = Training(epochs=2, batch_size=20, progress="none", optimizer=Optimizer(learning_rate=0.05))
    return {name: Experiment(data, Choice(name), training=training) for name in ("joint", "uniform", "bogc")}


@pytest.fixture(autouse=True)
def small_demo(monkeypatch):
    monkeypatch.setattr(demo, "demo_experiments", small)
    monkeypatch.setattr(demo, "SEEDS", (0, 1, 2))


def test_the_whole_story(evigrad, tmp_path):
    answer = evigrad("demo", "--out", tmp_path, "--jobs", "1")
    assert answer.code == 0, answer.err
    for text in ("Test accuracy, %", "95 % interval", "worst", "Each view alone", "Everything but one view"):
        assert text in answer.out
    for text in ("Highest mean accuracy:", "bogc", "(paired by seed, Holm-adjusted", "One small data set"):
        assert text in " ".join(answer.out.split())
    assert max(len(line) for line in answer.out.splitlines() if str(tmp_path) not in line) <= 80
    commands = [line.split()[1:] for line in answer.out.splitlines() if line.startswith(f"  {program()} ")]
    assert [words[0] for words in commands] == ["evaluate", "train", "methods"]
    assert commands[0][1:] == [f"{tmp_path}/bogc/seed-0"]
    assert "9/9  bogc, seed 2: " in answer.err


def test_numbers_are_kept_and_finished_runs_are_used_again(evigrad, tmp_path):
    first = evigrad("demo", "--out", tmp_path, "--jobs", "1", "--json").json
    again = evigrad("demo", "--out", tmp_path, "--jobs", "1", "--json").json
    kept = json.loads((tmp_path / "comparison.json").read_text())
    assert {**first, "seconds": 0} == {**again, "seconds": 0} == {**kept, "seconds": 0}
    assert [one["label"] for one in first["methods"]] == ["joint", "uniform", "bogc"]
    result = json.loads((tmp_path / "bogc" / "seed-1" / "result.json").read_text())
    assert first["methods"][2]["accuracy"]["1"] == result["metrics"]["test"]["accuracy"]


def test_stopped_between_two_runs_it_goes_on(evigrad, tmp_path, monkeypatch):
    grids = importlib.import_module("evigrad.experiments.grid")  # the package has a function of that name
    whole, calls = grids.run_cell, []

    def stop_at_the_third(cell):
        calls.append(cell)
        if len(calls) == 3:
            raise KeyboardInterrupt
        whole(cell)

    monkeypatch.setattr(grids, "run_cell", stop_at_the_third)
    answer = evigrad("demo", "--out", tmp_path, "--jobs", "1")
    assert answer.code == 75
    assert f"stopped; finished runs are in {tmp_path}. The same command goes on." in answer.err
    answer = evigrad("demo", "--out", tmp_path, "--jobs", "1")
    assert answer.code == 0
    assert len(calls) == 3 + 7


def test_quick_says_that_nothing_follows_from_it(evigrad, tmp_path):
    answer = evigrad("demo", "--quick", "--out", tmp_path, "--jobs", "1")
    assert "nothing can be concluded from --quick" in answer.out


def test_another_demo_in_the_folder_is_refused(evigrad, tmp_path):
    assert evigrad("demo", "--out", tmp_path, "--jobs", "1").code == 0
    path = tmp_path / "joint" / "seed-0" / "config.json"
    path.write_text(path.read_text().replace('"batch_size": 20', '"batch_size": 21'))
    answer = evigrad("demo", "--out", tmp_path, "--jobs", "1")
    assert answer.code == 2
    assert "training.batch_size is 20 and the run in" in answer.err
