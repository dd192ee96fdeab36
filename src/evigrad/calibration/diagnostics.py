"""What happened in a step: computed from detached tensors, and only when read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from evigrad.calibration.evidence import Update, conflict_mass


@dataclass(frozen=True)
class Trace:
    """The gradients that met at one modality's features, per sample [B, K]."""

    unimodal_gradient: Tensor  # φ g^i at the current weights
    joint_gradient: Tensor  # g^f at the current weights
    update: Update
    calibrated: Tensor  # what replaces their sum
    present: Tensor  # [B]


class Diagnostics:
    """Views on a step, each a dictionary with one entry per modality; empty when nothing was calibrated.

    Values per sample are NaN where the modality is absent; means run over the samples that have it.
    """

    # No dataclass: wrappers (Fabric, DDP) walk through those in a module's output, and some refuse frozen ones.
    def __init__(self, traces: Mapping[str, Trace] | None = None, shape: tuple[int, ...] = ()) -> None:
        self.traces = traces or {}
        self.shape = shape

    @property
    def conflict(self) -> dict[str, Tensor]:
        """Cosine between the unimodal and the joint gradient of each sample, [B]; below zero they conflict."""
        return self._per_sample(lambda t: _cosine(t.unimodal_gradient.double(), t.joint_gradient.double()))

    @property
    def conflict_mass(self) -> dict[str, Tensor]:
        """Dempster's C of each sample, [B]: how much belief the two sources put on different dimensions."""
        return self._per_sample(lambda t: conflict_mass(t.update.unimodal, t.update.joint))

    @property
    def uncertainty(self) -> dict[str, dict[str, Tensor]]:
        """Mean uncertainty u of each source."""
        return {
            name: {
                "unimodal": _mean(t.update.unimodal.uncertainty, t.present),
                "joint": _mean(t.update.joint.uncertainty, t.present),
            }
            for name, t in self.traces.items()
        }

    @property
    def share(self) -> dict[str, dict[str, Tensor]]:
        """Each source's share of the weight; the two add up to one."""
        shares = {}
        for name, t in self.traces.items():
            first, second = t.update.unimodal_weight.sum(-1), t.update.joint_weight.sum(-1)
            unimodal = _mean(first / (first + second), t.present)
            shares[name] = {"unimodal": unimodal, "joint": 1 - unimodal}
        return shares

    @property
    def sign_changed(self) -> dict[str, Tensor]:
        """Fraction of the dimensions where calibration turned the sign of the plain sum of gradients."""
        return {
            name: _mean(
                (t.calibrated * (t.unimodal_gradient + t.joint_gradient) < 0).float().mean(-1),
                t.present,
            )
            for name, t in self.traces.items()
        }

    def summary(self) -> dict[str, float]:
        """Everything as numbers for a logger, ``{"audio/conflict": -0.12, ...}``."""
        values: dict[str, Tensor] = {}
        for label, each in (("conflict", self.conflict), ("conflict_mass", self.conflict_mass)):
            values |= {f"{name}/{label}": value.nanmean() for name, value in each.items()}
        for label, sources in (("uncertainty", self.uncertainty), ("share", self.share)):
            values |= {
                f"{name}/{label}/{source}": value for name, both in sources.items() for source, value in both.items()
            }
        values |= {f"{name}/sign_changed": value for name, value in self.sign_changed.items()}
        if not values:
            return {}
        return dict(zip(values, torch.stack([value.float() for value in values.values()]).tolist(), strict=True))

    def _per_sample(self, view: Callable[[Trace], Tensor]) -> dict[str, Tensor]:
        return {
            name: view(trace).masked_fill(~trace.present, torch.nan).reshape(self.shape)
            for name, trace in self.traces.items()
        }


def _cosine(first: Tensor, second: Tensor) -> Tensor:
    # No `cosine_similarity`: its guard against a division by zero pulls the cosine of small gradients towards zero.
    lengths = first.norm(dim=-1) * second.norm(dim=-1)
    cosine: Tensor = (first * second).sum(-1) / lengths.clamp_min(torch.finfo(lengths.dtype).tiny)
    return cosine.clamp(-1, 1)


def _mean(values: Tensor, present: Tensor) -> Tensor:
    return values.masked_fill(~present, torch.nan).nanmean()
