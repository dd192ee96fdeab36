"""Uniform baseline: joint loss plus unimodal losses, equally weighted.

Provenance: the BOGC paper's equation 1, L = L_fusion + φ Σ_m L_m with φ = 1, and the "uniform" row of MMPareto.
Left open: what a missing modality does to L_m; here it contributes nothing and the divisor stays B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from evigrad.calibration.errors import positive
from evigrad.methods.base import Method
from evigrad.methods.checks import needs_heads
from evigrad.methods.losses import joint_loss, unimodal_losses
from evigrad.networks import MultimodalNetwork, Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["Uniform"]


class Uniform(Method):
    """Minimise L_mm + φ Σ_m L_m.

    Args:
        unimodal_weight: φ; 1 because the papers weight all losses alike, and 0 is :class:`Joint` with idle
            heads.
    """

    def __init__(self, unimodal_weight: float = 1.0) -> None:
        super().__init__()
        self.unimodal_weight = positive("unimodal_weight", unimodal_weight, allow_zero=True)

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Nothing to adapt: the network's own heads are what is trained."""
        needs_heads(network, "Uniform")

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """L_mm + φ Σ_m L_m."""
        own = sum(unimodal_losses(output, batch).values(), start=output.joint_logits.new_zeros(()))
        return joint_loss(output, batch) + self.unimodal_weight * own
