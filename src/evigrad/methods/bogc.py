r"""BOGC-MML: gradients calibrated by their own uncertainty.

The loss is the uniform baseline's, L_mm + φ Σ L_m, and heads get its ordinary gradients. The features of each
modality get, per sample and dimension, their unimodal and joint gradient weighted by the evidence for each. The
work is done by :class:`evigrad.calibration.CalibratedLoss`.

Provenance: "Rethinking Multi-Modal Learning from Gradient Uncertainty". The paper prints a covariance where its
inverse is meant, a sum over dimensions where none can be, no rescaling, and leaves open which data the
curvature sees; every reading is an option here, named and explained at
:class:`~evigrad.calibration.CalibratedLoss`. There is no official code to compare with. The data set size N of
the running posterior is the training set's. γ is a learning-rate factor of the encoders and cancels under Adam;
the weighting itself does not, so no optimizer is warned of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from evigrad.calibration import CalibratedLoss, CalibratedOutput, Diagnostics
from evigrad.calibration.errors import choose
from evigrad.calibration.readings import FUSIONS
from evigrad.methods.base import StepResult, Surgery
from evigrad.methods.uniform import Uniform
from evigrad.networks import Concatenation, MultimodalNetwork, Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["BOGC"]


class BOGC(Uniform):
    """Uniform training whose encoders receive evidence-weighted gradients.

    The options and their defaults are those of :class:`~evigrad.calibration.CalibratedLoss`.

    Args:
        unimodal_weight: φ; 1 is the sum that the paper trains with.
        evidence_power: s in e = λ^s; the paper's 0.5. 0 weighs everything alike.
        scale: γ, by which the rescaled gradient is multiplied; the paper's 1.5.
        posterior: ``"kronecker"``, which scales to any number of classes; ``"diagonal"``; ``"full"``, for small heads;
            ``"lowrank"``, exact, with batch curvature only.
        curvature: ``"running"``, a posterior given the data, or ``"batch"``, as printed, given one batch.
        centre: ``"weights"``, those that are trained, or ``"newton"``, as printed: a step from one batch, which leads
            far off them.
        moments: ``"linearized"``, without draws and so repeatable, or ``"monte_carlo"``, as printed.
        joint_source: the joint gradient's distribution, from the joint ``"head"``, or as printed the ``"average"`` of
            the unimodal ones, which come from other feature spaces.
        reference: ``"none"``, as printed, or ``"power"``: evidence that doesn't change with the scale of the loss.
        weights: ``"printed"``, or ``"source"``: normalised over the two sources.
        rescale: ``"batch"`` restores the norm over the batch, as the printed weights would shrink it by 1/K²;
            ``"sample"`` of every sample; ``"none"``.
        prior_precision: τ of the Gaussian prior over every head's weights; 1 is a unit normal one.
    """

    def __init__(
        self,
        unimodal_weight: float = 1.0,
        evidence_power: float = 0.5,
        scale: float = 1.5,
        posterior: str = "kronecker",
        curvature: str = "running",
        centre: str = "weights",
        moments: str = "linearized",
        joint_source: str = "head",
        reference: str = "none",
        weights: str = "printed",
        rescale: str = "batch",
        prior_precision: float = 1.0,
    ) -> None:
        super().__init__(unimodal_weight)
        self._options: dict[str, Any] = {
            "unimodal_weight": unimodal_weight,
            "evidence_power": evidence_power,
            "scale": scale,
            "posterior": posterior,
            "curvature": curvature,
            "centre": centre,
            "moments": moments,
            "fusion": joint_source,
            "reference": reference,
            "weights": weights,
            "rescale": rescale,
            "prior_precision": prior_precision,
        }
        choose("joint_source", joint_source, FUSIONS)
        # an unknown reading is an error now, and not after the data have been read; the stand-in's weights are
        # not drawn, for the global generator to stay as it was
        stand_in = skip_init(nn.Linear, 1, 2)  # type: ignore[no-untyped-call]
        CalibratedLoss(heads={"x": stand_in}, joint_head=stand_in, **self._options)
        self._criterion: list[CalibratedLoss] = []
        self._diagnostics = Diagnostics()

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Build the criterion around the network's heads and fusion."""
        super().prepare(network, dataset_size, steps_per_epoch, epochs)
        fusion = network.fusion
        joint = {"joint_head": fusion.linear} if isinstance(fusion, Concatenation) else {"joint": fusion}
        names = getattr(fusion, "widths", network.modalities)
        criterion = CalibratedLoss(
            heads={name: network.heads[name] for name in names},
            dataset_size=dataset_size,
            **joint,
            **self._options,
        )
        # in a list, so that the network's heads are not registered, and saved, a second time as the method's
        self._criterion = [criterion]
        self.calibration = criterion.calibration

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """L_mm + φ Σ_m L_m; while training, its backward sends calibrated gradients into the features."""
        if not (self.training and torch.is_grad_enabled()):
            return super().loss(output, batch)
        if not self._criterion:
            raise RuntimeError("BOGC has no criterion yet; call prepare(network, ...) before training.")
        result: CalibratedOutput = self._criterion[0](output.features, batch.target, batch.present)
        self._diagnostics = result.diagnostics
        return result.loss

    def step(
        self, network: nn.Module, batch: Batch, backward: Callable[[Tensor], None], surgery: Surgery
    ) -> StepResult:
        """An ordinary step; draws, where the readings need any, come from the loop's generator."""
        if self._criterion:
            self._criterion[0].generator = surgery.generator
        return super().step(network, batch, backward, surgery)

    def diagnostics(self) -> dict[str, float]:
        """The criterion's diagnostics of the last micro-batch, ``<modality>/conflict`` and so on."""
        return self._diagnostics.summary()
