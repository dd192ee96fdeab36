"""From what the heads saw in a step to one calibrated gradient per modality."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from evigrad.calibration.diagnostics import Trace
from evigrad.calibration.evidence import floor, opinion, rescale, update
from evigrad.calibration.head import HeadPosterior
from evigrad.calibration.inputs import Inputs
from evigrad.calibration.joint import Concatenation, Fusion, JointPass
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.moments import Moments, Point
from evigrad.calibration.readings import Readings
from evigrad.calibration.sources import Source, see, source
from evigrad.calibration.structures import Seen
from evigrad.calibration.synchronize import summed


@dataclass(frozen=True)
class Step:
    """One batch as all heads saw it."""

    inputs: Inputs
    unimodal: Mapping[str, Source]
    joint: Source
    module: Concatenation | Fusion
    seen: JointPass


class Calibration(nn.Module):
    """Posteriors of all heads, and the update that they lead to; holds no trainable parameter."""

    def __init__(self, outputs: Mapping[str, nn.Linear], joint: nn.Linear, readings: Readings) -> None:
        super().__init__()
        self.readings = readings
        self.loss = likelihood(readings.loss)
        self.unimodal = nn.ModuleDict({name: self._posterior(layer) for name, layer in outputs.items()})
        self.joint = self._posterior(joint)

    def _posterior(self, layer: nn.Linear) -> HeadPosterior:
        r = self.readings
        return HeadPosterior(
            layer.out_features,
            layer.in_features + (layer.bias is not None),
            self.loss,
            structure=r.posterior,
            running=r.running,
            prior_precision=r.prior_precision,
            dataset_size=r.dataset_size,
            decay=r.decay,
            refresh=r.refresh,
            rank=r.rank,
        )

    def observe(
        self,
        inputs: Inputs,
        heads: Mapping[str, nn.Linear],
        module: Concatenation | Fusion,
        seen: JointPass,
        learn: bool,
    ) -> Step:
        """Show the batch to every posterior; ``learn``: the running averages take it in."""
        unimodal = {}
        for name, layer in heads.items():
            posterior = self.unimodal[name]
            assert isinstance(posterior, HeadPosterior)
            unimodal[name] = self._source(
                posterior, see(layer, inputs.features[name], inputs.present[name], inputs.target, self.loss), learn
            )
        anything = torch.stack(list(inputs.present.values())).any(0)
        hidden = see(module.output, seen.hidden, anything, inputs.target, self.loss)
        return Step(inputs, unimodal, self._source(self.joint, hidden, learn), module, seen)

    def _source(self, posterior: HeadPosterior, view: tuple[Point, Seen], learn: bool) -> Source:
        point, seen = view
        if learn:
            posterior.see(seen, self.readings.shared)
        return source(point, seen, posterior, self.loss, self.readings)

    def traces(self, names: list[str], step: Step, generator: torch.Generator | None) -> dict[str, Trace]:
        """The calibrated gradient of the per-sample loss at the features of each of ``names``."""
        present = step.inputs.present
        own, shared = self._moments(names, step, generator) if names else ({}, {})
        uniform = self._uniform(names, step) if names else {}
        squares = self._batch_sums({name: first + second for name, (first, second) in uniform.items()}, present)
        traces = {}
        for name in names:
            power = None
            if self.readings.reference == "power":
                power = squares[name] / squares[f"{name} entries"].clamp_min(1)
            traces[name] = self._trace(own[name], shared[name], uniform[name], power, present[name])
        return self._rescaled(traces, squares, present)

    def _uniform(self, names: list[str], step: Step) -> dict[str, tuple[Tensor, Tensor]]:
        """The two gradients of plain training, φ g^i and g^f, zero where the modality is absent."""
        pulled = step.module.pull(step.seen, step.joint.gradient)
        both = {}
        for name in names:
            absent = ~step.inputs.present[name][:, None]
            own = (self.readings.unimodal_weight * step.unimodal[name].gradient).masked_fill(absent, 0)
            both[name] = own, pulled[name].to(own.dtype).masked_fill(absent, 0)
        return both

    def _moments(
        self, names: list[str], step: Step, generator: torch.Generator | None
    ) -> tuple[dict[str, Moments], dict[str, Moments]]:
        r = self.readings
        wanted = list(step.unimodal) if r.fusion == "average" else names
        own = {name: step.unimodal[name].moments(self.loss, r, generator) for name in wanted}
        if r.fusion == "average":
            return own, dict.fromkeys(names, average(own, step.inputs.present))
        return own, step.module.moments(step.seen, step.joint, self.loss, r, generator)

    def _trace(
        self,
        own: Moments,
        shared: Moments,
        uniform: tuple[Tensor, Tensor],
        power: Tensor | None,
        present: Tensor,
    ) -> Trace:
        r = self.readings
        # In float64, whose exponents hold products of beliefs from σ = 1e20; rescaling brings them back into range.
        own, shared = floor(_wide(own), r.variance_floor), floor(_wide(shared), r.variance_floor)
        first = opinion(own.variance, r.evidence_power, power).where(present)
        second = opinion(shared.variance, r.evidence_power, power)
        combined = update(r.unimodal_weight * own.mean, shared.mean, first, second, r.weights)
        return Trace(*uniform, combined, combined.gradient.masked_fill(~present[:, None], 0), present)

    def _batch_sums(self, gradients: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Squared norm over the (global) batch and number of entries of each gradient, in float64."""
        sums = {}
        for name, here in present.items():
            # A process whose batch lacks a modality still has its place in the sum over processes.
            value = gradients.get(name, here.new_zeros(len(here), 0))
            sums[name] = value.double().square().sum()
            sums[f"{name} entries"] = here.sum().double() * value.shape[-1]
        return summed(sums) if self.readings.shared else sums

    def _rescaled(
        self, traces: dict[str, Trace], squares: dict[str, Tensor], present: Mapping[str, Tensor]
    ) -> dict[str, Trace]:
        r = self.readings
        if r.rescale == "none":
            return {name: _with(t, r.scale * t.calibrated) for name, t in traces.items()}
        if r.rescale == "sample":
            result = {}
            for name, t in traces.items():
                total = (t.unimodal_gradient + t.joint_gradient).double().square().sum(-1, keepdim=True)
                own = t.calibrated.double().square().sum(-1, keepdim=True)
                result[name] = _with(t, rescale(t.calibrated, own, total, r.scale))
            return result
        own_squares = self._batch_sums({name: t.calibrated for name, t in traces.items()}, present)
        return {
            name: _with(t, rescale(t.calibrated, own_squares[name], squares[name], r.scale))
            for name, t in traces.items()
        }


def _wide(moments: Moments) -> Moments:
    """In float64; a variance that overflowed, even to NaN, is a very large one."""
    large = torch.finfo(torch.float32).max
    return Moments(moments.mean.double(), moments.variance.nan_to_num(large, posinf=large).double())


def _with(trace: Trace, calibrated: Tensor) -> Trace:
    return replace(trace, calibrated=calibrated.to(trace.joint_gradient.dtype))


def average(own: Mapping[str, Moments], present: Mapping[str, Tensor]) -> Moments:
    """The joint gradient as the printed average over the modalities that a sample has.

    Mean (1/M) Σμ^i and variance (1/M) Σσ²_i as printed; independent gradients would give (1/M²) Σσ²_i.
    """
    masks = torch.stack([present[name] for name in own])[:, :, None]
    count = masks.sum(0).clamp_min(1)
    means = torch.stack([moments.mean for moments in own.values()]).masked_fill(~masks, 0)
    variances = torch.stack([moments.variance for moments in own.values()]).masked_fill(~masks, 0)
    return Moments(means.sum(0) / count, variances.sum(0) / count)
