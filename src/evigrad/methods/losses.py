"""Cross-entropies that respect absent modalities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from evigrad.networks import Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["joint_loss", "present_mean", "unimodal_losses"]


def joint_loss(output: Output, batch: Batch) -> Tensor:
    """Mean cross-entropy of the joint logits, L_mm."""
    return F.cross_entropy(output.joint_logits, batch.target)


def unimodal_losses(output: Output, batch: Batch) -> dict[str, Tensor]:
    r"""Cross-entropy L_m of each modality's own head over the samples that have it: name -> scalar.

    .. math:: L_m = \frac{1}{B} \sum_{t:\ m \text{ present in } t} \mathrm{CE}(u_{m,t}, y_t)

    The divisor is B and not the number present: then every (sample, modality) pair weighs the same, and the
    loss of a batch is the mean of the losses of its equal parts, over micro-batches or ranks.
    """
    return {
        name: present_mean(F.cross_entropy(logits, batch.target, reduction="none"), batch.present[name])
        for name, logits in output.unimodal_logits.items()
    }


def present_mean(values: Tensor, present: Tensor) -> Tensor:
    """Sum of ``values`` ``[B]`` over the samples present, divided by B.

    Example:
        >>> import torch
        >>> present_mean(torch.tensor([1.0, float("nan"), 5.0]), torch.tensor([True, False, True]))
        tensor(2.)
    """
    return values.masked_fill(~present, 0.0).mean()
