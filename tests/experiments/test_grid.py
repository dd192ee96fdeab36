import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evigrad.experiments import Choice, compare, gather, grid, load_trained, run_grid
from evigrad.training import missing_grid, read_result
from tests.experiments.tiny import experiment, write_views


@pytest.fixture(scope="module")
def cells(views, tmp_path_factory):
    experiments = {name: experiment(views, name) for name in ("uniform", "joint")}
    made = grid(experiments, [3, 4], tmp_path_factory.mktemp("grid"))
    run_grid(made)
    return made


def test_seeds_come_before_methods(cells):
    order = [(cell.seed, cell.label) for cell in cells]
    assert order == [(3, "uniform"), (3, "joint"), (4, "uniform"), (4, "joint")]
    assert [cell.experiment.training.seed for cell in cells] == [3, 3, 4, 4]
    assert cells[0].experiment.data.options["seed"] == 3


def test_what_is_finished_is_not_done_again(cells):
    before = {cell.folder: (cell.folder / "result.json").stat().st_mtime_ns for cell in cells}
    seen = []
    run_grid(cells, finished=seen.append)
    assert seen == cells
    assert before == {cell.folder: (cell.folder / "result.json").stat().st_mtime_ns for cell in cells}


def test_another_experiment_in_the_folder_is_refused(cells, views):
    other = grid({"uniform": experiment(views, epochs=5)}, [3], cells[0].folder.parent.parent)
    with pytest.raises(ValueError, match=r"training.epochs is 5 and the run in .* was started with 3"):
        run_grid(other)


def test_outcomes_are_the_numbers_of_the_runs(cells):
    uniform, joint = gather(cells)
    metrics = {cell.seed: read_result(cell.folder).metrics["test"] for cell in cells if cell.label == "uniform"}
    assert uniform.accuracy == {seed: numbers["accuracy"] for seed, numbers in metrics.items()}
    assert uniform.alone["sound"] == [numbers["modalities"]["sound"]["probe"] for numbers in metrics.values()]
    assert joint.label == "joint"
    assert set(joint.missing) == {"sound", "image"}


def test_missing_accuracies_are_those_of_the_other_modality_alone(cells):
    trained = load_trained(cells[0].folder)
    test = trained.experiment.splits().test
    row = missing_grid(trained.network, trained.method, test, [("image",)])[0]
    assert gather(cells)[0].missing["sound"][0] == row["accuracy"]


def test_comparisons_are_paired_by_seed(cells):
    (found,) = compare(gather(cells), "uniform")
    uniform, joint = gather(cells)
    expected = sum(joint.accuracy[seed] - uniform.accuracy[seed] for seed in (3, 4)) / 2
    assert found.label == "joint"
    assert found.difference.mean == pytest.approx(expected)


@pytest.mark.parametrize("method", ["joint", "mmpareto", "tmc", "bogc"])  # each overflows somewhere else first
def test_divergence_is_an_outcome_and_not_tried_again(views, tmp_path, method):
    broken = experiment(views, method)
    broken = type(broken)(broken.data, broken.method, broken.network, _fast(broken.training, 1e12))
    cells = grid({"broken": broken, "uniform": experiment(views)}, [0, 1], tmp_path)
    run_grid(cells)
    started = (cells[0].folder / "steps.csv").stat().st_mtime_ns
    run_grid(cells)
    assert (cells[0].folder / "steps.csv").stat().st_mtime_ns == started
    first, second = gather(cells)
    assert (first.accuracy, first.diverged, first.summary()) == ({}, [0, 1], None)
    assert second.diverged == []
    assert compare([first, second], "uniform") == []
    assert json.dumps(first.to_json())


def _fast(training, rate):
    return replace(training, optimizer=replace(training.optimizer, learning_rate=rate))


SCRIPT = """
import sys
from evigrad.experiments import grid, run_grid
from tests.experiments.tiny import experiment, write_views

if __name__ == "__main__":
    made = {name: experiment(sys.argv[1], name, epochs=int(sys.argv[3])) for name in ("uniform", "joint")}
    run_grid(grid(made, [0], sys.argv[2]), jobs=2, finished=lambda cell: print(cell.label, flush=True))
"""


def start(tmp_path, views, epochs):
    script = tmp_path / "work.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(Path.cwd()), *sys.path])
    command = [sys.executable, str(script), str(views), str(tmp_path / "grid"), str(epochs)]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_processes_give_what_one_process_gives(tmp_path, views, cells):
    process = start(tmp_path, views, epochs=3)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert sorted(out.split()) == ["joint", "uniform"]
    alone = tmp_path / "alone"
    experiment(views, "joint").seeded(0).run(alone)
    there = tmp_path / "grid" / "joint" / "seed-0"
    for file in ("epochs.csv", "checkpoints/best.safetensors"):
        assert (there / file).read_bytes() == (alone / file).read_bytes()


@pytest.mark.slow
def test_a_stopped_grid_saves_its_runs_and_ends(tmp_path, views):
    process = start(tmp_path, views, epochs=100_000)
    epochs = [tmp_path / "grid" / name / "seed-0" / "epochs.csv" for name in ("uniform", "joint")]
    deadline = time.monotonic() + 100
    while not all(path.exists() and path.stat().st_size for path in epochs):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    for path in epochs:
        assert (path.parent / "checkpoints" / "last.safetensors").exists()
        assert not (path.parent / "result.json").exists()


def test_no_process_is_too_few(cells):
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0: the number of processes"):
        run_grid(cells, jobs=0)


def test_what_cannot_be_measured_is_left_out(tmp_path):
    """A modality that only one validation row has can't be probed, and test rows have nothing without the other."""
    image, rows = np.full((60, 3), np.nan), np.arange(60)
    image[25] = 1.0
    parts = {"train_idx": rows[:20], "validation_idx": rows[20:40], "test_idx": rows[40:]}
    path = write_views(tmp_path / "views.npz", image=image, **parts)
    bare = replace(experiment(path, epochs=1), data=Choice("views", {"path": str(path), "scaling": "none"}))
    cells = grid({"uniform": bare}, [0], tmp_path / "runs")
    run_grid(cells)
    (outcome,) = gather(cells)
    assert list(outcome.alone) == ["sound"]
    assert list(outcome.missing) == ["image"]
