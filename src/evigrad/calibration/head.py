"""One head's posterior over the course of training: what it has seen, kept in buffers."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from evigrad.calibration.likelihood import Likelihood
from evigrad.calibration.structures import ADDITIVE, STRUCTURES, Gaussian, Seen, state
from evigrad.calibration.synchronize import summed


class HeadPosterior(nn.Module):
    """The posterior over a head's C x D weights, given a batch or an exponential average over batches.

    The average keeps sums: S ← decay·S + (this batch), the same for the number of samples n. With a data set of size N
    the curvature is N·S/n; without one it is S itself, that of the samples which the average still remembers.
    """

    count: Tensor
    steps: Tensor

    def __init__(
        self,
        outputs: int,
        width: int,
        loss: Likelihood,
        structure: str,
        running: bool,
        prior_precision: float,
        dataset_size: int | None,
        decay: float,
        refresh: int,
        rank: int,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.structure = structure
        self.running = running
        self.prior_precision = prior_precision
        self.dataset_size = dataset_size
        self.decay = decay
        self.refresh = refresh
        self._clock = 0  # the same as `steps`, on the host, so that no step waits for the device
        if running:
            kind = ADDITIVE[structure]
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))
            self.register_buffer("count", torch.zeros(()))
            for name, value in kind.empty(outputs, width, rank).items():
                self.register_buffer(f"sum_{name}", value)
            self._apply(lambda value: value)  # in float32 at least, whatever the default dtype is
            zero = torch.zeros_like(self.count)
            prior = kind.from_statistics(self._buffers_of("sum_"), zero, zero, prior_precision)
            for name, value in state(prior).items():
                self.register_buffer(f"posterior_{name}", value)
            self.register_load_state_dict_post_hook(_wind_clock)  # type: ignore[no-untyped-call]

    def see(self, seen: Seen, synchronize: bool) -> None:
        """Add a batch to the average, and renew the posterior when its time has come."""
        if not self.running:
            return
        batch = ADDITIVE[self.structure].observe(self._buffers_of("sum_"), seen, self.loss)
        batch["count"] = seen.present.sum()
        if synchronize:
            batch = summed(batch)
        # One overflow must not stay in the memory for good: its batch is passed over.
        sound = torch.stack([value.sum().isfinite() for value in batch.values()]).all()
        # A batch without this modality says nothing: the memory does not fade.
        fade = torch.where(sound & (batch["count"] > 0), torch.full_like(self.count, self.decay), 1.0)
        for name, value in batch.items():
            kept = self.get_buffer("count" if name == "count" else f"sum_{name}")
            kept.mul_(fade).add_(torch.where(sound, value, 0))
        self.steps.add_(1)
        self._renew_when_due()

    def gaussian(self, seen: Seen, synchronize: bool) -> Gaussian:
        """The posterior to use with this batch."""
        if self.running:
            kept = self._buffers_of("posterior_")
            return ADDITIVE[self.structure](**{name: value.to(seen.inputs.dtype) for name, value in kept.items()})
        if synchronize and self.structure in ADDITIVE:
            additive = ADDITIVE[self.structure]
            total = additive.observe({}, seen, self.loss)
            total = summed(total | {"count": seen.present.sum()})
            count = total.pop("count")
            return additive.from_statistics(total, count, count, self.prior_precision)
        return STRUCTURES[self.structure].fit(seen, self.loss, self.prior_precision)

    def newton_step(
        self, theta: Tensor, seen: Seen, residual: Tensor, posterior: Gaussian, synchronize: bool
    ) -> Tensor:
        """−H⁻¹q, from the weights to the printed centre; q is the gradient of the negative log-posterior.

        ``residual`` [B, C] is the gradient of the loss's value at the logits.
        """
        batch = {
            "slope": (residual * self.loss.outputs_averaged(residual.shape[-1])).T @ seen.inputs,
            "count": seen.present.sum(),
        }
        if synchronize:
            batch = summed(batch)
        weight = self._samples(batch["count"]) / batch["count"].clamp_min(1)
        return -posterior.solve(batch["slope"] * weight + self.prior_precision * theta)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # In half precision a sum over thousands of samples stops growing: `.half()` and `.to(bfloat16)` pass it by.
        def at_least_single(value: Tensor) -> Tensor:
            moved = fn(value)
            if not moved.is_floating_point() or moved.dtype.itemsize >= 4:
                return moved
            return value.to(moved.device, torch.promote_types(value.dtype, torch.float32))

        result: Self = super()._apply(at_least_single, recurse)  # type: ignore[no-untyped-call]
        return result

    def _samples(self, in_batch: Tensor) -> Tensor:
        """How many samples the curvature stands for."""
        if not self.running:
            return in_batch
        return self.count if self.dataset_size is None else torch.full_like(self.count, self.dataset_size)

    def _buffers_of(self, prefix: str) -> dict[str, Tensor]:
        own = self._buffers.items()  # not named_buffers(), which walks all modules and is slow at every step
        return {
            name.removeprefix(prefix): value for name, value in own if value is not None and name.startswith(prefix)
        }

    def _renew_when_due(self) -> None:
        if torch.compiler.is_compiling():
            # A Python counter would be a constant to the compiler and force a new graph at each step.
            due = (self.steps <= self.refresh) | (self.steps % self.refresh == 0)
            if self.structure != "full":
                self._keep(torch.cond(due, self._fresh, self._kept, ()))
            elif due:  # its Cholesky factor looks whether it worked, which `cond` can't hold: this breaks the graph
                self._keep(self._fresh())
            return
        self._clock += 1
        if self._clock <= self.refresh or self._clock % self.refresh == 0:
            self._keep(self._fresh())

    def _fresh(self) -> dict[str, Tensor]:
        kind, samples = ADDITIVE[self.structure], self._samples(self.count)
        return state(kind.from_statistics(self._buffers_of("sum_"), self.count, samples, self.prior_precision))

    def _kept(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self._buffers_of("posterior_").items()}

    def _keep(self, fresh: dict[str, Tensor]) -> None:
        for name, value in fresh.items():
            self.get_buffer(f"posterior_{name}").copy_(value)


def _wind_clock(module: nn.Module, _: object) -> None:
    assert isinstance(module, HeadPosterior)
    module._clock = int(module.steps)
