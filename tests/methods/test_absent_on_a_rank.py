"""Two processes of which one lacks a modality, again and again, train what one process trains."""

import signal

import pytest
import torch

from evigrad.methods import METHODS, build_method
from evigrad.networks import build_network
from evigrad.training import Hardware, fit
from evigrad.training.checkpoint import load_checkpoint
from tests.training.processes import in_ranks
from tests.training.toy import Precise, last, views

pytestmark = pytest.mark.distributed


def rare_views() -> Precise:
    """Of 24 samples only three have an image."""
    data = views(24, kind=Precise)
    data.present["image"] = torch.arange(24) % 8 == 0
    return data


def train(folder, name, hardware):
    network = build_network({"sound": (6,), "image": (4,)}, classes=3).double()
    training = last(epochs=1, batch_size=4, hardware=hardware, clip_norm=5.0)
    fit(network, build_method(name), rare_views(), folder=folder, training=training)


@pytest.mark.parametrize("name", METHODS)
def test_a_modality_absent_on_one_rank(tmp_path, name):
    train(tmp_path / "one", name, Hardware(accelerator="cpu"))

    def work(rank):
        signal.alarm(60)  # a rank that waits for ever is ended, and the test fails
        train(tmp_path / "two", name, Hardware(accelerator="cpu", devices=2, strategy="ddp"))

    assert in_ranks(2, work) == [0, 0]
    results = [load_checkpoint(tmp_path / part / "checkpoints" / "last.safetensors")[0] for part in ("one", "two")]
    for key, value in results[0].items():
        if key.startswith("network."):
            # scores of OGM-GE, digammas of TMC and moments of bogc are 32-bit numbers
            torch.testing.assert_close(
                results[1][key], value, rtol=1e-5, atol=1e-7, msg=lambda text, k=key: f"{k}: {text}"
            )
