import pytest
import torch

from evigrad.networks import Concatenation
from tests.properties.fusions import WIDTHS, draw


def test_is_a_sum_of_blocks():
    fusion, (features, _) = Concatenation(WIDTHS, 4).double(), draw()
    by_hand = fusion.linear.bias + sum(features[name] @ fusion.block(name).T for name in WIDTHS)
    torch.testing.assert_close(fusion(features), by_hand)


def test_blocks_follow_the_order_of_the_modalities():
    fusion = Concatenation(WIDTHS, 4)
    torch.testing.assert_close(torch.cat([fusion.block(name) for name in WIDTHS], dim=1), fusion.linear.weight)


@pytest.mark.parametrize("missing", [False, True])
def test_block_logits_add_up_to_the_logits(missing):
    fusion, (features, present) = Concatenation(WIDTHS, 4).double(), draw()
    masks = present if missing else None
    total = sum(fusion.block_logits(features, masks).values())
    torch.testing.assert_close(total, fusion(features, masks))


def test_unknown_block_is_an_error():
    with pytest.raises(KeyError, match="no modality 'video' in this fusion"):
        Concatenation(WIDTHS, 4).block("video")
