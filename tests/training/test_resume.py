"""A run that was killed, wherever, and resumed leaves the same bytes as one that never stopped."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from evigrad.training import INTERRUPTED, Interrupted, RunFolder, Selection, fit, read_result
from tests.training.processes import in_another_process, start, wait
from tests.training.toy import method, network, settings, views

IDENTICAL = (
    "config.json", "steps.csv", "epochs.csv", "diagnostics.jsonl", "checkpoints/last.safetensors",
    "checkpoints/best.safetensors", "predictions/train.npz", "predictions/validation.csv", "predictions/test.csv",
)  # fmt: skip


class Wasteful(nn.Module):
    """An encoder that draws from every global generator, as users' modules and data sets do."""

    def __init__(self):
        super().__init__()
        self.width = 5
        self.layers = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.3))

    def forward(self, values):
        return self.layers(values) * (1 + 0.01 * np.random.rand() if self.training else 1)  # noqa: NPY002


def train(folder: Path, resume: bool = False, name: str = "ogm_ge", **changes):
    torch.manual_seed(5)
    model = network()
    model.encoders["sound"] = Wasteful()
    model.fusion.linear = nn.Linear(5 + model.fusion.widths["image"], 3)
    model.fusion.widths["sound"] = 5
    if len(model.heads):
        model.heads["sound"] = nn.Linear(5, 3)
    training = settings(**{"epochs": 3, "checkpoint_every": 2, "log_every": 1, "ema_decay": 0.9, **changes})
    data = views(70), views(30, 1), views(31, 2)
    return fit(model, method(name), *data, folder=folder, training=training, resume=resume)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(number, original, action=die):
    """``original``, but ``action`` happens before its call number ``number``."""
    calls = []

    def replacement(*arguments, **keywords):
        calls.append(None)
        if len(calls) == number:
            action()
        return original(*arguments, **keywords)

    return replacement


def half_written(number):
    """``save_file``, but call ``number`` gets as far as half of the file."""
    original, calls = safetensors.torch.save_file, []

    def replacement(tensors, path, metadata=None):
        calls.append(None)
        original(tensors, path, metadata=metadata)
        if len(calls) == number:
            os.truncate(path, path.stat().st_size // 2)
            die()

    return replacement


KILLS = {
    **{f"before step {n}": lambda n=n: setattr(torch.optim.SGD, "step", on_call(n, torch.optim.SGD.step))
       for n in (1, 2, 6, 8, 14)},
    **{f"before sync {n}": lambda n=n: setattr(os, "fsync", on_call(n, os.fsync))
       for n in (1, 3, 7, 9, 12, 20, 33, 41, 55)},
    **{f"before rename {n}": lambda n=n: setattr(Path, "replace", on_call(n, Path.replace))
       for n in (1, 3, 4, 7, 11, 14, 17)},
    **{f"inside checkpoint {n}": lambda n=n: setattr(safetensors.torch, "save_file", half_written(n))
       for n in (1, 2, 4, 5, 8)},
}  # fmt: skip


def result_without_cost(folder):
    return {key: value for key, value in json.loads((folder / "result.json").read_text()).items() if key != "cost"}


def assert_same(folder, expected):
    for name in IDENTICAL:
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name
    assert result_without_cost(folder) == result_without_cost(expected)
    assert not list(folder.rglob("*.partial"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    train(folder)
    return folder


@pytest.mark.parametrize("kill", KILLS)
def test_killed_and_resumed_is_bit_identical(tmp_path, uninterrupted, kill):
    def doomed():
        KILLS[kill]()
        train(tmp_path)

    assert in_another_process(doomed) == -signal.SIGKILL
    train(tmp_path, resume=True)
    assert_same(tmp_path, uninterrupted)


def test_killed_again_and_again_is_bit_identical(tmp_path, uninterrupted):
    def doomed():
        torch.optim.SGD.step = on_call(3, torch.optim.SGD.step)
        train(tmp_path, resume=True)

    kills = 0
    while in_another_process(doomed) == -signal.SIGKILL:
        kills += 1
        assert kills < 20, "the run makes no progress"
    assert kills > 3
    assert_same(tmp_path, uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [3, 5])
def test_a_signal_saves_and_exits_with_the_documented_code(tmp_path, uninterrupted, number, step):
    def stopped():
        ask = on_call(step, torch.optim.SGD.step, lambda: os.kill(os.getpid(), number))
        torch.optim.SGD.step = ask
        train(tmp_path, checkpoint_every=0)

    assert in_another_process(stopped) == INTERRUPTED == 75
    assert len((tmp_path / "steps.csv").read_text().splitlines()) == 1 + step
    train(tmp_path, resume=True)
    assert_same_but_settings(tmp_path, uninterrupted)


def assert_same_but_settings(folder, expected):
    for name in set(IDENTICAL) - {"config.json"}:
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name


def test_a_second_ctrl_c_does_not_wait(tmp_path, monkeypatch):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(torch.optim.SGD, "step", on_call(4, torch.optim.SGD.step, twice))
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path)


def test_interrupted_says_where_and_what_next(tmp_path, monkeypatch):
    step = on_call(2, torch.optim.SGD.step, lambda: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(torch.optim.SGD, "step", step)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match=r"stopped after step 2 and saved in .*resume to go on .exit code 75"):
        train(tmp_path)
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_finished_run_is_returned_as_it_is(uninterrupted):
    before = {name: (uninterrupted / name).stat().st_mtime_ns for name in IDENTICAL}
    started = time.monotonic()
    result = train(uninterrupted, resume=True)
    assert result == read_result(uninterrupted)
    assert {name: (uninterrupted / name).stat().st_mtime_ns for name in IDENTICAL} == before
    assert time.monotonic() - started < 5


def test_a_folder_with_a_run_is_not_overwritten(uninterrupted):
    with pytest.raises(FileExistsError, match=r"already holds a run. Resume it .resume=True., or choose another"):
        train(uninterrupted)


def test_resuming_under_other_settings_is_refused(uninterrupted):
    with pytest.raises(ValueError, match=r"training.batch_size is 8 and the run in .* was started with 16"):
        train(uninterrupted, resume=True, batch_size=8)


def test_where_and_how_loudly_to_run_may_change(uninterrupted):
    assert train(uninterrupted, resume=True, log_every=7, checkpoint_every=3, workers=1).epochs == 3


def test_a_damaged_checkpoint_is_named(tmp_path):
    train(tmp_path, epochs=1)
    (tmp_path / "result.json").unlink()
    checkpoint = tmp_path / "checkpoints" / "last.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"last.safetensors is damaged or not a checkpoint"):
        train(tmp_path, epochs=1, resume=True)


def test_metrics_that_somebody_shortened_are_noticed(tmp_path):
    train(tmp_path, epochs=1)
    (tmp_path / "result.json").unlink()
    (tmp_path / "steps.csv").write_text("step\n")
    with pytest.raises(ValueError, match=r"steps.csv has 5 bytes and had .* somebody shortened it"):
        train(tmp_path, epochs=1, resume=True)


@pytest.mark.parametrize("name", ["uniform", "mmpareto", "tmc", "bogc"])
def test_every_kind_of_method_resumes(tmp_path, name):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, name=name, selection=Selection(keep="last"))

    def doomed():
        torch.optim.SGD.step = on_call(8, torch.optim.SGD.step)
        train(parts, name=name, selection=Selection(keep="last"))

    assert in_another_process(doomed) == -signal.SIGKILL
    train(parts, name=name, selection=Selection(keep="last"), resume=True)
    assert_same(parts, whole)


def undone(folder, **changes):
    """A run that has everything but its result."""
    train(folder, epochs=1, **changes)
    (folder / "result.json").unlink()


def test_a_configuration_that_somebody_edited_is_refused(tmp_path):
    undone(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"batch_size": 16', '"batch_size": 8'))
    with pytest.raises(ValueError, match=r"training.batch_size is 8 and the run in .* was started with 16: .*mix two"):
        train(tmp_path, epochs=1, batch_size=8, resume=True)


def test_what_may_change_does_not_change_the_checkpoint(tmp_path):
    undone(tmp_path)
    before = (tmp_path / "checkpoints" / "last.safetensors").read_bytes()
    undone(tmp_path / "other", log_every=2, progress="plain")
    assert (tmp_path / "other" / "checkpoints" / "last.safetensors").read_bytes() == before


def test_data_that_grew_or_shrank_are_refused(tmp_path):
    training = settings(epochs=1)
    fit(network(), method(), views(48), views(20, 1), folder=tmp_path, training=training)
    (tmp_path / "result.json").unlink()
    with pytest.raises(ValueError, match=r"training set has 40 samples and had 48 when .* Put the data back"):
        fit(network(), method(), views(40), views(20, 1), folder=tmp_path, training=training, resume=True)


@pytest.mark.parametrize("resume", [True, False])
def test_two_processes_do_not_share_a_folder(tmp_path, resume):
    undone(tmp_path)
    holds, ends = os.pipe(), os.pipe()

    def holder():
        with RunFolder(tmp_path).alone():
            os.write(holds[1], b"x")
            os.read(ends[0], 1)

    child = start(holder)
    os.read(holds[0], 1)
    before = (tmp_path / "steps.csv").read_bytes()
    with pytest.raises(FileExistsError, match=rf"in use by process {child} on .*Wait for it or stop it, then resume"):
        train(tmp_path, epochs=1, resume=resume)
    assert (tmp_path / "steps.csv").read_bytes() == before
    os.kill(child, signal.SIGKILL)
    assert wait(child) == -signal.SIGKILL
    assert train(tmp_path, epochs=1, resume=True).epochs == 1  # the lock went with its process
    for end in (*holds, *ends):
        os.close(end)
