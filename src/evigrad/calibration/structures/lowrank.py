"""The full posterior of one batch through a BC x BC problem, never a P x P one."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures.base import Seen, eigen
from evigrad.calibration.structures.forms import DenseForms


@dataclass(frozen=True)
class LowRank:
    """H = τI + UUᵀ exactly, U's blocks R_j ⊗ ψ̃_j; every inverse goes through the eigenvectors of UᵀU, which is BC x BC.

    With ``core`` N = R (τI + UᵀU)⁻¹ Rᵀ [B, C, B, C]:
    Cov(aᵀΘx, eᵀΘz) = (a·e x·z − Σ_ij (ψ̃_i·x)(ψ̃_j·z) aᵀN_ij e) / τ, and ``half`` is the same for the covariance's root.
    """

    inputs: Tensor  # ψ̃ [B, D]
    core: Tensor  # [B, C, B, C]
    half: Tensor  # [B, C, B, C]
    prior: float

    dense_forms: ClassVar[bool] = True

    @classmethod
    def fit(cls, seen: Seen, loss: Likelihood, prior: float) -> Self:
        root, inputs = loss.curvature_root(seen.mean).double(), seen.inputs.double()
        samples, outputs, _ = root.shape
        overlap = inputs @ inputs.T
        gram = torch.einsum("icr,jcs,ij->irjs", root, root, overlap).reshape(samples * outputs, -1)
        values, vectors = eigen(gram)
        # Directions that U maps to zero take no part; kept, they would cancel only up to rounding, times 1/τ.
        vectors = vectors * (values > 1e-13 * len(values) * values.amax())
        total = values + prior
        rotated = torch.einsum("icr,irv->icv", root, vectors.reshape(samples, outputs, -1)).flatten(0, 1)

        def sandwich(weight: Tensor) -> Tensor:
            inner = (rotated * weight) @ rotated.T
            blocks: Tensor = inner.reshape(samples, outputs, samples, outputs).to(seen.inputs.dtype)
            return blocks

        return cls(seen.inputs, sandwich(1 / total), sandwich(1 / (total + (prior * total).sqrt())), prior)

    def draw(self, noise: Tensor) -> Tensor:
        return self._apply(self.half, noise) / math.sqrt(self.prior)

    def solve(self, vector: Tensor) -> Tensor:
        return self._apply(self.core, vector) / self.prior

    def _apply(self, core: Tensor, vector: Tensor) -> Tensor:
        projected = self.inputs @ vector.mT  # Θψ̃_i for each sample, [..., B, C]
        back = torch.einsum("icje,...je->...ic", core, projected)
        result: Tensor = vector - back.mT @ self.inputs
        return result

    def weights(self, columns: int) -> Tensor:
        kept = self.inputs[:, :columns]
        half = torch.einsum("icje,jk->icek", self.core, kept)
        return (self._eye()[:, :, None] - torch.einsum("ik,icek->cek", kept, half)) / self.prior

    def forms(self, inputs: Tensor, weights: Tensor) -> DenseForms:
        eye, columns = self._eye(), weights.shape[-1]
        kept = self.inputs[:, :columns]
        overlap = inputs @ self.inputs.T
        right = torch.einsum("bj,icje->bice", overlap, self.core)
        cross = eye[:, :, None] * inputs[:, None, None, :columns] - torch.einsum("ik,bice->bcek", kept, right)
        logits = eye * inputs.square().sum(-1)[:, None, None] - torch.einsum("bi,bice->bce", overlap, right)
        return DenseForms(weights, cross / self.prior, logits / self.prior)

    def _eye(self) -> Tensor:
        return torch.eye(self.core.shape[1], dtype=self.core.dtype, device=self.core.device)
