"""Two processes, each with half of every batch, train what one process with the whole batch trains."""

import csv
import os
import signal

import pytest
import torch

from evigrad.methods import METHODS
from evigrad.training import Hardware, Optimizer, fit
from evigrad.training.checkpoint import load_checkpoint
from tests.training.processes import in_ranks, start, wait
from tests.training.test_resume import on_call
from tests.training.toy import Precise, method, network, settings, views

pytestmark = pytest.mark.distributed
ONE = Hardware(accelerator="cpu")
TWO = Hardware(accelerator="cpu", devices=2, strategy="ddp")
SGD = Optimizer(learning_rate=0.05)


def train(folder, name, hardware=ONE, resume=False, **changes):
    data = [views(size, seed, missing=0.2, kind=Precise) for size, seed in ((53, 0), (31, 1), (1, 2))]
    chosen = {"optimizer": SGD, "batch_size": 16, "accumulate": 2, "hardware": hardware, "clip_norm": 5.0}
    model, training = network().double(), settings(**{**chosen, **changes})
    return fit(model, method(name), *data, folder=folder, training=training, resume=resume)


def assert_close(folder, expected, tolerance=1e-9):
    got, _ = load_checkpoint(folder / "checkpoints" / "last.safetensors")
    want, _ = load_checkpoint(expected / "checkpoints" / "last.safetensors")
    for name, value in want.items():
        if name.startswith(("network.", "optimizer.")):
            torch.testing.assert_close(got[name], value, rtol=tolerance, atol=tolerance / 100)
    for table in ("steps.csv", "epochs.csv"):
        with (folder / table).open() as a, (expected / table).open() as b:
            for one, other in zip(csv.DictReader(a), csv.DictReader(b), strict=True):
                assert {k: float(v) for k, v in one.items()} == pytest.approx(
                    {k: float(v) for k, v in other.items()}, rel=1e-6
                )


# Scores of OGM-GE and the running statistics of BOGC are 32-bit numbers by design; all else here has 64.
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_equal_one(tmp_path, name):
    train(tmp_path / "one", name)
    assert in_ranks(2, lambda rank: train(tmp_path / "two", name, TWO)) == [0, 0]
    assert_close(tmp_path / "two", tmp_path / "one", 1e-6 if name in ("ogm_ge", "bogc") else 1e-9)
    assert (tmp_path / "two" / "predictions" / "test.csv").exists()


def test_a_process_without_a_sample_in_the_last_step_adds_nothing(tmp_path):
    assert 53 % 13 == 1
    train(tmp_path / "one", "bogc", batch_size=13)
    assert in_ranks(2, lambda rank: train(tmp_path / "two", "bogc", TWO, batch_size=13)) == [0, 0]
    assert_close(tmp_path / "two", tmp_path / "one", 1e-6)


def test_both_processes_return_the_same_result(tmp_path):
    def work(rank):
        result = train(tmp_path / "run", "uniform", TWO)
        (tmp_path / f"{rank}.txt").write_text(repr((result.metrics, result.best_epoch)))

    assert in_ranks(2, work) == [0, 0]
    assert (tmp_path / "0.txt").read_text() == (tmp_path / "1.txt").read_text()


def test_a_killed_run_of_two_processes_resumes(tmp_path):
    def doomed(rank):
        step = torch.optim.SGD.step
        torch.optim.SGD.step = on_call(6, step)
        train(tmp_path / "killed", "uniform", TWO, checkpoint_every=2)

    train(tmp_path / "one", "uniform", checkpoint_every=2)
    assert in_ranks(2, doomed) == [-signal.SIGKILL] * 2
    assert in_ranks(2, lambda rank: train(tmp_path / "killed", "uniform", TWO, True, checkpoint_every=2)) == [0, 0]
    assert_close(tmp_path / "killed", tmp_path / "one")


def test_a_signal_to_one_process_stops_both(tmp_path):
    def work(rank):
        if rank == 1:
            ask = on_call(3, torch.optim.SGD.step, lambda: os.kill(os.getpid(), signal.SIGTERM))
            torch.optim.SGD.step = ask
        train(tmp_path / "run", "uniform", TWO)

    assert in_ranks(2, work) == [75, 75]
    assert in_ranks(2, lambda rank: train(tmp_path / "run", "uniform", TWO, True)) == [0, 0]


def test_ranks_with_different_numbers_of_evaluation_batches_do_not_wait_for_each_other(tmp_path):
    def work(rank):
        signal.alarm(60)  # a rank that waits for ever is ended, and the test fails
        model = network()
        model.encoders["sound"].layers.append(torch.nn.BatchNorm1d(model.encoders["sound"].width))
        training = settings(batch_size=16, hardware=TWO)
        result = fit(model, method(), views(48), views(17, 1), folder=tmp_path, training=training)
        assert result.metrics["validation"]["samples"] == 17

    assert in_ranks(2, work) == [0, 0]


def test_another_number_of_processes_is_refused(tmp_path):
    def stopped():
        torch.optim.SGD.step = on_call(3, torch.optim.SGD.step, lambda: os.kill(os.getpid(), signal.SIGTERM))
        train(tmp_path, "uniform")

    assert wait(start(stopped)) == 75

    def resumed(rank):
        with pytest.raises(ValueError, match=r"used 1 process.* and this one has 2"):
            train(tmp_path, "uniform", TWO, True)

    assert in_ranks(2, resumed) == [0, 0]
