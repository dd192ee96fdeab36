"""The whole P x P precision, P = C·D: the oracle, for small heads."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures.base import TINY_COUNT, Seen, Statistics, cholesky
from evigrad.calibration.structures.forms import DenseForms


@dataclass(frozen=True)
class Full:
    """H = Σ_j B_j ⊗ ψ̃_jψ̃_jᵀ + τI, inverted as it is; memory and time grow with (C·D)² and (C·D)³."""

    covariance: Tensor  # [C, D, C, D]
    root: Tensor  # [P, P], root rootᵀ = covariance

    dense_forms: ClassVar[bool] = True

    @classmethod
    def fit(cls, seen: Seen, loss: Likelihood, prior: float) -> Self:
        count = seen.present.sum()
        return cls.from_statistics(cls.observe({}, seen, loss), count, count, prior)

    @classmethod
    def empty(cls, outputs: int, width: int, rank: int) -> Statistics:
        return {"curvature": torch.zeros(outputs, width, outputs, width)}

    @classmethod
    def observe(cls, empty: Statistics, seen: Seen, loss: Likelihood) -> Statistics:
        scaled = torch.einsum("bcr,bd->brcd", loss.curvature_root(seen.mean), seen.inputs).flatten(0, 1)
        outputs, width = scaled.shape[1:]
        flat = scaled.flatten(1)
        return {"curvature": (flat.T @ flat).reshape(outputs, width, outputs, width)}

    @classmethod
    def from_statistics(cls, total: Statistics, count: Tensor, samples: Tensor, prior: float) -> Self:
        curvature = total["curvature"]
        outputs, width = curvature.shape[:2]
        size = outputs * width
        eye = torch.eye(size, dtype=torch.float64, device=curvature.device)
        precision = curvature.double().reshape(size, size) * (samples / count.clamp_min(TINY_COUNT)) + prior * eye
        factor = cholesky(precision, "posterior precision of a `full` posterior")
        root = torch.linalg.solve_triangular(factor.mT, eye, upper=True)
        covariance = (root @ root.mT).reshape(outputs, width, outputs, width)
        return cls(covariance.to(curvature.dtype), root.to(curvature.dtype))

    def draw(self, noise: Tensor) -> Tensor:
        return (noise.flatten(1) @ self.root.T).view_as(noise)

    def solve(self, vector: Tensor) -> Tensor:
        return torch.einsum("cdek,ek->cd", self.covariance, vector)

    def weights(self, columns: int) -> Tensor:
        return torch.einsum("cded->ced", self.covariance)[..., :columns]

    def forms(self, inputs: Tensor, weights: Tensor) -> DenseForms:
        rows = torch.einsum("cdek,bk->bced", self.covariance, inputs)
        return DenseForms(
            weights=weights,
            cross=rows[..., : weights.shape[-1]],
            logits=torch.einsum("bced,bd->bce", rows, inputs),
        )
