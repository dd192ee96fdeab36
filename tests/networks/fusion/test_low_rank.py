import pytest
import torch

from evigrad.networks import LowRankTensor, build_network
from tests.properties.fusions import WIDTHS, draw


def test_equals_the_full_tensor_product():
    """The weight tensor is built in full and contracted with the outer product of all [z; 1]."""
    fusion = LowRankTensor(WIDTHS, 4, width=5, rank=3).double()
    torch.nn.init.normal_(fusion.mixture)
    features, _ = draw()
    weight = {
        name: torch.cat([factor.weight, 1 + factor.bias[:, None]], dim=1).view(3, 5, -1)
        for name, factor in fusion.factors.items()
    }
    tensor = torch.einsum("r,rka,rkb,rkc->kabc", fusion.mixture, *(weight[name] for name in WIDTHS))
    extended = [torch.cat([value, torch.ones(6, 1).double()], dim=1) for value in features.values()]
    hidden = torch.einsum("kabc,na,nb,nc->nk", tensor, *extended)
    torch.testing.assert_close(fusion(features), fusion.linear(hidden))


@pytest.mark.parametrize("scheme", [None, "ogm", "mmpareto"])
def test_the_product_starts_at_one_whatever_the_initialisation(scheme):
    """Without features every factor is its offset, so what the last layer reads is the product of ones."""
    network = build_network(dict.fromkeys("abcdef", (3,)), 4, fusion="low_rank_tensor", initialisation=scheme)
    zeros = {name: torch.zeros(2, width) for name, width in network.fusion.widths.items()}
    torch.testing.assert_close(network.fusion.combine(zeros, None), torch.ones(2, 128))


def test_an_absent_modality_leaves_the_product():
    features, present = draw()
    present["words"][:] = False
    fusion = LowRankTensor(WIDTHS, 4).double()
    without = LowRankTensor({"sound": 3, "image": 5}, 4).double()
    without.load_state_dict({k: v for k, v in fusion.state_dict().items() if "words" not in k})
    torch.testing.assert_close(fusion(features, present), without(features, present))
