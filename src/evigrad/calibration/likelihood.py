"""The three losses a linear head may have: their value, their gradient at the logits and their curvature.

A loss is a negative log-likelihood up to a constant factor. Its *value* follows PyTorch's own reduction (mean over the
outputs for ``binary`` and ``square``), its *curvature* is that of the negative log-likelihood itself: a sum.
"""

from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from evigrad.calibration.errors import choose


class Likelihood(Protocol):
    """What the calibration needs to know of a loss; B samples, C outputs, K features.

    ``mean`` is what the logits predict (class probabilities, or the value itself for ``square``).
    """

    quadratic: ClassVar[bool]

    def value(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of each sample, [B]."""
        ...

    def mean(self, logits: Tensor) -> Tensor:
        """Prediction, [..., C]."""
        ...

    def residual(self, mean: Tensor, target: Tensor) -> Tensor:
        """Gradient of the value at the logits, [..., C]."""
        ...

    def sensitivity(self, mean: Tensor, directions: Tensor) -> Tensor:
        """Derivative of the residual along C-dimensional directions [B, C, K], the same shape."""
        ...

    def outputs_averaged(self, outputs: int) -> int:
        """By what the value divides the negative log-likelihood."""
        ...

    def curvature_diagonal(self, mean: Tensor) -> Tensor:
        """Diagonal of the curvature of each sample, [B, C]."""
        ...

    def curvature_sum(self, mean: Tensor, weight: Tensor) -> Tensor:
        """Curvature at the logits summed over the samples with ``weight`` [B], [C, C]."""
        ...

    def curvature_root(self, mean: Tensor) -> Tensor:
        """R with R Rᵀ = curvature of each sample, [B, C, C]."""
        ...


class CrossEntropy:
    """Softmax cross-entropy; the target is a class index [B] or a distribution [B, C]."""

    quadratic: ClassVar[bool] = False

    def value(self, logits: Tensor, target: Tensor) -> Tensor:
        target = target.to(logits.dtype) if target.is_floating_point() else target
        return F.cross_entropy(logits, target, reduction="none")

    def mean(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def residual(self, mean: Tensor, target: Tensor) -> Tensor:
        if target.is_floating_point():
            return mean - target
        return mean - F.one_hot(target, mean.shape[-1]).to(mean.dtype)

    def sensitivity(self, mean: Tensor, directions: Tensor) -> Tensor:
        average = torch.einsum("bc,bck->bk", mean, directions.expand(len(mean), -1, -1))
        return mean[:, :, None] * (directions - average[:, None, :])

    def outputs_averaged(self, outputs: int) -> int:
        return 1

    def curvature_diagonal(self, mean: Tensor) -> Tensor:
        return mean * (1 - mean)

    def curvature_sum(self, mean: Tensor, weight: Tensor) -> Tensor:
        weighted = mean * weight[:, None]
        return torch.diag(weighted.sum(0)) - weighted.T @ mean

    def curvature_root(self, mean: Tensor) -> Tensor:
        root = mean.sqrt()
        return torch.diag_embed(root) - mean[:, :, None] * root[:, None, :]


class _Separable:
    """A loss whose outputs do not interact: every curvature is diagonal."""

    def outputs_averaged(self, outputs: int) -> int:
        return outputs

    def curvature_diagonal(self, mean: Tensor) -> Tensor:
        raise NotImplementedError

    def sensitivity(self, mean: Tensor, directions: Tensor) -> Tensor:
        return (self.curvature_diagonal(mean) / mean.shape[-1])[:, :, None] * directions

    def curvature_sum(self, mean: Tensor, weight: Tensor) -> Tensor:
        return torch.diag(weight @ self.curvature_diagonal(mean))

    def curvature_root(self, mean: Tensor) -> Tensor:
        return torch.diag_embed(self.curvature_diagonal(mean).sqrt())


class Binary(_Separable):
    """Independent sigmoid outputs (binary or multi-label); the target is [B, C] in [0, 1]."""

    quadratic: ClassVar[bool] = False

    def value(self, logits: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none").mean(-1)

    def mean(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def residual(self, mean: Tensor, target: Tensor) -> Tensor:
        return (mean - target) / mean.shape[-1]

    def curvature_diagonal(self, mean: Tensor) -> Tensor:
        return mean * (1 - mean)


class Square(_Separable):
    """Squared error, ``mean((prediction - target)²)`` over the outputs; the target is [B, C]."""

    quadratic: ClassVar[bool] = True

    def value(self, logits: Tensor, target: Tensor) -> Tensor:
        return (logits - target.to(logits.dtype)).square().mean(-1)

    def mean(self, logits: Tensor) -> Tensor:
        return logits

    def residual(self, mean: Tensor, target: Tensor) -> Tensor:
        return 2 * (mean - target) / mean.shape[-1]

    def curvature_diagonal(self, mean: Tensor) -> Tensor:
        return torch.full_like(mean, 2.0)


LOSSES: dict[str, Likelihood] = {"cross_entropy": CrossEntropy(), "binary": Binary(), "square": Square()}


def likelihood(loss: str) -> Likelihood:
    """The loss with this name: ``cross_entropy``, ``binary`` or ``square``."""
    return LOSSES[choose("loss", loss, LOSSES)]
