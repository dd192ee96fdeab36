"""One pass over the training set, which can stop after any optimizer step and go on from there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evigrad.training import ranks
from evigrad.training.loader import load
from evigrad.training.progress import Progress
from evigrad.training.run import Run
from evigrad.training.signals import Interrupted, StopRequest
from evigrad.training.step import DivergedError, optimizer_step

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset
    from evigrad.training.loggers import MetricLogger


def train_epoch(
    run: Run, dataset: MultimodalDataset, stop: StopRequest, progress: Progress, loggers: Sequence[MetricLogger]
) -> dict[str, float]:
    """Go through what is left of this epoch; returns the means over its training batches, NaN where nothing was."""
    position, training = run.position, run.training
    order = run.plan.order(training.seed, position.epoch)
    steps = list(run.plan.steps(order, run.fabric.global_rank, position.step_in_epoch))
    batches = load(dataset, itertools.chain.from_iterable(steps), run.fabric.device, training.workers, _seed(run))
    rows = StepRows(run, loggers)
    run.network.train()
    run.method.train()
    if position.step_in_epoch == 0:
        run.method.start_epoch(position.epoch)
    for parts in steps:
        try:
            loss, rate, samples = optimizer_step(run, batches, [len(part) for part in parts])
        except DivergedError:
            rows.flush_alone()
            raise
        position.step += 1
        position.step_in_epoch += 1
        rows.add(loss, rate)
        if progress.advance(samples * run.fabric.world_size) and run.totals is not None:
            progress.show(position.epoch, run.totals.means(over_ranks=False))
        _save_or_stop(run, rows, stop, last=position.step_in_epoch == len(run.plan))
    rows.flush()
    totals, run.totals = run.totals, None
    if totals is None:
        return {}
    return dict.fromkeys(totals.columns, math.nan) | totals.means()


def _seed(run: Run) -> tuple[int, int, int]:
    return (run.training.seed, run.position.epoch, 1)


def _save_or_stop(run: Run, rows: StepRows, stop: StopRequest, last: bool) -> None:
    """Checkpoint when it is time, or leave when asked to; the last step of an epoch leaves both to the epoch's end."""
    asked = ranks.any_rank(stop.asked, run.fabric.device)
    every = run.training.checkpoint_every
    if last or not (asked or (every and run.position.step % every == 0)):
        return
    rows.flush()
    run.save_last()
    if asked:
        raise Interrupted(run.folder.path, run.position.step)


class StepRows:
    """Rows of ``steps.csv``, collected so that the device isn't waited for after every step."""

    def __init__(self, run: Run, loggers: Sequence[MetricLogger]) -> None:
        self.run = run
        self.loggers = loggers
        self.waiting: list[tuple[int, float, Tensor]] = []

    def add(self, loss: Tensor, rate: float) -> None:
        """Note the step that was just taken."""
        self.waiting.append((self.run.position.step, rate, loss))
        if len(self.waiting) >= self.run.training.log_every:
            self.flush()

    def flush_alone(self) -> None:
        """Write what is waiting on the way out; several processes can't, as the others may have nothing to say."""
        if not ranks.together():
            self.flush()

    def flush(self) -> None:
        """Write what is waiting; a loss that isn't finite ends the run here, before it could reach a checkpoint."""
        if not self.waiting:
            return
        losses = ranks.all_reduce(torch.stack([loss for _, _, loss in self.waiting])).tolist()
        rows = [
            {"step": step, "epoch": self.run.position.epoch, "loss": loss, "learning_rate": rate}
            for (step, rate, _), loss in zip(self.waiting, losses, strict=True)
        ]
        self.waiting.clear()
        if self.run.main:
            self.run.folder.steps.append(rows)
            for row in rows:
                for logger in self.loggers:
                    logger.log({f"step/{name}": row[name] for name in ("loss", "learning_rate")}, int(row["step"]))
        for row in rows:
            if not -torch.inf < row["loss"] < torch.inf:
                raise DivergedError(
                    f"the training loss is {row['loss']} at step {row['step']:.0f} (epoch {row['epoch'] + 1:.0f}, "
                    f"learning rate {row['learning_rate']:g}). Lower the learning rate, set clip_norm, or check the "
                    f"data; the last good checkpoint is {self.run.folder.last}."
                )
