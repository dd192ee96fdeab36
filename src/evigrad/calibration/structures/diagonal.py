"""Every weight on its own: the cheapest posterior."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures.base import TINY_COUNT, Seen, Statistics
from evigrad.calibration.structures.forms import DiagonalForms


@dataclass(frozen=True)
class Diagonal:
    """The diagonal of H: 1/variance_cd = Σ_j (B_j)_cc ψ̃_jd² + τ; every correlation is dropped."""

    variance: Tensor  # [C, D]

    dense_forms: ClassVar[bool] = False

    @classmethod
    def fit(cls, seen: Seen, loss: Likelihood, prior: float) -> Self:
        count = seen.present.sum()
        return cls.from_statistics(cls.observe({}, seen, loss), count, count, prior)

    @classmethod
    def empty(cls, outputs: int, width: int, rank: int) -> Statistics:
        return {"curvature": torch.zeros(outputs, width)}

    @classmethod
    def observe(cls, empty: Statistics, seen: Seen, loss: Likelihood) -> Statistics:
        return {"curvature": loss.curvature_diagonal(seen.mean).T @ seen.inputs.square()}

    @classmethod
    def from_statistics(cls, total: Statistics, count: Tensor, samples: Tensor, prior: float) -> Self:
        return cls(1 / (total["curvature"] * (samples / count.clamp_min(TINY_COUNT)) + prior))

    def draw(self, noise: Tensor) -> Tensor:
        return noise * self.variance.sqrt()

    def solve(self, vector: Tensor) -> Tensor:
        return self.variance * vector

    def weights(self, columns: int) -> Tensor:
        return self.variance[:, :columns]

    def forms(self, inputs: Tensor, weights: Tensor) -> DiagonalForms:
        return DiagonalForms(
            weights=weights,
            cross=weights * inputs[:, None, : weights.shape[-1]],
            logits=inputs.square() @ self.variance.T,
            basis=None,
        )
