"""One sample, one batch, and the step from the first to the second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .errors import DataError


@dataclass(frozen=True)
class Sample:
    """One row of a data set. ``present`` may leave out modalities that are there; absent inputs are zeros."""

    inputs: Mapping[str, Tensor]
    target: Tensor
    index: int
    present: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """B samples: ``inputs[name]`` [B, ...], ``target`` [B] long, ``present[name]`` [B] bool, ``index`` [B] long.

    ``present`` is always complete, and the rows of absent samples are zero. ``index`` is the position in the
    data set.
    """

    inputs: dict[str, Tensor]
    target: Tensor
    present: dict[str, Tensor]
    index: Tensor

    def __len__(self) -> int:
        return len(self.target)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same batch on ``device``."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The same batch in page-locked memory; DataLoader calls this with ``pin_memory=True``."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        inputs = {name: change(value) for name, value in self.inputs.items()}
        present = {name: change(value) for name, value in self.present.items()}
        return Batch(inputs, change(self.target), present, change(self.index))


@dataclass(frozen=True)
class Altered:
    """A changed batch and ``hit[name]`` [B] bool: the rows whose modality was changed or taken away."""

    batch: Batch
    hit: dict[str, Tensor]


def blank(values: Tensor, present: Tensor) -> Tensor:
    """``values`` [B, ...] with the rows of absent samples (``present`` [B] false) set to zero, NaN included."""
    if present.all():
        return values
    return values.masked_fill(~present.view(-1, *[1] * (values.ndim - 1)), 0)


def collate(samples: Sequence[Sample] | Batch) -> Batch:
    """Stack samples into a batch. A data set that builds whole batches itself passes through."""
    if isinstance(samples, Batch):
        return samples
    names = tuple(samples[0].inputs)
    for sample in samples:
        if set(sample.inputs) != set(names):
            raise DataError(
                f"sample {sample.index} has modalities {sorted(sample.inputs)}, sample {samples[0].index} has "
                f"{sorted(names)}; give an absent modality as zeros with present[name] = False"
            )
    present = {name: torch.tensor([bool(s.present.get(name, True)) for s in samples]) for name in names}
    inputs = {name: blank(_stack(name, samples), present[name]) for name in names}
    target = torch.stack([torch.as_tensor(sample.target) for sample in samples])
    return Batch(inputs, target, present, torch.tensor([sample.index for sample in samples]))


def _stack(name: str, samples: Sequence[Sample]) -> Tensor:
    first = samples[0].inputs[name]
    for sample in samples:
        value = sample.inputs[name]
        if value.shape != first.shape or value.dtype != first.dtype:
            raise DataError(
                f"modality {name!r}: sample {sample.index} is {tuple(value.shape)} {value.dtype}, sample "
                f"{samples[0].index} is {tuple(first.shape)} {first.dtype}; pad or crop samples to one shape"
            )
    return torch.stack([sample.inputs[name] for sample in samples])
