"""Unimodal training: each encoder alone with its own linear head.

Provenance: the "audio-only" and "video-only" rows of every balancing paper; a single modality is
``modality="audio"``. Without a modality all of them are trained in one run, which is exactly M separate runs (no
parameter and no loss is shared) unless they meet in what is outside the method: the draws of dropout, clipping
by the norm of all gradients, and the choice of one epoch for all. The prediction is then the mean of their
probabilities over the modalities present: the ensemble of separately trained models that outranks most
balancing methods under a leak-free protocol (MCR, NeurIPS 2025). Left open by the papers: the schedule; video
needs several times the epochs of audio to converge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evigrad.calibration.errors import choose
from evigrad.methods.base import Method
from evigrad.methods.checks import needs_heads
from evigrad.methods.losses import unimodal_losses
from evigrad.networks import MultimodalNetwork, Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["Unimodal"]


class Unimodal(Method):
    """Minimise L_m of one modality, or Σ_m L_m of all of them without any joint head.

    Args:
        modality: the one to train, and to predict from; None trains all and predicts with their mean.
    """

    def __init__(self, modality: str | None = None) -> None:
        super().__init__()
        self.modality = modality

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Remove the fusion, and everything of the other modalities."""
        needs_heads(network, "Unimodal")
        if self.modality is not None:
            choose("modality", self.modality, network.modalities)
            network.keep([self.modality])
        network.drop_fusion()

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Σ_m L_m over the modalities that are trained."""
        return torch.stack(list(unimodal_losses(output, batch).values())).sum()

    def predict(self, output: Output, present: dict[str, Tensor]) -> Tensor:
        """The own heads' probabilities, averaged over the modalities present; uniform where none is."""
        own = self.unimodal_probabilities(output)
        masks = torch.stack([present[name] for name in own])[..., None]
        total = (torch.stack(list(own.values())) * masks).sum(dim=0)
        count = masks.sum(dim=0)
        uniform = torch.full_like(total, 1.0 / total.shape[1])
        return torch.where(count > 0, total / count.clamp(min=1), uniform)
