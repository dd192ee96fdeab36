import torch

from evigrad.networks import FiLM
from tests.properties.fusions import WIDTHS, draw


def test_equals_a_loop_over_samples_and_modalities():
    fusion, (features, present) = FiLM(WIDTHS, 4, width=7).double(), draw()
    hidden = torch.zeros(6, 7, dtype=torch.float64)
    for row in range(6):
        projected = {n: fusion.projections[n](features[n][row]) for n in WIDTHS if present[n][row]}
        for name, value in projected.items():
            others = [other for key, other in projected.items() if key != name]
            context = sum(others) / len(others) if others else torch.zeros(7, dtype=torch.float64)
            both = fusion.modulations[name].weight @ context
            hidden[row] += (1 + both[:7]) * value + both[7:]
    torch.testing.assert_close(fusion(features, present), fusion.linear(hidden))


def test_a_modality_alone_is_not_modulated():
    fusion = FiLM({"sound": 3}, 4, width=7)
    value = torch.randn(2, 3)
    torch.testing.assert_close(fusion({"sound": value}), fusion.linear(fusion.projections["sound"](value)))
