"""Real interpreters, started as a user starts them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evigrad.training import read_result

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from evigrad.training import Hardware, Training, fit
from tests.training.toy import method, network, settings, views

if __name__ == "__main__":
    folder, devices, epochs, resume = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "resume"
    hardware = Hardware("cpu", devices, strategy="ddp" if devices > 1 else "auto")
    training = settings(epochs=epochs, hardware=hardware, progress="plain")
    fit(network(), method(), views(64), views(30, 1), folder=folder, training=training, resume=resume)
"""


def command(tmp_path, *arguments, launcher=()):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return [sys.executable, *launcher, str(script), *(str(argument) for argument in arguments)]


def environment():
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}


@pytest.mark.distributed
@pytest.mark.parametrize("launcher", [("-m", "torch.distributed.run", "--nproc-per-node", "2"), ()])
def test_torchrun_and_a_plain_start_both_train_on_two_processes(tmp_path, launcher):
    folder = tmp_path / "run"
    ran = subprocess.run(
        command(tmp_path, folder, 2, 1, "new", launcher=launcher), env=environment(), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert read_result(folder).metrics["validation"]["samples"] == 30
    assert ran.stderr.count("epoch 1/1") == 1


def test_sigterm_ends_a_script_with_exit_code_75_and_resuming_finishes_it(tmp_path):
    folder = tmp_path / "run"
    with subprocess.Popen(command(tmp_path, folder, 1, 80, "new"), env=environment(), stderr=subprocess.DEVNULL) as run:
        while not (folder / "epochs.csv").exists():
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=60) == 75
    again = command(tmp_path, folder, 1, 80, "resume")
    assert subprocess.run(again, env=environment(), capture_output=True, timeout=120, check=False).returncode == 0
    assert read_result(folder).epochs == 80
