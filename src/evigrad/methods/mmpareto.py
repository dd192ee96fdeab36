r"""MMPareto: boosting multimodal learning with innocent unimodal assistance (Wei & Hu, ICML 2024).

In encoder m meet the gradients of two losses, g_mm of the joint and g_u of its own. If they do not conflict,
they are added; if they do, their minimum-norm combination takes their place, which descends both. Then the
norm of the plain sum is restored and everything is multiplied by γ, to keep the noise of SGD:

.. math:: h = 2\alpha_{mm} g_{mm} + 2\alpha_u g_u, \qquad
          g = \gamma\, h \max\!\left(1, \frac{\|g_{mm} + g_u\|}{\|h\|}\right)

with α = ½ if cos(g_mm, g_u) > 0 and else
:math:`\alpha_{mm} = (\|g_u\|^2 - \langle g_{mm}, g_u\rangle) / \|g_{mm} - g_u\|^2`, α_u = 1 - α_mm.

Provenance:

- Released code restores the norm tensor by tensor (``rescale="tensor"``, the default), the paper once for the
  whole encoder (``rescale="encoder"``). γ multiplies always, also without conflict, so the honest control for
  those steps is :class:`Uniform` with γ times the encoders' learning rate.
- The release runs four backward passes (joint, each unimodal, the sum). Two are enough and used here: joint,
  and the sum of the unimodal losses, whose encoders are disjoint. A parameter that encoders share keeps the
  plain sum.
- Heads and fusion keep the plain gradient of L_mm + Σ L_m.
- Open in the paper: a zero gradient (NaN cosine in the release); treated as no conflict. ‖h‖ = 0: left zero.
- Missing modalities: not treated there; here L_m is summed over the samples that have m (see ``losses``).
- BalanceBenchmark reads both objectives after all losses were accumulated, so its two gradients are the same
  vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from evigrad.calibration.errors import choose, positive
from evigrad.methods.base import StepResult, Surgery, unwrap
from evigrad.methods.gradients import Gradients, put, reduce_gradients, take
from evigrad.methods.losses import joint_loss, unimodal_losses
from evigrad.methods.ownership import encoder_parameters
from evigrad.methods.uniform import Uniform
from evigrad.networks import Output

if TYPE_CHECKING:
    from evigrad.data import Batch

__all__ = ["MMPareto", "combine", "min_norm_weights"]

Rescale = Literal["tensor", "encoder"]


class MMPareto(Uniform):
    """In each encoder, combine conflicting gradients at minimum norm and give them the norm of their sum.

    Args:
        gamma: γ; 1.5 is the authors' on CREMA-D. It is a learning-rate factor of the encoders.
        rescale: ``"tensor"`` as released, ``"encoder"`` as in the paper.
    """

    rescales_gradients = True

    def __init__(self, gamma: float = 1.5, rescale: Rescale = "tensor") -> None:
        super().__init__()
        choose("rescale", rescale, get_args(Rescale))
        self.gamma = positive("gamma", gamma)
        self.rescale = rescale
        self._joint: Gradients = {}
        self._parts: tuple[Gradients, Gradients] = ({}, {})
        self._cosines: dict[str, Tensor] = {}

    def step(
        self, network: nn.Module, batch: Batch, backward: Callable[[Tensor], None], surgery: Surgery
    ) -> StepResult:
        """One forward and two backward passes, each accumulating its own gradient over micro-batches."""
        parameters = [parameter for parameter in unwrap(network).parameters() if parameter.requires_grad]
        with surgery.no_sync():
            output: Output = network(batch.inputs, batch.present)
            joint = joint_loss(output, batch)
            own = torch.stack(list(unimodal_losses(output, batch).values())).sum()
            accumulated = take(parameters)
            put(parameters, self._joint)
            surgery.backward(joint, retain_graph=True)
            self._joint = take(parameters)
            put(parameters, accumulated)
            backward(own)
        if surgery.is_last_micro_batch:
            self._add_up(parameters, surgery)
        return StepResult((joint + own).detach(), output)

    def after_backward(self, network: nn.Module, surgery: Surgery) -> None:
        """The surgery on every encoder, with gradients that are already those of the global batch."""
        joint, own = self._parts
        self._parts = ({}, {})
        surgery.unscale([*joint.values(), *own.values()])
        for name, parameters in encoder_parameters(unwrap(network)).items():
            trained = [parameter for parameter in parameters if parameter in joint or parameter in own]
            if trained:
                self._operate(name, trained, joint, own)

    def diagnostics(self) -> dict[str, float]:
        """``cosine/<modality>``: between the joint and the unimodal gradient of the last step."""
        return {f"cosine/{name}": float(value) for name, value in self._cosines.items()}

    def _add_up(self, parameters: Sequence[nn.Parameter], surgery: Surgery) -> None:
        """Average both gradients over ranks; ``.grad`` gets the sum: there the loop looks for overflow."""
        joint = reduce_gradients(parameters, self._joint, surgery)
        own = reduce_gradients(parameters, take(parameters), surgery)
        self._joint, self._parts = {}, (joint, own)
        put(parameters, {p: _sum(joint.get(p), own.get(p)) for p in parameters if p in joint or p in own})

    def _operate(self, name: str, parameters: list[nn.Parameter], joint: Gradients, own: Gradients) -> None:
        def gradients(source: Gradients) -> list[Tensor]:
            return [source[p] if p in source else torch.zeros_like(p) for p in parameters]

        edited, self._cosines[name] = combine(gradients(joint), gradients(own), self.gamma, self.rescale)
        for parameter, gradient in zip(parameters, edited, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(gradient)


def combine(
    joint: Sequence[Tensor], own: Sequence[Tensor], gamma: float = 1.5, rescale: Rescale = "tensor"
) -> tuple[list[Tensor], Tensor]:
    """The gradient of one encoder, tensor by tensor, and the cosine between its two gradients.

    If either gradient is not finite the plain sum comes back, for the loop to skip the step.

    Args:
        joint: g_mm, one entry per tensor.
        own: g_u, likewise.
        gamma: γ.
        rescale: restore the sum's norm per ``"tensor"`` or once per ``"encoder"``.

    Example:
        >>> (gradient,), cosine = combine([torch.tensor([1.0, 0.0])], [torch.tensor([-1.0, 1.0])], gamma=1.0)
        >>> gradient
        tensor([0.4472, 0.8944])
    """
    square_joint, square_own, product = _dot(joint, joint), _dot(own, own), _dot(joint, own)
    weight = min_norm_weights(square_joint, square_own, product)
    # the weights first, then the tensors: with α = ½ the sum must come out to the last bit
    mixed = [a * (2 * weight).to(a) + b * (2 - 2 * weight).to(b) for a, b in zip(joint, own, strict=True)]
    sums = [a + b for a, b in zip(joint, own, strict=True)]
    if rescale == "tensor":
        factors = [_restore(_dot([total], [total]), _dot([h], [h])) for total, h in zip(sums, mixed, strict=True)]
    else:
        factors = [_restore(_dot(sums, sums), _dot(mixed, mixed))] * len(mixed)
    finite = (square_joint + square_own).isfinite()
    edited = [h.mul_(torch.where(finite, gamma * factor, 1.0).to(h)) for h, factor in zip(mixed, factors, strict=True)]
    length = square_joint.sqrt() * square_own.sqrt()
    return edited, torch.where(length > 0, product / length, 0.0)


def min_norm_weights(square_joint: Tensor, square_own: Tensor, product: Tensor) -> Tensor:
    """α_mm from ‖g_mm‖², ‖g_u‖² and ⟨g_mm, g_u⟩: ½ without conflict, else the minimum-norm point's.

    Example:
        >>> min_norm_weights(torch.tensor(1.0), torch.tensor(3.0), torch.tensor(0.0))
        tensor(0.7500)
    """
    # a zero gradient has no direction to conflict with
    conflict = (product <= 0) & (square_joint > 0) & (square_own > 0)
    weight = (square_own - product) / (square_joint + square_own - 2 * product)
    return torch.where(conflict, weight, 0.5)


def _restore(square_sum: Tensor, square_mixed: Tensor) -> Tensor:
    ratio = (square_sum / square_mixed).sqrt()
    return torch.where((square_mixed > 0) & (ratio > 1), ratio, 1.0)


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    # squares of half-precision gradients overflow; the few sums of tensors are added in float64
    parts = [torch.dot(_wide(a), _wide(b)).double() for a, b in zip(first, second, strict=True)]
    return torch.stack(parts).sum()


def _wide(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).to(torch.promote_types(tensor.dtype, torch.float32))


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor:
    if first is None or second is None:
        present = second if first is None else first
        assert present is not None
        return present.clone()
    return first + second
