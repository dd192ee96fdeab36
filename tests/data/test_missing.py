import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evigrad.data import (
    Batch,
    DataError,
    batches,
    draw,
    drop,
    keep,
    presence,
    remove,
    remove_at_random,
    stream,
    subsets,
    synthetic,
    whole,
)


def everything(rows: int, modalities: int) -> torch.Tensor:
    return torch.ones(rows, modalities, dtype=torch.bool)


def data(size: int = 50, missing: float = 0.3):
    return synthetic(signal={"a": 1.0, "b": 1.0, "c": 1.0}, sizes=(size, 2, 2), missing=missing).train


def test_the_fifteen_subsets_in_the_order_of_the_tables():
    names = ["Fl", "T1", "T1c", "T2"]
    kept = ["+".join(subset) for subset in subsets(names)]
    assert kept[:5] == ["Fl", "T1", "T1c", "T2", "Fl+T1"]
    assert kept[10:] == ["Fl+T1+T1c", "Fl+T1+T2", "Fl+T1c+T2", "T1+T1c+T2", "Fl+T1+T1c+T2"]
    assert len(set(kept)) == 15


@given(
    table=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8),
    probability=st.floats(0, 0.95),
    per=st.sampled_from(["sample", "batch"]),
)
def test_one_stays_and_none_comes_back(table, probability, per):
    present = torch.tensor(table)
    kept = draw(present, probability, stream(0), per)
    assert not (kept & ~present).any()
    assert torch.equal(kept.any(1), present.any(1))


def test_half_makes_every_subset_equally_likely():
    kept = draw(everything(30_000, 3), 0.5, stream(1))
    code = (kept * torch.tensor([1, 2, 4])).sum(1)
    counts = torch.bincount(code, minlength=8).double()
    assert counts[0] == 0
    chi_square = ((counts[1:] - 30_000 / 7).square() / (30_000 / 7)).sum().item()
    assert chi_square < 22.5  # 99.9 % quantile with six degrees of freedom


@pytest.mark.parametrize(("probability", "modalities"), [(0.1, 2), (0.3, 4), (0.8, 3), (0.6, 1)])
def test_rate_is_the_conditional_one(probability, modalities):
    kept = draw(everything(20_000, modalities), probability, stream(2))
    expected = (probability - probability**modalities) / (1 - probability**modalities)
    assert (~kept).double().mean(0).tolist() == pytest.approx([expected] * modalities, abs=0.012)


def test_per_batch_draws_one_subset():
    drawn = {tuple(draw(everything(5, 3), 0.5, stream(seed), per="batch").all(0).tolist()) for seed in range(100)}
    for seed in range(20):
        kept = draw(everything(5, 3), 0.5, stream(seed), per="batch")
        assert (kept == kept[0]).all()
    assert drawn == set(itertools.product([False, True], repeat=3)) - {(False, False, False)}


def test_dropping_from_a_batch_records_what_went():
    batch = whole(data())
    altered = drop(batch, 0.5, stream(3))
    assert isinstance(altered.batch, Batch)
    for name in batch.inputs:
        hit, there = altered.hit[name], altered.batch.present[name]
        assert hit.any()
        assert torch.equal(there, batch.present[name] & ~hit)
        assert not (hit & ~batch.present[name]).any()
        assert altered.batch.inputs[name][~there].eq(0).all()
        assert torch.equal(altered.batch.inputs[name][there], batch.inputs[name][there])
    assert torch.equal(altered.batch.target, batch.target)


def test_keeping_named_modalities():
    batch = whole(data(missing=0.0))
    kept = keep(batch, ["b"])
    assert kept.batch.present["b"].all()
    assert not kept.batch.present["a"].any()
    assert kept.hit["c"].all()
    assert kept.batch.inputs["a"].eq(0).all()


def test_a_dataset_without_a_modality():
    full = data()
    without = remove(full, ["b"])
    assert without.hit["b"].tolist() == full.present["b"].tolist()
    assert not without.hit["a"].any()
    batch = whole(without)
    assert not batch.present["b"].any()
    assert torch.equal(batch.inputs["a"], whole(full).inputs["a"])
    assert without.protocol.endswith("without b")
    assert torch.equal(torch.stack([s.inputs["a"] for s in without]), batch.inputs["a"])


def test_a_dataset_with_random_gaps_is_the_same_each_time_and_in_workers():
    gaps = remove_at_random(data(), 0.5, stream(4))
    again = remove_at_random(data(), 0.5, stream(4))
    assert all(torch.equal(gaps.hit[name], again.hit[name]) for name in gaps.hit)
    for first, second in zip(batches(gaps, 16), batches(again, 16, workers=2), strict=True):
        for name in "abc":
            assert torch.equal(first.inputs[name], second.inputs[name])
            assert torch.equal(first.present[name], second.present[name])
    twice = remove_at_random(gaps, 0.5, stream(5))
    assert not any((twice.hit[name] & ~gaps.present[name]).any() for name in "abc")
    assert torch.stack(list(presence(twice).values())).any(0).all()


def test_presence_is_read_from_rows_without_a_record():
    class Plain:
        modalities = {"a": (3,)}  # noqa: RUF012

        def __len__(self):
            return 2

        def __getitem__(self, row):
            return type("S", (), {"present": {"a": row == 1}})

    assert presence(Plain())["a"].tolist() == [False, True]


def test_errors():
    with pytest.raises(DataError, match=r"probability=1.0: it must lie in \[0, 1\), one modality has to stay"):
        draw(everything(2, 2), 1.0, stream(0))
    with pytest.raises(DataError, match=r"unknown value of per 'samples'. Did you mean 'sample'\?"):
        draw(everything(2, 2), 0.5, stream(0), per="samples")
    with pytest.raises(DataError, match="that is every modality, one has to stay"):
        remove(data(), ["a", "b", "c"])
    named = synthetic(signal={"audio": 1.0, "video": 1.0}, sizes=(4, 2, 2)).train
    with pytest.raises(DataError, match=r"unknown modality 'vidoe'. Did you mean 'video'\?"):
        remove(named, ["vidoe"])
    with pytest.raises(DataError, match=r"unknown modality 'audoi'. Did you mean 'audio'\?"):
        keep(whole(named), ["audoi"])
