"""The joint source: from every modality's features to the joint logits, and back to a gradient for each modality."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.moments import Moments, drawn_deviations, linear_deviations
from evigrad.calibration.output_layer import find_output_layer
from evigrad.calibration.readings import Readings
from evigrad.calibration.sources import Source

Features = dict[str, Tensor]


@dataclass(frozen=True)
class JointPass:
    """One pass through the joint module: its logits and what its output layer saw."""

    logits: Tensor
    hidden: Tensor  # input of the output layer, [B, K]
    features: Features


class Concatenation(nn.Module):
    """The features one after the other, then ``output``, a linear head: the Jacobian is a block of its weight."""

    def __init__(self, output: nn.Linear, widths: Mapping[str, int]) -> None:
        super().__init__()
        if output.in_features != sum(widths.values()):
            each = " + ".join(f"{width} ({name})" for name, width in widths.items())
            raise ValueError(
                f"`joint_head` takes {output.in_features} features, but the concatenated modalities have "
                f"{sum(widths.values())} = {each}. Build it as nn.Linear({sum(widths.values())}, ...)."
            )
        self.output = output
        self.widths = dict(widths)

    def forward(self, features: Features, present: Features, track: bool) -> JointPass:
        hidden = torch.cat([features[name] for name in self.widths], dim=-1)
        return JointPass(self.output(hidden), hidden, features)

    def pull(self, seen: JointPass, gradient: Tensor) -> Features:
        """A gradient at the output layer's input, taken back to every modality."""
        parts = torch.split(gradient, list(self.widths.values()), dim=-1)
        return dict(zip(self.widths, parts, strict=True))

    def moments(
        self,
        seen: JointPass,
        source: Source,
        loss: Likelihood,
        readings: Readings,
        generator: torch.Generator | None,
    ) -> dict[str, Moments]:
        """Moments of the joint gradient at every modality."""
        whole = source.moments(loss, readings, generator)
        mean, variance = self.pull(seen, whole.mean), self.pull(seen, whole.variance)
        return {name: Moments(mean[name], variance[name]) for name in self.widths}


class Fusion(nn.Module):
    """Any module from named features to logits that ends in a linear layer, its Jacobian taken by autograd.

    The variance at a modality is diag(Jᵀ Cov(g) J), g the gradient at the output layer's input. It is estimated without
    bias by pulling random deviations back through the module: with n of them made of signs the relative standard error
    of each variance is at most sqrt(2/n).
    """

    def __init__(self, module: nn.Module, widths: Mapping[str, int], classes: int, output: str | None) -> None:
        super().__init__()
        self.module = module
        self.widths = dict(widths)
        self.takes_present = "present" in inspect.signature(module.forward).parameters
        self.output_name = find_output_layer(module, self._trial, classes, output)

    @property
    def output(self) -> nn.Linear:
        """The linear layer that gives the logits."""
        layer = self.module.get_submodule(self.output_name)
        assert isinstance(layer, nn.Linear)
        return layer

    def call(self, features: Features, present: Features) -> Tensor:
        """The joint logits."""
        logits: Tensor = self.module(features, present=present) if self.takes_present else self.module(features)
        return logits

    def _trial(self) -> Tensor:
        parameter = next(self.module.parameters(), torch.ones(()))
        features = {name: parameter.new_ones(2, width) for name, width in self.widths.items()}
        here = torch.ones(2, dtype=torch.bool, device=parameter.device)
        return self.call(features, dict.fromkeys(features, here))

    def forward(self, features: Features, present: Features, track: bool) -> JointPass:
        leaves = {name: value.detach().requires_grad_(track) for name, value in features.items()}
        seen: list[Tensor] = []
        handle = self.output.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        try:
            # Clones, since a module may begin with an operation in place.
            logits = self.call({name: leaf.clone() for name, leaf in leaves.items()}, present)
        finally:
            handle.remove()
        if len(seen) != 1 or seen[0].dim() != 2:
            shapes = [tuple(value.shape) for value in seen]
            raise RuntimeError(
                f"The joint module's output layer '{self.output_name}' must see one [B, K] input, it saw {shapes}. "
                "Pool over tokens before that layer, and apply it once."
            )
        return JointPass(logits, seen[0], leaves)

    def pull(self, seen: JointPass, gradient: Tensor) -> Features:
        """A gradient at the output layer's input, taken back to every modality through the module."""
        leaves = list(seen.features.values())
        # Under autocast the way back runs in half precision, which would round small gradients to zero.
        size = _power_of_two(gradient)
        pulled: tuple[Tensor | None, ...] = torch.autograd.grad(
            seen.hidden, leaves, (gradient / size).to(seen.hidden.dtype), retain_graph=True, allow_unused=True
        )
        return {
            name: torch.zeros_like(leaf, dtype=gradient.dtype) if one is None else one.to(gradient.dtype) * size
            for name, leaf, one in zip(seen.features, leaves, pulled, strict=True)
        }

    def moments(
        self,
        seen: JointPass,
        source: Source,
        loss: Likelihood,
        readings: Readings,
        generator: torch.Generator | None,
    ) -> dict[str, Moments]:
        """Moments of the joint gradient at every modality; `exact` falls back on draws for the variance."""
        hidden = source.moments(loss, readings, generator)
        mean = self.pull(seen, hidden.mean)
        linear = readings.moments == "linearized"
        count = readings.probes if linear else readings.draws
        deviations = linear_deviations if linear else drawn_deviations
        total = {name: torch.zeros_like(value) for name, value in mean.items()}
        squares = {name: torch.zeros_like(value) for name, value in mean.items()}
        for group in deviations(source.posterior, source.point, loss, count, generator):
            for deviation in group:
                for name, pulled in self.pull(seen, deviation).items():
                    total[name] += pulled
                    squares[name] += pulled.square()
        # A sign deviation has mean zero by construction, a drawn one does not.
        shift = {name: value * (0.0 if linear else 1 / count) for name, value in total.items()}
        return {name: Moments(mean[name], (squares[name] / count - shift[name].square()).clamp_min(0)) for name in mean}


def _power_of_two(values: Tensor) -> Tensor:
    """The power of two above the largest magnitude: dividing by it loses no digits."""
    largest = values.abs().amax().clamp_min(torch.finfo(values.dtype).tiny)
    return torch.ldexp(torch.ones_like(largest), largest.frexp().exponent)
