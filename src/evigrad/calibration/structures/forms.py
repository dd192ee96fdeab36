"""Covariances between entries of a head's weights and its logits: all that a gradient's variance needs.

For a random head Θ = [W, b] with C outputs, columns W_d and logits f = Θψ̃, three covariances over outputs suffice:

- ``weights``: Cov(W_cd, W_c'd) for each column d;
- ``cross``: Cov(W_cd, f_c') for each sample and column;
- ``logits``: Cov(f_c, f_c') for each sample.

If all of them are diagonal in one basis of the outputs they are kept as diagonals in that basis (`DiagonalForms`: one
number in place of a C x C matrix); if not, as matrices (`DenseForms`).
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Forms(Protocol):
    """Covariances of a random head at B samples and K of its columns."""

    def linear(self, residual: Tensor, sensitivity: Tensor) -> Tensor:
        """Variance [B, K] of r·W_d + f·h_d for fixed r = ``residual`` [B, C] and h = ``sensitivity`` [B, C, K]."""
        ...

    def product_mean(self) -> Tensor:
        """E[Σ_c W_cd f_c] minus its value at the means, [B, K]."""
        ...

    def product_variance(self) -> Tensor:
        """What the variance of Σ_c W_cd f_c has beyond its linear part, [B, K]."""
        ...


@dataclass(frozen=True)
class DiagonalForms:
    """Covariances that are diagonal in the orthonormal ``basis`` [C, C] of the outputs (None: the outputs as such)."""

    weights: Tensor  # [C, K]
    cross: Tensor  # [B, C, K]
    logits: Tensor  # [B, C]
    basis: Tensor | None

    def linear(self, residual: Tensor, sensitivity: Tensor) -> Tensor:
        r, h = residual, sensitivity
        if self.basis is not None:
            r, h = r @ self.basis, self.basis.T @ h
        inner = torch.addcmul(2 * r[:, :, None] * self.cross, h, self.logits[:, :, None])
        return r.square() @ self.weights + (h * inner).sum(1)

    def product_mean(self) -> Tensor:
        return self.cross.sum(1)

    def product_variance(self) -> Tensor:
        return self.logits @ self.weights + self.cross.square().sum(1)


@dataclass(frozen=True)
class DenseForms:
    """Covariances without structure over the outputs."""

    weights: Tensor  # [C, C, K]
    cross: Tensor  # [B, C, C, K], the weight's output first
    logits: Tensor  # [B, C, C]

    def linear(self, residual: Tensor, sensitivity: Tensor) -> Tensor:
        r, h = residual, sensitivity
        return (
            torch.einsum("bc,cek,be->bk", r, self.weights, r)
            + 2 * torch.einsum("bc,bcek,bek->bk", r, self.cross, h)
            + torch.einsum("bck,bce,bek->bk", h, self.logits, h)
        )

    def product_mean(self) -> Tensor:
        return torch.einsum("bcck->bk", self.cross)

    def product_variance(self) -> Tensor:
        return torch.einsum("cek,bce->bk", self.weights, self.logits) + torch.einsum(
            "bcek,beck->bk", self.cross, self.cross
        )
