import random

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from evigrad.data import (
    DataError,
    FeatureNoise,
    Sample,
    batches,
    corrupt,
    remove_at_random,
    stream,
    synthetic,
)
from evigrad.data.loading import whole


def same(first, second) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a.target, b.target)
        and torch.equal(a.index, b.index)
        and all(torch.equal(a.inputs[n], b.inputs[n]) and torch.equal(a.present[n], b.present[n]) for n in a.inputs)
        for a, b in zip(first, second, strict=True)
    )


def test_the_generator_decides_the_order():
    data = synthetic(sizes=(50, 1, 1)).train

    def order(seed):
        return [row for batch in batches(data, 8, shuffle=True, generator=stream(seed)) for row in batch.index.tolist()]

    assert sorted(order(3)) == list(range(50))
    assert order(3) == order(3) != order(4)
    assert [row for batch in batches(data, 8) for row in batch.index.tolist()] == list(range(50))


def test_number_of_workers_changes_nothing():
    data = synthetic(sizes=(60, 1, 1), missing=0.3).train
    data = remove_at_random(corrupt(data, {"weak": FeatureNoise(1.0)}, stream(0)), 0.4, stream(1))
    lists = [list(batches(data, 16, shuffle=True, generator=stream(2), workers=workers)) for workers in (0, 2)]
    assert same(*lists)
    assert [len(batch) for batch in lists[0]] == [16, 16, 16, 12]


class Drawn(Dataset):
    """A data set that does draw from the global generators, as somebody's may."""

    modalities, classes, protocol, target = {"x": (3,)}, ("0",), "drawn", torch.zeros(4, dtype=torch.long)

    def __len__(self):
        return 4

    def __getitem__(self, row):
        x = torch.tensor([random.random(), np.random.random(), torch.rand(()).item()])  # noqa: NPY002
        return Sample({"x": x}, self.target[row], row)


def test_workers_are_seeded_by_the_generator_that_is_passed_in():
    def run(seed):
        loader = batches(Drawn(), 1, workers=2, generator=torch.Generator().manual_seed(seed))
        return torch.cat([batch.inputs["x"] for batch in loader])

    first = run(1)
    assert torch.equal(first, run(1))
    assert (first != run(2)).all()
    assert len({tuple(row) for row in first.tolist()}) == 4


def test_drop_last_and_whole():
    data = synthetic(sizes=(10, 1, 1)).train
    assert [len(batch) for batch in batches(data, 4, drop_last=True)] == [4, 4]
    assert torch.equal(whole(data).inputs["weak"], data.inputs["weak"])


def test_bad_arguments_are_named():
    data = synthetic(sizes=(4, 1, 1)).train
    with pytest.raises(DataError, match="batch_size=0: give at least 1"):
        batches(data, 0)
