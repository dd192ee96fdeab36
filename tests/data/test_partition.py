import pytest
import torch

from evigrad.data import DataError
from evigrad.data.partition import partition

TARGET = torch.arange(100) % 2


def cut(given=None, group=None, split=None, seed=0, validation=0.25, test=0.2):
    return partition("a.npz", TARGET, given or {}, group, split, seed, validation, test)


def test_a_given_split_is_taken_and_validation_cut_from_train():
    rows, line = cut({"train": range(80), "test": range(80, 100)})
    assert rows["test"].tolist() == list(range(80, 100))
    assert sorted([*rows["train"].tolist(), *rows["validation"].tolist()]) == list(range(80))
    assert torch.bincount(TARGET[rows["validation"]]).tolist() == [10, 10]
    assert (
        line == "test rows as given, validation 25% of the training rows, stratified, seed 0; selection on validation"
    )


def test_a_full_split_is_not_touched():
    given = {"train": range(50), "validation": range(50, 60), "test": range(60, 100)}
    rows, line = cut(given)
    assert {part: chosen.tolist() for part, chosen in rows.items()} == {p: list(r) for p, r in given.items()}
    assert "as given" in line


def test_seeded_cuts_both_parts():
    rows, _ = cut()
    assert {part: len(chosen) for part, chosen in rows.items()} == {"train": 60, "test": 20, "validation": 20}
    assert len(torch.cat(list(rows.values())).unique()) == 100
    assert torch.equal(cut()[0]["test"], rows["test"])
    assert not torch.equal(cut(seed=1)[0]["test"], rows["test"])
    assert torch.equal(cut({"train": [0], "test": [1]}, split="seeded")[0]["test"], rows["test"])


def test_groups_are_never_separated():
    group = [f"actor {i // 5}" for i in range(100)]
    rows, line = cut(group=group)
    parts = [{group[i] for i in chosen.tolist()} for chosen in rows.values()]
    assert sum(len(part) for part in parts) == 20
    assert "whole groups" in line


def test_errors():
    with pytest.raises(DataError, match=r"unknown split 'givn'. Did you mean 'given'\?"):
        cut(split="givn")
    with pytest.raises(DataError, match=r"split='given' needs rows for train and test .*; it has \['test'\]"):
        cut({"test": [0]}, split="given")
    with pytest.raises(DataError, match="'test_idx' names row 100, but there are 100 rows"):
        cut({"train": [0], "test": [100]})
    with pytest.raises(DataError, match="the validation part has no row"):
        cut(validation=0.001)
