"""The gradient sources of one step: a point, a posterior and a plain gradient for every head."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from evigrad.calibration.head import HeadPosterior
from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.moments import Moments, Point, moments_at
from evigrad.calibration.readings import Readings
from evigrad.calibration.structures import Gaussian, Seen


@dataclass(frozen=True)
class Source:
    """One head at one batch: where its gradient is asked for, what it saw, how sure it is of its weights."""

    point: Point  # at the posterior's centre
    posterior: Gaussian
    gradient: Tensor  # at the current weights, [B, K]

    def moments(self, loss: Likelihood, readings: Readings, generator: torch.Generator | None) -> Moments:
        """Moments of the gradient at the head's own input."""
        return moments_at(self.posterior, self.point, loss, readings.moments, readings.draws, generator)


def see(layer: nn.Linear, features: Tensor, present: Tensor, target: Tensor, loss: Likelihood) -> tuple[Point, Seen]:
    """What a linear layer sees of features [B, K], in float32 at least, whatever autocast does elsewhere."""
    dtype = torch.promote_types(torch.float32, layer.weight.dtype)
    theta, inputs = _whole(layer.weight).to(dtype), features.detach().to(dtype)
    if layer.bias is not None:
        theta = torch.cat([theta, _whole(layer.bias).to(dtype)[:, None]], dim=1)
        inputs = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1)
    if target.is_floating_point():
        target = target.to(dtype)
    point = Point(theta, inputs, target, features.shape[-1])
    # A joint module gives features even to a sample that has no modality: they have a loss, but nothing was seen.
    counted = inputs.masked_fill(~present[:, None], 0)
    return point, Seen(counted, loss.mean(inputs @ theta.T), present.to(dtype))


def _whole(parameter: Tensor) -> Tensor:
    """A parameter's value, gathered if this process holds a shard of it only (a DTensor)."""
    value = parameter.detach()
    gather = getattr(value, "full_tensor", None)
    return value if gather is None else gather()


def source(point: Point, seen: Seen, head: HeadPosterior, loss: Likelihood, readings: Readings) -> Source:
    """The source that this head is for the batch it saw."""
    posterior = head.gaussian(seen, readings.shared)
    residual = loss.residual(seen.mean, point.target)
    plain = residual @ point.theta[:, : point.columns]
    if readings.centre == "newton":
        step = head.newton_step(point.theta, seen, residual, posterior, readings.shared)
        point = replace(point, theta=point.theta + step)
    return Source(point, posterior, plain)
