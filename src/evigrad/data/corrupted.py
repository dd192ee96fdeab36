"""Corrupted copies of a data set, and corrupted batches for training.

Everything is drawn from the generator when the copy is made: a table of who is hit, and a seed for each row and
modality. Reading a row twice, in another order or in a worker gives the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .batch import Altered, Batch
from .corruption import Damage, check_share
from .dataset import MultimodalDataset
from .errors import DataError, nearest
from .seeding import seeds
from .wrapped import Wrapped, fetch


class CorruptedDataset(Wrapped):
    """``dataset`` with ``damage[name]`` done where ``hit[name]`` [N]; an absent modality is never hit.

    ``fixed_field`` uses one seed for all rows and modalities: values of one shape get the same noise.
    """

    def __init__(
        self,
        dataset: MultimodalDataset,
        damage: Mapping[str, Damage],
        hit: Mapping[str, Tensor],
        generator: torch.Generator,
        protocol: str,
        fixed_field: bool = False,
    ) -> None:
        super().__init__(dataset, protocol)
        for name in damage:
            if name not in dataset.modalities:
                raise nearest("modality", name, dataset.modalities)
        self.damage = dict(damage)
        self.hit = {name: hit[name] & self.present[name] for name in damage}
        drawn = {name: seeds(len(dataset), generator) for name in damage}
        first = next(iter(drawn.values()))[:1] if fixed_field else None
        self.seeds = {name: own if first is None else first.expand_as(own) for name, own in drawn.items()}

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        batch = fetch(self.dataset, rows)
        inputs = dict(batch.inputs)
        for name, damage in self.damage.items():
            values = list(inputs[name])
            for at, row in enumerate(rows):
                if self.hit[name][row]:
                    generator = torch.Generator().manual_seed(int(self.seeds[name][row]))
                    try:
                        values[at] = damage(values[at], generator)
                    except DataError as error:
                        raise DataError(f"row {row}, modality {name!r}: {error}") from error
            inputs[name] = torch.stack(values)
        return replace(batch, inputs=inputs)


def corrupt(
    dataset: MultimodalDataset,
    damage: Mapping[str, Damage],
    generator: torch.Generator,
    probability: float = 0.5,
) -> CorruptedDataset:
    """Each modality named in ``damage`` is hit with ``probability``, independently of the others."""
    check_share("probability", probability)
    hit = {name: torch.rand(len(dataset), generator=generator) < probability for name in damage}
    return CorruptedDataset(dataset, damage, hit, generator, f"{damage} with probability {probability} each")


def corrupt_batch(
    batch: Batch, damage: Mapping[str, Damage], generator: torch.Generator, probability: float = 0.5
) -> Altered:
    """The same for one batch, for training: fresh noise each time, recorded in ``hit``."""
    check_share("probability", probability)
    inputs, hit = dict(batch.inputs), {}
    for name, do in damage.items():
        if name not in inputs:
            raise nearest("modality", name, inputs)
        chosen = (torch.rand(len(batch), generator=generator) < probability).to(batch.target.device)
        hit[name] = chosen & batch.present[name]
        inputs[name] = torch.stack([do(x, generator) if h else x for x, h in zip(inputs[name], hit[name], strict=True)])
    return Altered(replace(batch, inputs=inputs), hit)
