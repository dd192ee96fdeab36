import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset

from evigrad.data import (
    DataError,
    EpochSampler,
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


def test_each_epoch_is_a_new_permutation_that_the_seed_decides():
    sampler = EpochSampler(50, seed=3)
    first = list(sampler)
    sampler.start(1)
    second = list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(EpochSampler(50, seed=3)) == first
    assert list(EpochSampler(50, seed=4)) != first


def test_in_order_without_shuffling():
    assert list(EpochSampler(5, shuffle=False)) == [0, 1, 2, 3, 4]


@given(length=st.integers(1, 40), replicas=st.integers(1, 4), batch=st.integers(1, 7))
def test_ranks_together_see_the_batches_of_one_process(length, replicas, batch):
    whole_order = EpochSampler(length, seed=1).order()
    padded = [whole_order[i % length] for i in range(-(-length // replicas) * replicas)]
    ranks = [list(EpochSampler(length, seed=1, rank=r, replicas=replicas)) for r in range(replicas)]
    assert {len(rank) for rank in ranks} == {len(padded) // replicas}
    for start in range(0, len(ranks[0]), batch):
        together = sorted(row for rank in ranks for row in rank[start : start + batch])
        assert together == sorted(padded[start * replicas : (start + batch) * replicas])


@given(length=st.integers(1, 30), replicas=st.integers(1, 3), used=st.integers(0, 10), epoch=st.integers(0, 5))
def test_resumes_where_the_state_was_taken(length, replicas, used, epoch):
    sampler = EpochSampler(length, seed=9, rank=replicas - 1, replicas=replicas)
    sampler.start(epoch)
    order = list(sampler)
    sampler.advance(used)
    state = sampler.state_dict()
    assert state == {"seed": 9, "epoch": epoch, "position": used * replicas}
    other = EpochSampler(length, seed=0, rank=replicas - 1, replicas=replicas)
    other.load_state_dict(state)
    assert list(other) == order[used:]
    assert len(other) == len(order[used:])


def test_what_workers_fetch_ahead_is_not_counted():
    data = synthetic(sizes=(64, 1, 1)).train
    sampler = EpochSampler(len(data), seed=0)
    loader = batches(data, 8, sampler, workers=2)
    seen = []
    for number, batch in enumerate(loader):
        seen += batch.index.tolist()
        sampler.advance(len(batch))
        if number == 2:
            break
    resumed = EpochSampler(len(data))
    resumed.load_state_dict(sampler.state_dict())
    rest = [row for batch in batches(data, 8, resumed) for row in batch.index.tolist()]
    assert seen + rest == EpochSampler(len(data), seed=0).order()


def test_number_of_workers_changes_nothing():
    data = synthetic(sizes=(60, 1, 1), missing=0.3).train
    data = remove_at_random(corrupt(data, {"weak": FeatureNoise(1.0)}, stream(0)), 0.4, stream(1))
    lists = [list(batches(data, 16, EpochSampler(60, seed=2), workers=workers)) for workers in (0, 2)]
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
    with pytest.raises(DataError, match="length=0: the data set is empty"):
        EpochSampler(0)
    with pytest.raises(DataError, match=r"rank=2: it must lie in 0..1 with replicas=2"):
        EpochSampler(4, rank=2, replicas=2)
