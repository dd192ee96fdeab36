r"""OGM-GE: on-the-fly gradient modulation with generalisation enhancement (Peng et al., CVPR 2022).

Per step, with the joint loss alone, modality m's confidence is :math:`s_m = \sum_i
\mathrm{softmax}(f_m)_i[y_i]` from its block logits :math:`f_m = z_m W_m^T + b/M`. Its discrepancy
:math:`\rho_m` is s_m over the others' scores, and the gradient of the convolution weights of an encoder that
leads is damped: :math:`k_m = 1 - \tanh(\alpha\rho_m)` if :math:`\rho_m > 1`, else 1. Generalisation
enhancement adds Gaussian noise of each gradient's own standard deviation.

Provenance:

- The paper has M = 2; for more, ρ_m averages the pairwise ratios s_m/s_j over the others, the authors' advice
  in an issue. BalanceBenchmark divides by the smallest score instead.
- At an exact tie the official else-branch damps one modality; here nobody is damped.
- Officially only 4-D tensors (convolutions) are touched, and noise goes to every encoder, also where k = 1;
  batch-norm and linear tensors and the joint head are left alone. So is it here for an encoder with
  convolutions; one without any would never be touched, and there all tensors with at least two dimensions are
  (``tensors="auto"``).
- The noise's scale is the standard deviation of the *unmodulated* gradient + 1e-8.
- Scores of absent samples: not defined in the paper. ρ_m averages over the other modalities j the ratio of
  the mean confidences over the samples that have both; with nothing missing these are the published ratios.
- The published window is epochs 0 to 50 of 100, for one data set; here modulation lasts as long as training
  by default.
- Re-implementations: AGM's modulates all parameters, BalanceBenchmark's all tensors that are not 1-D,
  with another score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from evigrad.calibration.errors import choose, positive
from evigrad.methods.base import StepResult, Surgery, unwrap
from evigrad.methods.joint import Joint
from evigrad.methods.ownership import encoder_parameters
from evigrad.networks import Concatenation, MultimodalNetwork, Output, Sum

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["OGMGE", "coefficients", "discrepancies", "modulate", "pair_scores"]

Tensors = Literal["auto", "convolutions", "matrices"]


class OGMGE(Joint):
    """Damp the gradient of the modality that is ahead, and add noise to all.

    Args:
        alpha: α, strength of the damping; the authors use 0.1 (VGGSound) to 0.8 (CREMA-D), and tanh saturates
            at 2.
        noise: generalisation enhancement (GE); False is plain OGM.
        start: first epoch of modulation, counted from 0.
        end: last epoch of modulation, included; None is the last of all. Afterwards training is joint.
        tensors: ``"convolutions"`` (as published, 4-D tensors only), ``"matrices"`` (all with two dimensions
            or more), or ``"auto"``: the convolutions of an encoder that has any, otherwise its matrices.
    """

    rescales_gradients = True
    epoch: Tensor

    def __init__(
        self,
        alpha: float = 0.8,
        noise: bool = True,
        start: int = 0,
        end: int | None = None,
        tensors: Tensors = "auto",
    ) -> None:
        super().__init__()
        choose("tensors", tensors, get_args(Tensors))
        if end is not None and end < start:
            raise ValueError(f"`end` {end} is before `start` {start}; give a window of epochs with start <= end.")
        self.alpha = positive("alpha", alpha, allow_zero=True)
        self.noise = noise
        self.start = start
        self.end = end
        self.tensors = tensors
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))
        self._scores: Tensor | None = None
        self._complete = True
        self._last: dict[str, Tensor] = {}

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Check that the joint logits split by modality and that there is something to damp."""
        super().prepare(network, dataset_size, steps_per_epoch, epochs)
        if not isinstance(network.fusion, Concatenation | Sum):
            raise ValueError(
                f"OGMGE needs logits that are a sum over modalities, and `network` fuses with "
                f"{type(network.fusion).__name__}; use the fusion 'concatenation' or 'sum'."
            )
        touched = self._touched(network)
        for name, parameters in encoder_parameters(network).items():
            if parameters and not touched[name]:
                raise ValueError(
                    f"OGMGE finds nothing to damp in the encoder of modality {name!r} with "
                    f"tensors={self.tensors!r}; use tensors='matrices' for encoders without convolutions."
                )

    def start_epoch(self, epoch: int) -> None:
        """Note the epoch; modulation is on from ``start`` to ``end``."""
        self.epoch.fill_(epoch)

    @property
    def active(self) -> bool:
        """Whether this epoch's gradients are modulated."""
        return self.start <= int(self.epoch) and (self.end is None or int(self.epoch) <= self.end)

    def step(
        self, network: nn.Module, batch: Batch, backward: Callable[[Tensor], None], surgery: Surgery
    ) -> StepResult:
        """A joint step that also adds up the micro-batches' scores."""
        result = super().step(network, batch, backward, surgery)
        # a new sum after every optimizer step, also after one that was skipped
        previous = None if self._complete else self._scores
        scores = self._score(unwrap(network), result.output, batch)
        self._scores = scores if previous is None else previous + scores
        self._complete = surgery.is_last_micro_batch
        return result

    def after_backward(self, network: nn.Module, surgery: Surgery) -> None:
        """Modulate, with scores summed over micro-batches and ranks before the nonlinearity."""
        if self._scores is None or not self.active:
            return
        inner = unwrap(network)
        scores = surgery.all_reduce(self._scores, "sum")
        factors = coefficients(discrepancies(scores), self.alpha)
        generator = surgery.generator if self.noise else None
        self._last = dict(zip(inner.encoders, factors, strict=True))
        touched = self._touched(inner)
        # by name: the order in which modalities are listed must not decide who gets which noise
        for name in sorted(touched):
            for parameter in touched[name]:
                if parameter.grad is not None:
                    parameter.grad.copy_(modulate(parameter.grad, self._last[name], generator))

    def diagnostics(self) -> dict[str, float]:
        """``coefficient/<modality>``: the factor k of the last modulated step."""
        return {f"coefficient/{name}": float(factor) for name, factor in self._last.items()}

    @torch.no_grad()
    def _score(self, network: MultimodalNetwork, output: Output, batch: Batch) -> Tensor:
        fusion = network.fusion
        assert isinstance(fusion, Concatenation | Sum)
        features = {name: value.to(fusion.linear.weight.dtype) for name, value in output.features.items()}
        with torch.autocast(batch.target.device.type, enabled=False):
            blocks = fusion.block_logits(features, batch.present)
            logits = torch.stack([blocks[name] for name in network.encoders], dim=1)
            present = torch.stack([batch.present[name] for name in network.encoders], dim=1)
            return pair_scores(logits, batch.target, present)

    def _touched(self, network: MultimodalNetwork) -> dict[str, list[nn.Parameter]]:
        chosen = {}
        for name, parameters in encoder_parameters(network).items():
            convolutions = [parameter for parameter in parameters if parameter.dim() == 4]
            matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
            by_name = {"convolutions": convolutions, "matrices": matrices, "auto": convolutions or matrices}
            chosen[name] = by_name[self.tensors]
        return chosen


def pair_scores(logits: Tensor, target: Tensor, present: Tensor) -> Tensor:
    """Confidence in the true class, ``[M, M]``: (m, j) is m's sum over the samples that have m and j.

    Args:
        logits: block logits ``[B, M, C]``.
        target: ``[B]``.
        present: bool ``[B, M]``. With nothing missing every row is constant and holds s_m.
    """
    confidence = logits.float().softmax(dim=2).gather(2, target[:, None, None].expand(-1, logits.shape[1], 1))
    mask = present.float()
    return (confidence.squeeze(2) * mask).T @ mask


def discrepancies(scores: Tensor) -> Tensor:
    """ρ_m ``[M]`` from :func:`pair_scores`: the mean over the others j of s_m/s_j; 1 without company.

    Example:
        >>> discrepancies(torch.tensor([[6.0, 6.0], [3.0, 3.0]]))
        tensor([2.0000, 0.5000])
    """
    others = (scores > 0) & (scores.T > 0) & ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    ratios = torch.where(others, scores / torch.where(others, scores.T, torch.ones_like(scores)), 0.0)
    count = others.sum(dim=1)
    return torch.where(count > 0, ratios.sum(dim=1) / count.clamp(min=1), 1.0)


def coefficients(ratios: Tensor, alpha: float) -> Tensor:
    """k_m = 1 - tanh(α ρ_m) where ρ_m > 1, else 1.

    Example:
        >>> coefficients(torch.tensor([2.0, 0.5]), alpha=0.8)
        tensor([0.0783, 1.0000])
    """
    return torch.where(ratios > 1, 1 - torch.tanh(alpha * ratios), 1.0)


def modulate(gradient: Tensor, factor: Tensor, generator: torch.Generator | None) -> Tensor:
    """``k g``, plus noise ``N(0, (std(g) + 1e-8)²)`` drawn from ``generator`` unless that is None."""
    scaled = gradient * factor.to(gradient)
    if generator is None:
        return scaled
    # a single entry has no spread to enhance, and its unbiased deviation would be NaN
    deviation = gradient.std() if gradient.numel() > 1 else gradient.new_zeros(())
    noise = torch.randn(gradient.shape, generator=generator, device=generator.device)
    return scaled + noise.to(gradient) * (deviation + 1e-8)
