"""What one modality says on its own, in the ways that are in circulation.

They disagree by ten points and more on the same network, so a number without its reading's name means nothing:

- ``probe``: freeze the encoder, fit a fresh linear classifier on its training features (see :mod:`~.probes`).
- ``own_head``: the method's own unimodal head, where it has one.
- ``block``: the modality's block of the joint head, ``z_m W_m^T + b / M``; defined for concatenation only.
- ``ablation``: the joint head when the features of all other modalities are taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from evigrad.methods import Method
    from evigrad.networks import Output

READINGS = ("own_head", "block", "ablation")
"""The readings that need no training; ``probe`` is the fourth."""


def read(
    reading: str, network: nn.Module, method: Method, output: Output, present: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Name -> scores ``[B, C]`` of each modality alone; empty where the network or method has no such reading."""
    if reading == "own_head":
        return method.unimodal_probabilities(output)
    fusion = _fusion(network)
    if reading == "block":
        return _blocks(fusion, output, present)
    return _ablations(fusion, output, present)


def _fusion(network: nn.Module) -> Any:
    from evigrad.methods.base import unwrap

    return unwrap(network).fusion


def _blocks(fusion: Any, output: Output, present: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not hasattr(fusion, "block_logits"):
        return {}
    blocks: dict[str, Tensor] = fusion.block_logits(output.features, present)
    return blocks


def _ablations(fusion: Any, output: Output, present: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not any(True for _ in fusion.parameters()):
        return {}
    scores = {}
    for name in output.features:
        alone = {
            other: features if other == name else torch.zeros_like(features)
            for other, features in output.features.items()
        }
        only = {other: mask if other == name else torch.zeros_like(mask) for other, mask in present.items()}
        scores[name] = fusion(alone, only)
    return scores
