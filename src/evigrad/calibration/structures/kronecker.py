"""Curvature of the outputs times curvature of the features: the posterior that scales."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures.base import TINY_COUNT, Seen, Statistics, eigen, moment_eigen
from evigrad.calibration.structures.forms import DiagonalForms


@dataclass(frozen=True)
class Kronecker:
    """H = B̄ ⊗ A + τI with B̄ the mean of the B_j and A = Σψ̃ψ̃ᵀ, both by their eigenvectors, so that τ stays exact.

    Features beyond the kept eigenvectors (``basis``) share one eigenvalue, ``tail``: zero for a single batch, and the
    mean of what is left for a running average that is kept as a sketch.
    """

    basis: Tensor  # eigenvectors of A, [D, m]
    variance: Tensor  # 1 / (β_c α_k + τ), [C, m]
    tail: Tensor  # variance of each output off the basis, [C]; zero when the basis is complete
    outputs: Tensor  # eigenvectors of B̄, [C, C]

    dense_forms: ClassVar[bool] = False

    @classmethod
    def fit(cls, seen: Seen, loss: Likelihood, prior: float) -> Self:
        values, basis = moment_eigen(seen.inputs)
        average = loss.curvature_sum(seen.mean, seen.present) / seen.present.sum().clamp_min(TINY_COUNT)
        return cls._assemble((values, basis), torch.zeros_like(values[0]), average, prior)

    @classmethod
    def empty(cls, outputs: int, width: int, rank: int) -> Statistics:
        statistics = {"outputs": torch.zeros(outputs, outputs), "trace": torch.zeros(())}
        if width - 1 <= rank:
            return statistics | {"gram": torch.zeros(width, width)}
        probe = torch.randn(width, rank, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return statistics | {
            "gram": torch.zeros(width, rank),
            "fixed_probe": torch.linalg.qr(probe)[0].float().contiguous(),
        }

    @classmethod
    def observe(cls, empty: Statistics, seen: Seen, loss: Likelihood) -> Statistics:
        probe = empty.get("fixed_probe")
        right = seen.inputs if probe is None else seen.inputs @ probe.to(seen.inputs.dtype)
        return {
            "outputs": loss.curvature_sum(seen.mean, seen.present),
            "trace": seen.inputs.square().sum(),
            "gram": seen.inputs.T @ right,
        }

    @classmethod
    def from_statistics(cls, total: Statistics, count: Tensor, samples: Tensor, prior: float) -> Self:
        count = count.clamp_min(TINY_COUNT)
        per_sample = total["outputs"] / count
        scale = (samples / count).double()
        if "fixed_probe" not in total:
            values, basis = eigen(total["gram"])
            return cls._assemble((values * scale, basis), torch.zeros_like(values[0]), per_sample, prior)
        values, basis = _nystrom(total["gram"], total["fixed_probe"])
        left = (total["trace"].double() - values.sum()).clamp_min(0) / (basis.shape[0] - basis.shape[1])
        return cls._assemble((values * scale, basis), left * scale, per_sample, prior)

    @classmethod
    def _assemble(cls, features: tuple[Tensor, Tensor], tail: Tensor, output_curvature: Tensor, prior: float) -> Self:
        values, basis = features
        output_values, outputs = eigen(output_curvature)
        complete = basis.shape[1] == basis.shape[0]
        rest = 1 / (output_values * tail + prior) * (0.0 if complete else 1.0)
        variance = 1 / (output_values[:, None] * values + prior)
        dtype = output_curvature.dtype
        return cls(basis.to(dtype), variance.to(dtype), rest.to(dtype), outputs.to(dtype))

    def draw(self, noise: Tensor) -> Tensor:
        kept = noise @ self.basis
        rest = (noise - kept @ self.basis.T) * self.tail.sqrt()[:, None]
        return self.outputs @ ((kept * self.variance.sqrt()) @ self.basis.T + rest)

    def solve(self, vector: Tensor) -> Tensor:
        rotated = self.outputs.T @ vector
        kept = rotated @ self.basis
        rest = (rotated - kept @ self.basis.T) * self.tail[:, None]
        return self.outputs @ ((kept * self.variance) @ self.basis.T + rest)

    def weights(self, columns: int) -> Tensor:
        squares = self.basis[:columns].square()
        return self.variance @ squares.T + self.tail[:, None] * (1 - squares.sum(1)).clamp_min(0)

    def forms(self, inputs: Tensor, weights: Tensor) -> DiagonalForms:
        columns = weights.shape[-1]
        basis = self.basis[:columns]
        kept = inputs @ self.basis
        rest = (inputs - kept @ self.basis.T)[:, :columns]
        tail = self.tail[:, None]
        cross = (self.variance * kept[:, None, :]) @ basis.T
        return DiagonalForms(
            weights=weights,
            cross=torch.addcmul(cross, tail, rest[:, None, :]),
            logits=kept.square() @ self.variance.T
            + (inputs.square().sum(1) - kept.square().sum(1)).clamp_min(0)[:, None] * self.tail,
            basis=self.outputs,
        )


def _nystrom(sketch: Tensor, probe: Tensor) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs of A from its product with ``probe`` (one-pass Nyström, shifted for stability)."""
    wide, probe = sketch.double(), probe.double()
    small = torch.finfo(torch.float64).tiny
    shift = (1e-7 * torch.linalg.matrix_norm(wide)).clamp_min(small)
    shifted = wide + shift * probe
    inner_values, inner = eigen(probe.T @ shifted)
    # No eigenvalue is below the shift but for the rounding of long float32 sums, which must not become a divisor.
    thin = shifted @ (inner / inner_values.clamp_min(shift).sqrt())
    values, vectors = eigen(thin.T @ thin)
    basis = thin @ (vectors / values.clamp_min(small).sqrt())
    return (values - shift).clamp_min(0), basis
