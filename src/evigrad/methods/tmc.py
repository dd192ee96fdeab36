r"""TMC and ETMC: trusted multi-view classification (Han et al., ICLR 2021; TPAMI 2022).

Each head gives evidence :math:`e = \mathrm{softplus}(\text{logits})`, hence a Dirichlet α = e + 1 with
strength S = Σα, beliefs b = e/S and uncertainty u = C/S. Opinions are combined by the reduced Dempster rule,
whose evidence has the closed form (derived; no division, free of order)

.. math:: 1 + e_f / C = \prod_m (1 + e_m / C).

The loss sums :math:`\ell(\alpha, y) = \psi(S) - \psi(\alpha_y) +
\lambda_t\,\mathrm{KL}[\mathrm{Dir}(\tilde\alpha) \| \mathrm{Dir}(1)]` over the views and the combination,
with α̃ = y + (1 - y) ⊙ α and λ_t = min(1, t/T) in epoch t.

Provenance:

- The enhanced version (ETMC) adds a pseudo-view from the concatenated features, fused last:
  ``pseudo_view=True``, read by the network's joint head. The BOGC paper cites the enhanced one and does not
  say which it ran.
- T: 50 with epochs counted from 1 (TMC), 10 counted from 0 (ETMC); here 10 from 0, so λ = 0 in the first
  epoch.
- Official code combines by the quotient 1/(1 - C), which is 0/0 for confident conflict; the closed form is
  not.
- ETMC's code uses λ = 1 in evaluation; here the loss is the same function in training and evaluation.
- Missing modalities: the papers drop no view. An absent one holds the vacuous opinion e = 0, which is
  neutral, and has no loss term.
- Published with Adam (3e-4, 500 epochs, batch 200); the loss does not depend on the optimizer.
- Known weakness: the combined u is never above the least u of the views, even in total conflict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from evigrad.calibration.errors import positive
from evigrad.methods.base import Method
from evigrad.methods.checks import needs_heads
from evigrad.methods.losses import present_mean
from evigrad.networks import MultimodalNetwork, Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["TMC", "combine_evidence", "dirichlet_loss", "evidence", "kl_to_uniform", "opinion"]


class TMC(Method):
    """Evidential heads whose opinions are combined per sample by the reduced Dempster rule.

    Args:
        annealing: T, epochs until the penalty on wrong evidence has its full weight; 0 is full weight at
            once.
        pseudo_view: ETMC; also takes the joint head's logits as a view.
    """

    epoch: Tensor

    def __init__(self, annealing: int = 10, pseudo_view: bool = False) -> None:
        super().__init__()
        self.annealing = int(positive("annealing", annealing, allow_zero=True))
        self.pseudo_view = pseudo_view
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))
        self._uncertainty: dict[str, Tensor] = {}

    def prepare(self, network: MultimodalNetwork, dataset_size: int, steps_per_epoch: int, epochs: int) -> None:
        """Take the unimodal heads for evidence; without a pseudo-view the joint head goes."""
        needs_heads(network, "TMC")
        if not self.pseudo_view:
            network.drop_fusion()

    def start_epoch(self, epoch: int) -> None:
        """Note the epoch, on which λ depends."""
        self.epoch.fill_(epoch)

    @property
    def penalty(self) -> float:
        """λ_t = min(1, t/T) of the current epoch t."""
        return min(1.0, int(self.epoch) / self.annealing) if self.annealing > 0 else 1.0

    def loss(self, output: Output, batch: Batch) -> Tensor:
        """Mean over the batch of the opinions' losses: every view that is present, and their combination."""
        with torch.autocast(batch.target.device.type, enabled=False):
            views = self._views(output, batch.present)
            combined = combine_evidence(views.values())
            terms = [dirichlet_loss(combined, batch.target, self.penalty).mean()]
            for name, view in views.items():
                values = dirichlet_loss(view, batch.target, self.penalty)
                terms.append(present_mean(values, batch.present[name]) if name in batch.present else values.mean())
        self._remember({**views, "combined": combined}, batch.present)
        return torch.stack(terms).sum()

    def predict(self, output: Output, present: dict[str, Tensor]) -> Tensor:
        """α_f/S_f of the combined opinion."""
        return _probabilities(combine_evidence(self._views(output, present).values()))

    def uncertainty(self, output: Output, present: dict[str, Tensor]) -> Tensor:
        """U = C/S ``[B]`` of the combined opinion, in (0, 1]."""
        return opinion(combine_evidence(self._views(output, present).values()))[1]

    def unimodal_probabilities(self, output: Output) -> dict[str, Tensor]:
        """α_m/S_m of every view's own opinion."""
        return {name: _probabilities(evidence(logits)) for name, logits in output.unimodal_logits.items()}

    def diagnostics(self) -> dict[str, float]:
        """``uncertainty/<view>``, over the samples that have it, and ``uncertainty/combined``, of the last batch."""
        return {f"uncertainty/{name}": float(value) for name, value in self._uncertainty.items()}

    def _views(self, output: Output, present: dict[str, Tensor]) -> dict[str, Tensor]:
        views = {
            name: evidence(logits).masked_fill(~present[name][:, None], 0.0)
            for name, logits in output.unimodal_logits.items()
        }
        return {**views, "pseudo-view": evidence(output.joint_logits)} if self.pseudo_view else views

    @torch.no_grad()
    def _remember(self, views: dict[str, Tensor], present: dict[str, Tensor]) -> None:
        if self.training:
            # the vacuous opinion that stands for an absent view is nobody's doubt
            everyone = torch.ones_like(next(iter(present.values())))
            masks = {name: present.get(name, everyone) for name in views}
            self._uncertainty = {
                name: (opinion(view)[1] * masks[name]).sum() / masks[name].sum() for name, view in views.items()
            }


def evidence(logits: Tensor) -> Tensor:
    """Evidence ``softplus(logits)``, in float32 or better."""
    return F.softplus(logits if logits.dtype == torch.float64 else logits.float())


def opinion(evidence: Tensor) -> tuple[Tensor, Tensor]:
    """Beliefs ``[B, C]`` and uncertainty ``[B]`` of evidence ``[B, C]``; together they sum to 1.

    Example:
        >>> opinion(torch.tensor([[2.0, 0.0]]))
        (tensor([[0.5000, 0.0000]]), tensor([0.5000]))
    """
    strength = evidence.sum(dim=1) + evidence.shape[1]
    return evidence / strength[:, None], evidence.shape[1] / strength


def combine_evidence(views: Iterable[Tensor]) -> Tensor:
    r"""Evidence of the combined opinion, :math:`C\,(\prod_m (1 + e_m/C) - 1)`, all ``[B, C]``.

    Example:
        >>> combine_evidence([torch.tensor([[2.0, 0.0]]), torch.tensor([[4.0, 0.0]])])
        tensor([[10.,  0.]])
    """
    stacked = torch.stack(list(views))
    classes = stacked.shape[2]
    return classes * torch.expm1(torch.log1p(stacked / classes).sum(dim=0))


def dirichlet_loss(evidence: Tensor, target: Tensor, penalty: float) -> Tensor:
    """ℓ(α, y) ``[B]`` of evidence ``[B, C]``: expected cross-entropy plus ``penalty`` times the KL term.

    Computed in float64: the large terms of the penalty cancel, and in float32 much evidence for every class would leave
    a gradient of rounding errors.

    Example:
        >>> dirichlet_loss(torch.zeros(1, 3), torch.tensor([0]), penalty=0.0)
        tensor([1.5000])
    """
    alpha = evidence.double() + 1
    strength = alpha.sum(dim=1)
    right = alpha.gather(1, target[:, None]).squeeze(1)
    wrong_only = alpha.scatter(1, target[:, None], 1.0)
    loss = torch.digamma(strength) - torch.digamma(right) + penalty * kl_to_uniform(wrong_only)
    return loss.to(evidence.dtype)


def kl_to_uniform(alpha: Tensor) -> Tensor:
    """KL[Dir(α) ‖ Dir(1)] ``[B]`` of concentrations ``[B, C]``."""
    total = alpha.sum(dim=1)
    classes = torch.tensor(float(alpha.shape[1]), dtype=alpha.dtype, device=alpha.device)
    log_ratio = torch.lgamma(total) - torch.lgamma(classes) - torch.lgamma(alpha).sum(dim=1)
    slope = torch.digamma(alpha) - torch.digamma(total)[:, None]
    return log_ratio + ((alpha - 1) * slope).sum(dim=1)


def _probabilities(evidence: Tensor) -> Tensor:
    alpha = evidence + 1
    return alpha / alpha.sum(dim=1, keepdim=True)
