"""What every posterior structure offers, and the numerically careful pieces that they share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # documented, but not in its __all__

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures.forms import Forms

Statistics = dict[str, Tensor]

TINY_COUNT = 1e-12  # so that no samples at all divide to a curvature of zero


@dataclass(frozen=True)
class Seen:
    """What a head saw of B samples. Rows of absent samples are zero in ``inputs``, the bias column included."""

    inputs: Tensor  # ψ̃ [B, D]
    mean: Tensor  # what the head predicts, [B, C]
    present: Tensor  # 1 where the sample counts, else 0, [B]


class Gaussian(Protocol):
    """A zero-mean Gaussian over a head's weights Θ [C, D] around some centre; D = K + 1 with a bias, else K."""

    dense_forms: ClassVar[bool]  # whether `forms` holds C x C matrices

    def draw(self, noise: Tensor) -> Tensor:
        """Turn white noise [n, C, D] (any law with identity covariance) into deviations with this covariance."""
        ...

    def solve(self, vector: Tensor) -> Tensor:
        """Covariance times a [C, D] vector."""
        ...

    def weights(self, columns: int) -> Tensor:
        """Covariance over the outputs of each of the first ``columns`` columns, which all samples share."""
        ...

    def forms(self, inputs: Tensor, weights: Tensor) -> Forms:
        """Covariances at samples ``inputs`` [B, D] of the columns that ``weights`` were made for and the logits."""
        ...


class Structure(Gaussian, Protocol):
    """A Gaussian that can be fitted to what a head saw."""

    @classmethod
    def fit(cls, seen: Seen, loss: Likelihood, prior: float) -> Self:
        """Posterior given these samples."""
        ...


class Additive(Structure, Protocol):
    """A structure whose curvature adds up over samples, so that it can be averaged over steps and processes.

    Its dataclass fields are all tensors: they are what a checkpoint keeps.
    """

    def __init__(self, **state: Tensor) -> None: ...

    @classmethod
    def empty(cls, outputs: int, width: int, rank: int) -> Statistics:
        """Statistics of no samples at all; what is named ``fixed_...`` never changes."""
        ...

    @classmethod
    def observe(cls, empty: Statistics, seen: Seen, loss: Likelihood) -> Statistics:
        """Statistics of these samples alone."""
        ...

    @classmethod
    def from_statistics(cls, total: Statistics, count: Tensor, samples: Tensor, prior: float) -> Self:
        """Posterior given ``samples`` samples that look on average like the ``count`` ones summed in ``total``."""
        ...


def state(posterior: Additive) -> dict[str, Tensor]:
    """The tensors that a posterior is made of."""
    return {name: value.contiguous() for name, value in vars(posterior).items()}


def symmetric(matrix: Tensor) -> Tensor:
    """The symmetric part in float64: decompositions of these matrices in float32 fail on real features."""
    wide = matrix.double()
    return (wide + wide.mT) / 2


def cholesky(matrix: Tensor, what: str) -> Tensor:
    """Lower Cholesky factor in float64, with jitter that grows until the matrix is positive definite."""
    wide = symmetric(matrix)
    scale = wide.diagonal().abs().mean().clamp_min(torch.finfo(torch.float64).tiny)
    eye = torch.eye(len(wide), dtype=wide.dtype, device=wide.device)
    for jitter in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        factor, info = torch.linalg.cholesky_ex(wide + jitter * scale * eye)
        if int(info) == 0:
            return torch.as_tensor(factor)
    raise LinAlgError(
        f"The {what} is not positive definite even with jitter 1e-6 (mean of its diagonal {float(scale):.3g}). "
        "Check the features for infinite or huge values, or raise `prior_precision`."
    )


def eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (never negative) and eigenvectors of a positive semi-definite matrix, computed in float64."""
    values, vectors = _decomposed(torch.linalg.eigh, symmetric(matrix))
    return values.clamp_min(0), vectors


def moment_eigen(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The non-zero eigenvalues of Σψ̃ψ̃ᵀ and their eigenvectors, in float64, from ``inputs`` ψ̃ [B, D]."""
    _, values, basis = _decomposed(partial(torch.linalg.svd, full_matrices=False), inputs.double())
    return values.square(), basis.mT


def _decomposed(how: Callable[[Tensor], tuple[Tensor, ...]], matrix: Tensor) -> tuple[Tensor, ...]:
    if torch.compiler.is_compiling():
        return how(matrix)
    try:
        return how(matrix)
    except LinAlgError as error:
        broken = int((~matrix.isfinite()).sum())
        raise LinAlgError(
            f"A head's curvature could not be decomposed: {broken} of the {matrix.numel()} entries of a "
            f"{tuple(matrix.shape)} matrix are NaN or infinite. Look for a diverged encoder (lower the learning rate, "
            "clip gradients), or use curvature='running', which passes such a batch over."
        ) from error
