"""What a multi-modal network returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Output"]


@dataclass(frozen=True)
class Output:
    """Everything a method may read from one forward pass (M modalities, B samples, C classes).

    Args:
        features: name -> ``[B, K_i]``; the row of a sample whose modality is absent is zero and carries no
            gradient.
        unimodal_logits: name -> ``[B, C]``; empty when the network has no unimodal heads. The row of an
            absent sample says nothing about it (it is the head's bias): mask it with the batch's ``present``.
        joint_logits: ``[B, C]``; all zero when the network has no fusion.
    """

    features: dict[str, Tensor]
    unimodal_logits: dict[str, Tensor]
    joint_logits: Tensor
