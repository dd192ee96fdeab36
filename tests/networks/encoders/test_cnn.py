import pytest
import torch

from evigrad.networks import SmallCNN


@pytest.mark.parametrize("size", [(1, 28, 28), (3, 5, 7), (2, 1, 1)])
def test_reads_images_of_any_size(size):
    assert SmallCNN(size, width=12)(torch.randn(4, *size)).shape == (4, 12)


def test_clip_is_the_mean_of_its_frames():
    encoder = SmallCNN((1, 3, 8, 8), width=8).eval()
    clip = torch.randn(2, 1, 3, 8, 8)
    torch.testing.assert_close(encoder(clip), torch.stack([encoder(clip[:, :, t]) for t in range(3)]).mean(dim=0))


def test_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"`shape` \(5, 5\) is neither .* which SmallCNN reads"):
        SmallCNN((5, 5))
    with pytest.raises(ValueError, match=r"`inputs` have shape \(2, 3, 5, 5\); .* with the C = 1 channels"):
        SmallCNN((1, 5, 5))(torch.zeros(2, 3, 5, 5))
