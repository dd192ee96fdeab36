"""Sums over the training batches of an epoch, kept on the device so that no step waits for them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from evigrad.training import ranks

TOGETHER = 16
"""Micro-batches that are counted at once: many small operations would cost as much as a small network's step."""


class Totals:
    """Loss and accuracies of the training batches so far, as the weights change under way.

    ``accuracy`` is that of the method's own prediction, ``own_head/NAME`` that of each modality's own head over the
    samples that have the modality.
    """

    def __init__(self, names: tuple[str, ...], device: torch.device) -> None:
        self.names = names
        # Rows: what was summed, and over how many samples. 64 bits: sums of many small numbers.
        self._sums = torch.zeros(2, 2 + len(names), dtype=torch.float64, device=device)
        self._waiting: list[tuple[Tensor, list[Tensor], Tensor, list[Tensor]]] = []

    def add(
        self,
        loss: Tensor,
        probabilities: Tensor,
        own: Mapping[str, Tensor],
        target: Tensor,
        present: Mapping[str, Tensor],
    ) -> None:
        """Count one micro-batch of B samples with mean loss ``loss``."""
        scores = [probabilities, *(own[name] for name in self.names)]
        self._waiting.append((loss * len(target), scores, target, [present[name] for name in self.names]))
        if len(self._waiting) == TOGETHER:
            self._count()

    @property
    def sums(self) -> Tensor:
        """What was summed and over how many samples, ``[2, 2 + M]``: loss, accuracy, own heads."""
        self._count()
        return self._sums

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all means, also of those that have no sample."""
        return ("loss", "accuracy", *(f"own_head/{name}" for name in self.names))

    def means(self, over_ranks: bool = True) -> dict[str, float]:
        """Name -> mean. A modality that was never present is left out, not counted as wrong."""
        sums = ranks.all_reduce(self.sums, "sum") if over_ranks else self.sums
        values, counts = sums.tolist()
        return {name: value / count for name, value, count in zip(self.columns, values, counts, strict=True) if count}

    @torch.no_grad()
    def _count(self) -> None:
        if not self._waiting:
            return
        losses, scores, targets, present = zip(*self._waiting, strict=True)
        self._waiting.clear()
        target = torch.cat(targets)
        everyone = torch.ones_like(target, dtype=torch.bool)
        rows = torch.stack([torch.cat(column) for column in zip(*scores, strict=True)])
        counted = torch.stack([everyone, *(torch.cat(column) for column in zip(*present, strict=True))])
        hits = (rows.argmax(dim=2) == target) & counted
        # One after the other, so that rounding doesn't tell when somebody looked or a checkpoint was taken.
        self._sums[0, 0] = torch.cat([self._sums[0, :1], torch.stack(losses).double()]).cumsum(0)[-1]
        self._sums[1, 0] += len(target)
        self._sums[:, 1:] += torch.stack([hits.sum(dim=1), counted.sum(dim=1)])
