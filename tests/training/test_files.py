import os
import resource
import shutil
from pathlib import Path

import pytest
import torch

from evigrad.training import StorageError, fit
from evigrad.training.files import read_json, write_atomically, write_json, write_text
from tests.training.processes import in_another_process
from tests.training.test_resume import on_call
from tests.training.toy import last, method, network, views


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "notes.txt"
    write_text(path, "old")

    def fails(temporary):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match=r"could not write .*notes.txt: No space left on device .*MB free.*resume"):
        write_atomically(path, fails)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_the_new_content_is_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    events = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), real(descriptor)))
    rename = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (events.append("rename"), rename(self, target)))
    write_text(tmp_path / "a", "text")
    assert events == ["sync", "rename", "sync"]


def test_damaged_json_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ValueError, match=r"a.json is not valid JSON"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ValueError, match=r"should hold a JSON object and holds a list"):
        read_json(tmp_path / "a.json")


def test_json_round_trip(tmp_path):
    write_json(tmp_path / "a.json", {"x": [1, None, 0.1]})
    assert read_json(tmp_path / "a.json") == {"x": [1, None, 0.1]}


def train(folder, resume=False, epochs=3):
    return fit(network(), method(), views(48), folder=folder, training=last(epochs=epochs), resume=resume)


def test_a_folder_that_cannot_be_made_is_an_error_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("torch.optim.SGD.step", lambda *_: pytest.fail("training began"))
    with pytest.raises(NotADirectoryError, match=r"file.run can't be written: a file is where a folder should be"):
        train(tmp_path / "file" / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_an_error_before_training(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match=r"could not write .*Permission denied.*make the folder writable"):
        train(tmp_path / "run")


def test_a_folder_that_refuses_writes_is_an_error_before_training(tmp_path, monkeypatch):
    def refuse(self, content):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.write_bytes", refuse)
    with pytest.raises(StorageError, match=r"Read-only file system.*make the folder writable"):
        train(tmp_path / "run")


def test_a_disk_too_small_for_the_checkpoints_is_an_error_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    with pytest.raises(StorageError, match=r"on a disk with 0 MB free; this run's checkpoints need about .* Make room"):
        train(tmp_path / "run")


def limited(folder, size, resume=False):
    """Train where no file may grow beyond ``size``; the kernel answers with EFBIG, as a full disk does with ENOSPC."""

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with pytest.raises(StorageError, match=r"could not write .*checkpoints"):
            train(folder, resume)

    return in_another_process(work)


def test_a_checkpoint_that_does_not_fit_leaves_the_last_good_one(tmp_path):
    train(tmp_path / "whole")
    run, best = tmp_path / "run", (tmp_path / "whole" / "checkpoints" / "best.safetensors").stat().st_size

    def stopped():
        torch.optim.SGD.step = on_call(5, torch.optim.SGD.step, lambda: os.kill(os.getpid(), 15))
        train(run)

    assert in_another_process(stopped) == 75
    good = (run / "checkpoints" / "last.safetensors").read_bytes()
    assert limited(run, best // 2, resume=True) == 0
    assert (run / "checkpoints" / "last.safetensors").read_bytes() == good
    assert not list(run.rglob("*.partial"))
    train(run, resume=True)
    for name in ("last", "best"):
        file = f"checkpoints/{name}.safetensors"
        assert (run / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_disk_that_fills_up_at_the_first_checkpoint_is_an_error_before_training(tmp_path):
    assert limited(tmp_path / "run", 2000) == 0
