import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evigrad.data import DataError, grouped, stratified, stream
from evigrad.data.splitting import numbered, per_class


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=5), share=st.floats(0.05, 0.95), seed=st.integers(0, 99)
)
def test_stratified_holds_out_the_same_share_of_every_class(counts, share, seed):
    target = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
    kept, held = stratified(target, share, stream(seed))
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(target)))
    assert torch.bincount(target[held], minlength=len(counts)).tolist() == [round(share * count) for count in counts]


@given(groups=st.lists(st.integers(0, 6), min_size=4, max_size=60), share=st.floats(0.1, 0.9), seed=st.integers(0, 99))
def test_grouped_never_separates_a_group(groups, share, seed):
    groups = torch.tensor([0, 1, *groups])
    kept, held = grouped(groups, share, stream(seed))
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(groups)))
    assert not set(groups[kept].tolist()) & set(groups[held].tolist())
    assert len(kept)
    assert len(held)
    largest = int(torch.bincount(groups).max())
    assert len(held) < share * len(groups) + largest


def test_grouped_reaches_the_share():
    groups = torch.arange(1000) // 10
    assert 200 <= len(grouped(groups, 0.2, stream(0))[1]) < 210


def test_the_generator_decides():
    target = torch.arange(100) % 2
    assert torch.equal(stratified(target, 0.3, stream(1))[1], stratified(target, 0.3, stream(1))[1])
    assert not torch.equal(stratified(target, 0.3, stream(1))[1], stratified(target, 0.3, stream(2))[1])


def test_few_labels():
    target, rows = torch.arange(100) % 4, torch.arange(10, 90)
    chosen = per_class(target, rows, 3, stream(0))
    assert torch.bincount(target[chosen]).tolist() == [3, 3, 3, 3]
    assert set(chosen.tolist()) <= set(rows.tolist())


def test_names_become_numbers():
    assert numbered(["b", "a", "b", 3]).tolist() == [2, 1, 2, 0]


def test_errors():
    target = torch.arange(4) % 2
    with pytest.raises(DataError, match=r"share=1.5: the share of rows held out must lie between 0 and 1"):
        stratified(target, 1.5, stream(0))
    with pytest.raises(DataError, match="there is only one group"):
        grouped(torch.zeros(4), 0.5, stream(0))
    with pytest.raises(DataError, match="labels_per_class=3: class 0 has only 2 training rows"):
        per_class(target, torch.arange(4), 3, stream(0))
    with pytest.raises(DataError, match="labels_per_class=0: give at least 1"):
        per_class(target, torch.arange(4), 0, stream(0))
