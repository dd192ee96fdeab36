"""One whole life of a run, by the real command: started, killed, resumed, measured, used, exported."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import TINY

COMMAND = [sys.executable, "-m", "evigrad"]


def start(*words):
    return subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def call(*words):
    process = start(*words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def wait_for(path, process):
    deadline = time.monotonic() + 100
    while not (path.exists() and path.stat().st_size):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_started_stopped_killed_resumed_and_used(views, tmp_path):
    settings = ["--data", views, "--method", "bogc", *TINY, "--training.epochs", "60"]
    folder, plain = tmp_path / "run", tmp_path / "plain"
    call("train", *settings, "--out", plain, "--json")

    process = start("train", *settings, "--out", folder)
    wait_for(folder / "epochs.csv", process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert f"evigrad resume {folder}\n" in err

    before = (folder / "epochs.csv").stat().st_size
    process = start("resume", folder)
    while (folder / "epochs.csv").stat().st_size <= before:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    assert not (folder / "result.json").exists()

    resumed = json.loads(call("resume", folder, "--json"))
    assert resumed["metrics"] == json.loads((plain / "result.json").read_text())["metrics"]
    for file in ("epochs.csv", "steps.csv", "checkpoints/best.safetensors", "predictions/test.npz"):
        assert (folder / file).read_bytes() == (plain / file).read_bytes(), file

    measured = json.loads(call("evaluate", folder, "--json"))
    assert measured["accuracy"] == resumed["metrics"]["test"]["accuracy"]
    predicted = json.loads(call("predict", folder, "--data", views, "--json", "--missing", "[image]"))
    assert len(predicted) == 60
    assert json.loads(call("export", folder, "--json"))["program_difference"] < 1e-6


@pytest.mark.distributed
def test_under_torchrun_one_process_talks_and_all_train(views, tmp_path):
    hardware = {"accelerator": "cpu", "devices": "2", "strategy": "ddp"}
    options = [word for name, value in hardware.items() for word in (f"--training.hardware.{name}", value)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "evigrad", "train", "--data", views, *TINY, *options, "--out", tmp_path / "run", "--json"]
    answer = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=200, env=os.environ)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["folder"] == str(tmp_path / "run")
    assert answer.stderr.count("training bogc on views") == 1
