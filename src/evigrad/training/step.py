"""One optimizer step: its micro-batches, the method's surgery, clipping, the update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # documented, but not in its __all__

from evigrad.calibration import NonFiniteError
from evigrad.training import ranks
from evigrad.training.optim import learning_rate_factor, set_learning_rate
from evigrad.training.run import Run
from evigrad.training.totals import Totals

if TYPE_CHECKING:
    from evigrad.data import Batch
    from evigrad.methods import StepResult


class DivergedError(ArithmeticError):
    """The training loss, or something on the way to it, became NaN or infinite."""


def optimizer_step(run: Run, batches: Iterator[Batch], sizes: list[int]) -> tuple[Tensor, float, int]:
    """Take one step over ``len(sizes)`` micro-batches of ``batches``.

    Returns:
        This rank's share of the step's mean loss (the shares of all ranks average to it), the learning rate, and
        the number of samples this rank has seen.
    """
    rate = _set_rate(run)
    run.network.optimizer.zero_grad()
    losses = []
    for number, size in enumerate(sizes):
        run.surgery.weight = run.plan.weight(run.position.step_in_epoch, run.fabric.global_rank, size)
        run.surgery.is_last_micro_batch = number == len(sizes) - 1
        batch = _counted(run, _thinned(run, next(batches), number))
        result = _micro_step(run, batch)
        losses.append(result.loss.detach() * run.surgery.weight)
        _count(run, batch, result)
    if run.surgery.unscale_gradients(run.network.plain_optimizer):
        _reduce_method_gradients(run)
        run.method.after_backward(run.network, run.surgery)
        if run.training.clip_norm is not None:
            run.network.clip(run.training.clip_norm)
    run.network.optimizer.step()
    if run.average is not None:
        run.average.update(run.network.module)
    return torch.stack(losses).sum(), rate, sum(sizes)


def _set_rate(run: Run) -> float:
    training = run.training
    factor = learning_rate_factor(training.schedule, run.position.step, len(run.plan), training.epochs)
    rate = training.optimizer.learning_rate * factor
    set_learning_rate(run.network.plain_optimizer, rate)
    return rate


def _micro_step(run: Run, batch: Batch) -> StepResult:
    try:
        return _method_step(run, batch)
    except (NonFiniteError, LinAlgError) as error:  # features and curvatures overflow before the loss does
        raise DivergedError(
            f"training diverged in step {run.position.step + 1} (epoch {run.position.epoch + 1}): {error} "
            f"The last good checkpoint is {run.folder.last}."
        ) from error


def _method_step(run: Run, batch: Batch) -> StepResult:
    if run.surgery.is_last_micro_batch:
        return run.method.step(run.network, batch, run.surgery.backward, run.surgery)
    with run.surgery.no_sync():
        return run.method.step(run.network, batch, run.surgery.backward, run.surgery)


def _thinned(run: Run, batch: Batch, number: int) -> Batch:
    """The batch after modality dropout, whose draws depend on the step alone, so that a resumed run repeats them."""
    probability = run.training.modality_dropout
    if probability == 0:
        return batch
    from evigrad.data import drop, stream

    place = (run.position.step, run.fabric.global_rank, number)
    return drop(batch, probability, stream(run.training.seed, "modality dropout", *place)).batch


def _counted(run: Run, batch: Batch) -> Batch:
    """The batch; nothing of it where this rank has no sample of its own and repeats one that another rank has."""
    if run.surgery.weight > 0:
        return batch
    from evigrad.data import keep

    return keep(batch, ()).batch


@torch.no_grad()
def _count(run: Run, batch: Batch, result: StepResult) -> None:
    if run.surgery.weight == 0:
        return
    own = run.method.unimodal_probabilities(result.output)
    if run.totals is None:
        run.totals = Totals(tuple(own), run.fabric.device)
    probabilities = run.method.predict(result.output, batch.present)
    run.totals.add(result.loss, probabilities, own, batch.target, batch.present)


def _reduce_method_gradients(run: Run) -> None:
    """Parameters of the method itself are outside the strategy's wrapper; their gradients are averaged here."""
    if not ranks.together():
        return
    for parameter in run.method.parameters():
        if parameter.grad is not None:
            parameter.grad.copy_(ranks.all_reduce(parameter.grad))
