import math

import torch

from evigrad.networks import Gated
from tests.properties.fusions import WIDTHS, draw


@torch.no_grad()
def test_equals_a_loop_over_samples_and_dimensions():
    fusion, (features, present) = Gated(WIDTHS, 4, width=7).double(), draw()
    hidden = torch.zeros(6, 7, dtype=torch.float64)
    for row in range(6):
        there = [name for name in WIDTHS if present[name][row]]
        parts = [value[row] if name in there else torch.zeros(WIDTHS[name]) for name, value in features.items()]
        everything = torch.cat(parts).double()
        for dim in range(7):
            scores = {name: math.exp(float(fusion.gates[name](everything)[dim])) for name in there}
            for name in there:
                value = math.tanh(float(fusion.projections[name](features[name][row])[dim]))
                hidden[row, dim] += scores[name] / sum(scores.values()) * value
    torch.testing.assert_close(fusion(features, present), fusion.linear(hidden))


def test_two_modalities_share_by_a_sigmoid():
    fusion = Gated({"a": 2, "b": 2}, 3, width=4)
    features = {"a": torch.randn(5, 2), "b": torch.randn(5, 2)}
    both = torch.cat(list(features.values()), dim=1)
    gate = torch.sigmoid(fusion.gates["a"](both) - fusion.gates["b"](both))
    first, second = (fusion.projections[name](value).tanh() for name, value in features.items())
    torch.testing.assert_close(fusion(features), fusion.linear(gate * first + (1 - gate) * second))
