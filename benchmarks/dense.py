"""The dense P x P Laplace posterior with 512 draws, as `CalibratedLoss` itself offers it: the reference to be beaten.

Measured where it can run (C = 2, 3 and 6, one thread), as one criterion and stage by stage; `tables.py` extrapolates
the stages by their counts of operations, P³ for the posterior and nP² for the draws.
"""

from typing import Any

import torch
from torch import nn

from benchmarks.criteria import Shapes, calibrated_step
from benchmarks.measure import seconds
from evigrad.calibration import moments, posterior

DRAWS = 512


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case for each number of classes: the whole criterion, and the stages of a unimodal and of the joint head."""
    samples, features, modalities = (8, 8, 2) if quick else (64, 512, 2)
    draws = 16 if quick else DRAWS
    cases = []
    for classes in (2, 3) if quick else (2, 3, 6):
        shapes = Shapes(samples, classes, features, modalities)
        step = calibrated_step(shapes, posterior="full", curvature="batch", moments="monte_carlo", draws=draws)
        heads = [_stages(shapes, width, draws) for width in (features, modalities * features)]
        cases.append(vars(shapes) | {"draws": draws, "whole": [seconds(step)], "heads": heads})
    return cases


def _stages(shapes: Shapes, width: int, draws: int) -> dict[str, Any]:
    head = nn.Linear(width, shapes.classes)
    inputs, target = torch.randn(shapes.samples, width).relu(), torch.randint(shapes.classes, (shapes.samples,))
    belief = posterior(head, inputs, "full")
    return {
        "parameters": shapes.classes * (width + 1),
        "posterior": [seconds(lambda: posterior(head, inputs, "full"))],
        "draws": [seconds(lambda: moments(belief, head, inputs, target, method="monte_carlo", draws=draws))],
    }
