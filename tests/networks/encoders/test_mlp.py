import pytest
import torch
from torch import nn

from evigrad.networks import MLP


def test_is_affine_maps_with_relu():
    encoder, inputs = MLP((2, 3), width=4, hidden=(5,)), torch.randn(7, 2, 3)
    first, second = (layer for layer in encoder.modules() if isinstance(layer, nn.Linear))
    hidden = (inputs.reshape(7, 6) @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(encoder(inputs), (hidden @ second.weight.T + second.bias).clamp(min=0))


def test_dropout_spares_the_features():
    encoder = MLP((6,), width=50, hidden=(40,), dropout=0.5)
    kinds = [type(layer) for layer in encoder.layers]
    assert kinds.count(nn.Dropout) == 1
    assert kinds[-1] is nn.ReLU


@pytest.mark.parametrize("shape", [(4, 7), (4, 2, 2), (4,)])
def test_refuses_other_inputs(shape):
    encoder = MLP((2, 3), width=4)
    assert encoder(torch.zeros(4, 6)).shape == encoder(torch.zeros(4, 3, 2)).shape
    with pytest.raises(ValueError, match=r"`inputs` have shape .*, but this MLP was built .* \(2, 3\); give \[B, 6\]"):
        encoder(torch.zeros(shape))
