from copy import deepcopy

import pytest
import torch
from torch import nn

from evigrad.networks import MLP, SmallCNN
from evigrad.networks.presence import encode_present, mask_absent, zero_touching

SOME = torch.tensor([True, False, True, True, False])


@pytest.fixture
def images() -> torch.Tensor:
    values = torch.randn(5, 1, 6, 6)
    values[~SOME] = torch.nan
    return values


def test_present_rows_are_encoded_as_a_batch_of_their_own(images):
    torch.manual_seed(0)
    encoder, other = SmallCNN((1, 6, 6), width=4), SmallCNN((1, 6, 6), width=4)
    other.load_state_dict(encoder.state_dict())
    features, expected = encode_present(encoder, images, SOME), other(images[SOME])
    features.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(features[SOME], expected, rtol=0, atol=0)
    assert (features[~SOME] == 0).all()
    for mine, theirs in zip(encoder.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=0)
    for mine, theirs in zip(encoder.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_evaluation_gives_the_same_rows_with_static_shapes(images):
    encoder = SmallCNN((1, 6, 6), width=4).eval()
    features = encode_present(encoder, images, SOME)
    torch.testing.assert_close(features[SOME], encoder(images[SOME]))
    assert (features[~SOME] == 0).all()


def test_gradients_in_evaluation_are_those_of_the_present_rows(images):
    """An encoder with frozen statistics is in evaluation mode and still trained."""
    encoder, other = SmallCNN((1, 6, 6), width=4).eval(), SmallCNN((1, 6, 6), width=4).eval()
    other.load_state_dict(encoder.state_dict())
    encode_present(encoder, images, SOME).square().sum().backward()
    other(images[SOME]).square().sum().backward()
    for mine, theirs in zip(encoder.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_wholly_absent_modality_gives_zero_gradients_and_leaves_statistics(images):
    encoder = SmallCNN((1, 6, 6), width=4)
    before = [buffer.clone() for buffer in encoder.buffers()]
    features = encode_present(encoder, images, torch.zeros(5, dtype=torch.bool))
    (features + 1).square().sum().backward()
    assert features.shape == (5, 4)
    assert (features == 0).all()
    assert all(p.grad is not None and (p.grad == 0).all() for p in encoder.parameters())
    for buffer, old in zip(encoder.buffers(), before, strict=True):
        torch.testing.assert_close(buffer, old, rtol=0, atol=0)


def test_touching_is_zero_even_for_infinite_weights_and_skips_frozen_ones():
    encoder = MLP((3,), width=4)
    nn.init.constant_(encoder.layers[1].weight, torch.inf)
    encoder.layers[1].bias.requires_grad_(False)
    zero = zero_touching(encoder, 2, torch.device("cpu"))
    zero.sum().backward()
    assert (zero == 0).all()
    assert (encoder.layers[1].weight.grad == 0).all()
    assert encoder.layers[1].bias.grad is None


def test_tokens_keep_their_type():
    from evigrad.networks import TextEncoder

    encoder = TextEncoder((4,), vocabulary=9, width=8, heads=2).eval()
    words = torch.randint(1, 9, (5, 4))
    torch.testing.assert_close(encode_present(encoder, words, SOME)[SOME], encoder(words[SOME]))


def test_masking_blocks_the_gradient():
    values = torch.randn(5, 3, requires_grad=True)
    mask_absent({"a": values}, {"a": SOME})["a"].sum().backward()
    torch.testing.assert_close(values.grad, SOME[:, None].expand(5, 3).float())


class Normalised(nn.Module):
    width = 4

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.maps = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.features = nn.BatchNorm1d(4)

    def forward(self, inputs):
        return self.features(self.maps(self.conv(inputs)).mean(dim=(2, 3)))


@pytest.mark.parametrize("absent", [True, False])
def test_a_lone_sample_is_normalised_by_running_statistics_where_it_has_no_spread(absent):
    """The maps have 16 values a channel and are normalised as ever; the features have one, and PyTorch refuses it."""
    encoder, images = Normalised(), torch.randn(3 if absent else 1, 1, 6, 6)
    nn.init.constant_(encoder.features.running_mean, 0.5)
    nn.init.constant_(encoder.features.running_var, 4.0)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        deepcopy(encoder)(images[:1])
    maps = encoder.conv(images[:1])
    hidden = (maps - maps.mean(dim=(2, 3), keepdim=True)) / (
        maps.var(dim=(2, 3), keepdim=True, correction=0) + 1e-5
    ).sqrt()
    expected = (hidden.mean(dim=(2, 3)) - 0.5) / (4 + 1e-5) ** 0.5
    features = encode_present(encoder, images, torch.arange(len(images)) == 0)
    features.sum().backward()
    torch.testing.assert_close(features[:1], expected)
    assert int(encoder.maps.num_batches_tracked) == 1
    assert int(encoder.features.num_batches_tracked) == 0
    assert (encoder.features.running_mean == 0.5).all()
    assert all(layer.training and not layer._forward_pre_hooks for layer in encoder.modules())
    assert all(p.grad is not None for p in encoder.parameters())


def test_layers_are_put_back_when_a_lone_sample_fails():
    encoder = Normalised()
    encoder.maps.eval()
    with pytest.raises(RuntimeError):
        encode_present(encoder, torch.randn(1, 2, 6, 6), None)
    assert encoder.features.training
    assert not encoder.maps.training
    assert not encoder.features._forward_pre_hooks
