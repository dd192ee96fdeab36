import pytest
import torch
from torch import nn

from evigrad.training import fit
from evigrad.training.checkpoint import load_checkpoint
from evigrad.training.ema import WeightAverage
from tests.training.toy import last, method, network, views


def test_the_average_equals_a_loop():
    layer = nn.Linear(1, 1, bias=False)
    average, expected = WeightAverage(layer, decay=0.5), layer.weight.item()
    for step in range(8):
        with torch.no_grad():
            layer.weight.fill_(step**2)
        average.update(layer)
        rate = min(0.5, (1 + step) / (10 + step))
        expected = rate * expected + (1 - rate) * step**2
    assert average.weights["weight"].item() == pytest.approx(expected, rel=1e-6)


def test_the_weights_come_back_also_after_an_error():
    layer = nn.Linear(2, 2)
    average, before = WeightAverage(layer, 0.9), layer.weight.detach().clone()
    average.weights["weight"].fill_(7.0)

    def look():
        with average.in_place_of(layer):
            assert (layer.weight == 7.0).all()
            raise RuntimeError("while evaluating")

    with pytest.raises(RuntimeError, match="while evaluating"):
        look()
    assert torch.equal(layer.weight, before)


def test_a_run_reports_the_averaged_weights(tmp_path):
    model = network()
    result = fit(model, method(), views(48), folder=tmp_path, training=last(epochs=3, ema_decay=0.9))
    tensors, _ = load_checkpoint(tmp_path / "checkpoints" / "last.safetensors")
    for name, value in model.named_parameters():
        assert torch.equal(value, tensors[f"average.{name}"])
        assert not torch.equal(value, tensors[f"network.{name}"])
    assert result.protocol["weights"] == "exponential average"
