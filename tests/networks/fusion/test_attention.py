import torch

from evigrad.networks import Attention
from tests.properties.fusions import WIDTHS, draw


def test_an_absent_modality_is_as_if_it_were_not_there():
    features, present = draw()
    present["words"][:] = False
    fusion = Attention(WIDTHS, 4).double().eval()
    without = Attention({"sound": 3, "image": 5}, 4).double().eval()
    without.load_state_dict({k: v for k, v in fusion.state_dict().items() if "words" not in k})
    torch.testing.assert_close(fusion(features, present), without(features, present))
