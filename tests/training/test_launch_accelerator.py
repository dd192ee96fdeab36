import pytest
import torch

from evigrad.training import Hardware
from evigrad.training.launch import launch


@pytest.mark.parametrize("named", ["auto", "cpu"])
def test_a_gpu_without_64_bit_numbers_is_passed_over(monkeypatch, named):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert launch(Hardware(accelerator=named)).device == torch.device("cpu")


def test_a_gpu_without_64_bit_numbers_is_refused():
    with pytest.raises(ValueError, match=r"accelerator='mps' has no 64-bit numbers.*Use accelerator='cpu' here"):
        launch(Hardware(accelerator="mps"))
