"""One joint loss: plain late-fusion training, the reference of most methods.

Provenance: balancing papers' "joint" or "concat" row; nothing is left open. Official code keeps the untrained
unimodal heads in the model; here they are removed, because DistributedDataParallel fails on parameters without
a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from evigrad.methods.base import Method
from evigrad.methods.losses import joint_loss
from evigrad.networks import MultimodalNetwork, Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["Joint"]


class Joint(Method):
    """Minimise the joint head's cross-entropy L_mm alone."""

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Remove the unimodal heads."""
        network.drop_heads()

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """L_mm."""
        return joint_loss(output, batch)
