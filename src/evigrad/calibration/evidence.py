"""From a gradient's precision to evidence, to an opinion, to one combined update."""

from dataclasses import dataclass

import torch
from torch import Tensor

from evigrad.calibration.errors import choose
from evigrad.calibration.moments import Moments

REFERENCES = ("none", "power")
WEIGHTS = ("printed", "source")
RESCALES = ("batch", "sample", "none")


@dataclass(frozen=True)
class Opinion:
    """A subjective-logic opinion over K dimensions, kept as log-evidence so that nothing overflows.

    Belief b_d = e_d/S and uncertainty u = K/S with S = Σ_d (e_d + 1); Σ_d b_d + u = 1.

    >>> import torch
    >>> certain = Opinion(torch.tensor([[2.0, 0.0]]).log())
    >>> certain.belief, certain.uncertainty
    (tensor([[0.5000, 0.0000]]), tensor([0.5000]))
    """

    log_evidence: Tensor  # [..., K]

    @property
    def log_masses(self) -> Tensor:
        """Logarithms of the belief in each dimension and, last, of the uncertainty, [..., K + 1]."""
        classes = torch.log(torch.full_like(self.log_evidence[..., :1], self.log_evidence.shape[-1]))
        return torch.cat([self.log_evidence, classes], dim=-1).log_softmax(-1)

    @property
    def belief(self) -> Tensor:
        """Belief mass of each dimension, [..., K]."""
        return self.log_masses[..., :-1].exp()

    @property
    def uncertainty(self) -> Tensor:
        """Mass that no dimension claims, [...]."""
        return self.log_masses[..., -1].exp()

    def where(self, present: Tensor) -> "Opinion":
        """The same opinion where ``present`` [...] holds, the vacuous one (b = 0, u = 1) elsewhere."""
        return Opinion(self.log_evidence.masked_fill(~present[..., None], float("-inf")))


def opinion(variance: Tensor, power: float = 0.5, reference: Tensor | None = None) -> Opinion:
    """Evidence e = (P/σ²)^s of each dimension, from the gradient's variance [..., K].

    ``reference`` P = 1 (None) is the printed formula; it changes when the loss is multiplied by a constant. A squared
    gradient as P makes evidence dimensionless.
    """
    info = torch.finfo(variance.dtype)
    log_precision = -variance.clamp(info.tiny, info.max).log()
    if reference is not None:
        log_precision = log_precision + reference.clamp(info.tiny, info.max).log()
    return Opinion(power * log_precision)


def combine(first: Opinion, second: Opinion) -> Opinion:
    """Reduced Dempster combination b_d ∝ b_d b'_d + b_d u' + b'_d u, u ∝ u u'.

    In evidence it is e_d + e'_d + e_d e'_d / K: a sum of positive terms, so nothing cancels when the conflict mass C
    comes near 1.
    """
    one, two = first.log_evidence, second.log_evidence
    classes = torch.log(torch.full_like(one[..., :1], one.shape[-1]))
    return Opinion(torch.logsumexp(torch.stack([one, two, one + two - classes]), dim=0))


def conflict_mass(first: Opinion, second: Opinion) -> Tensor:
    """C = Σ_{p≠q} b_p b'_q, the mass that two opinions put on different dimensions, [...]."""
    one, two = first.belief, second.belief
    return (one.sum(-1) * two.sum(-1) - (one * two).sum(-1)).clamp(0, 1)


@dataclass(frozen=True)
class Update:
    """A calibrated gradient [..., K] before rescaling, and the opinions that weighed it."""

    gradient: Tensor
    unimodal: Opinion
    joint: Opinion
    unimodal_weight: Tensor  # [..., K]: the factor of the unimodal mean
    joint_weight: Tensor  # [..., K]


def update(
    unimodal_mean: Tensor, joint_mean: Tensor, unimodal: Opinion, joint: Opinion, weights: str = "printed"
) -> Update:
    """g_d = b_d (b_d^i μ_d^i + b_d^f μ_d^f) (``printed``), or 2 (b^i μ^i + b^f μ^f)/(b^i + b^f) (``source``)."""
    choose("weights", weights, WEIGHTS)
    if weights == "printed":
        combined = combine(unimodal, joint).belief
        first, second = combined * unimodal.belief, combined * joint.belief
    else:
        # 2 b^i/(b^i + b^f) through the logarithms, which stay finite where both beliefs vanish.
        gap = (unimodal.log_masses - joint.log_masses)[..., :-1]
        first, second = 2 * gap.sigmoid(), 2 * (-gap).sigmoid()
    return Update(first * unimodal_mean + second * joint_mean, unimodal, joint, first, second)


def rescale(gradient: Tensor, squares: Tensor, target_squares: Tensor, scale: float) -> Tensor:
    """``gradient`` times ``scale`` and the ratio of two norms, given their squares; zero if it has no length."""
    ratio = torch.where(squares > 0, target_squares / squares.clamp_min(torch.finfo(squares.dtype).tiny), 0.0)
    return gradient * (scale * ratio.sqrt()).to(gradient.dtype)


def floor(moments: Moments, relative: float) -> Moments:
    """The same moments with each variance at least ``relative`` times the sample's mean squared gradient."""
    least = relative * moments.mean.square().mean(-1, keepdim=True)
    return Moments(moments.mean, torch.maximum(moments.variance, least))
