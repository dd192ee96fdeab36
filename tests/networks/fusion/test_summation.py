import pytest
import torch

from evigrad.networks import Sum
from tests.properties.fusions import WIDTHS, draw


def test_is_the_linear_layer_of_a_sum():
    fusion, (features, present) = Sum(WIDTHS, 4, width=7).double(), draw()
    hidden = torch.zeros(6, 7, dtype=torch.float64)
    for row in range(6):
        for name, value in features.items():
            if present[name][row]:
                hidden[row] += fusion.projections[name].weight @ value[row]
    torch.testing.assert_close(fusion(features, present), fusion.linear(hidden))


@pytest.mark.parametrize("missing", [False, True])
def test_block_logits_add_up_to_the_logits(missing):
    fusion, (features, present) = Sum(WIDTHS, 4).double(), draw()
    masks = present if missing else None
    torch.testing.assert_close(sum(fusion.block_logits(features, masks).values()), fusion(features, masks))
