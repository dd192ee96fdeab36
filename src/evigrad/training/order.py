"""Which samples each rank sees in each micro-batch: a pure function of the seed, the epoch and the hardware."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class EpochPlan:
    """Cuts the samples of one epoch into optimizer steps, micro-batches and ranks.

    One optimizer step takes ``batch_size`` samples whatever the hardware: they are dealt out evenly to ranks, and
    each rank's share is cut evenly into at most ``accumulate`` micro-batches. So the last, incomplete, step has
    fewer or smaller micro-batches, and weighing each by :meth:`weight` gives the mean over its samples exactly.

    Args:
        size: N, samples in the data set.
        batch_size: Samples per optimizer step, over all ranks.
        accumulate: Micro-batches per step and rank.
        world_size: Ranks.
        drop_last: Leave out an incomplete last step.

    Example:
        >>> plan = EpochPlan(size=10, batch_size=4, accumulate=2)
        >>> [[len(part) for part in step] for step in plan.steps(torch.arange(10))]
        [[2, 2], [2, 2], [1, 1]]
    """

    size: int
    batch_size: int
    accumulate: int = 1
    world_size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        parts = self.accumulate * self.world_size
        if self.batch_size < parts:
            raise ValueError(
                f"batch_size={self.batch_size} is the number of samples per optimizer step over all devices and "
                f"cannot fill accumulate={self.accumulate} micro-batches on {self.world_size} device(s). "
                f"Use a batch_size of at least {parts}."
            )
        if len(self) == 0:
            raise ValueError(
                f"the training set has {self.size} samples, which makes no step of batch_size={self.batch_size} with "
                f"drop_last={self.drop_last}. Use a smaller batch_size or more data."
            )

    def __len__(self) -> int:
        """Optimizer steps in one epoch."""
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)

    def order(self, seed: int, epoch: int) -> torch.Tensor:
        """The permutation of the samples in ``epoch``: ``[N]``, the same on every rank and after a resume."""
        generator = torch.Generator().manual_seed(derived_seed(seed, epoch))
        return torch.randperm(self.size, generator=generator)

    def steps(self, order: torch.Tensor, rank: int = 0, start: int = 0) -> Iterator[list[list[int]]]:
        """For each optimizer step from ``start`` on, the micro-batches of ``rank`` as lists of positions."""
        for step in range(start, len(self)):
            samples = order[step * self.batch_size : (step + 1) * self.batch_size].tolist()
            pieces = min(self.accumulate, max(1, len(samples) // self.world_size))
            share = samples[rank :: self.world_size] or samples[:1]
            yield [part.tolist() for part in np.array_split(np.array(share), pieces)]

    def weight(self, step: int, rank: int, micro_batch: int) -> float:
        """What a micro-batch's mean loss is multiplied by, so that ranks' averaged gradients sum to the step's mean.

        ``samples in the micro-batch * ranks / samples in the step``; 0 for the filler of a rank without a sample.
        """
        samples = min(self.batch_size, self.size - step * self.batch_size)
        if rank >= samples:
            return 0.0
        return micro_batch * self.world_size / samples


def derived_seed(*parts: int) -> int:
    """One 63-bit seed from several small numbers, without the correlations that adding them would have."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> np.uint64(1))
