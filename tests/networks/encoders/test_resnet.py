import pytest
import torch
from torch import nn

from evigrad.networks import ResNet18


def test_has_the_published_number_of_parameters():
    assert sum(p.numel() for p in ResNet18((3, 64, 64)).parameters()) == 11_176_512


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_reads_any_number_of_channels_and_any_size(channels):
    encoder = ResNet18((channels, 64, 64)).eval()
    assert encoder(torch.randn(2, channels, 70, 45)).shape == (2, 512)


def test_clip_is_the_mean_of_its_frames():
    encoder = ResNet18((3, 4, 48, 48)).eval()
    clip = torch.randn(2, 3, 4, 48, 48)
    frames = torch.stack([encoder(clip[:, :, t]) for t in range(4)]).mean(dim=0)
    torch.testing.assert_close(encoder(clip), frames)


def test_statistics_are_those_of_all_frames():
    clip, encoder = torch.randn(3, 1, 2, 32, 32), ResNet18((1, 2, 32, 32))
    encoder(clip)
    images = torch.cat([clip[:, :, 0], clip[:, :, 1]])
    maps = nn.functional.conv2d(images, encoder.conv.weight, stride=2, padding=3)
    torch.testing.assert_close(encoder.norm.running_mean, 0.1 * maps.mean(dim=(0, 2, 3)), rtol=1e-4, atol=1e-6)


def test_equals_a_third_party_resnet():
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], embedding_size=64, layer_type="basic"
    )
    theirs, ours = transformers.ResNetModel(config).eval(), ResNet18((3, 64, 64)).eval()
    copy(theirs.embedder.embedder, ours.conv, ours.norm)
    for their_stage, our_stage in zip(theirs.encoder.stages, ours.stages, strict=True):
        for their_block, block in zip(their_stage.layers, our_stage, strict=True):
            copy(their_block.layer[0], block.conv1, block.norm1)
            copy(their_block.layer[1], block.conv2, block.norm2)
            if not isinstance(block.shortcut, nn.Identity):
                copy(their_block.shortcut, *block.shortcut)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = theirs(images).pooler_output.flatten(1)
        torch.testing.assert_close(ours(images), expected, rtol=1e-4, atol=1e-4)


def copy(theirs: nn.Module, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    theirs.convolution.load_state_dict(conv.state_dict())
    theirs.normalization.load_state_dict(norm.state_dict())


def test_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"`shape` \(40,\) is neither .* take another encoder such as MLP"):
        ResNet18((40,))
    with pytest.raises(ValueError, match=r"`inputs` have shape \(2, 3, 8\); give \[B, C, H, W\] images"):
        ResNet18((3, 8, 8))(torch.zeros(2, 3, 8))
