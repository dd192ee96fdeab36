import pytest
import torch

from evigrad.data import DataError, Views, batches, ecml_conflict, stream, synthetic, whole


def splits(missing: float = 0.2):
    return synthetic(signal={"a": 1.0, "b": 1.0, "c": 1.0}, sizes=(200, 2, 500), missing=missing, seed=1)


def test_one_view_of_a_share_of_the_rows_comes_from_the_next_class():
    parts = splits()
    mixed = ecml_conflict(parts.test, parts.train, stream(0))
    hit = torch.stack(list(mixed.hit.values()), 1)
    assert hit.sum(1).max() == 1
    assert hit.any(1).sum() == 200  # 40 %
    clean, batch = whole(parts.test), whole(mixed)
    for name in "abc":
        for row in range(len(parts.test)):
            donor = int(mixed.donor[name][row])
            if donor < 0:
                assert torch.equal(batch.inputs[name][row], clean.inputs[name][row])
                continue
            wanted = (int(clean.target[row]) + 1) % 4
            rows = [i for i in range(200) if parts.train.target[i] == wanted and parts.train.present[name][i]]
            assert donor == rows[0]
            assert torch.equal(batch.inputs[name][row], parts.train.inputs[name][donor])
            assert parts.test.present[name][row]
    assert torch.equal(batch.target, clean.target)


def test_each_present_view_is_equally_likely():
    parts = splits(missing=0.0)
    mixed = ecml_conflict(parts.test, parts.train, stream(0), share=1.0)
    assert [mixed.hit[name].double().mean().item() for name in "abc"] == pytest.approx([1 / 3] * 3, abs=0.07)


def test_random_donors_and_workers():
    parts = splits()
    mixed = ecml_conflict(parts.test, parts.train, stream(0), donor="random")
    assert len(set(mixed.donor["a"][mixed.hit["a"]].tolist())) > 20
    for batch in batches(mixed, 64, workers=2):
        assert torch.equal(batch.inputs["a"], whole(mixed).inputs["a"][batch.index])


def test_errors():
    parts = splits()
    with pytest.raises(DataError, match=r"unknown value of donor 'frist'. Did you mean 'first'\?"):
        ecml_conflict(parts.test, parts.train, stream(0), donor="frist")
    with pytest.raises(DataError, match="share=3: the share of rows must lie between 0 and 1"):
        ecml_conflict(parts.test, parts.train, stream(0), share=3)
    lone = parts.train.select(torch.tensor([0]))
    with pytest.raises(DataError, match=r"donors: no row of class '.' has modality '.'; pass more rows"):
        ecml_conflict(parts.test, lone, stream(0))


def test_a_row_without_any_modality_is_left_alone():
    nowhere = {"a": torch.tensor([True, False, True]), "b": torch.tensor([True, False, True])}
    data = Views({"a": torch.randn(3, 2), "b": torch.randn(3, 2)}, torch.tensor([0, 1, 1]), "xy", "p", nowhere)
    mixed = ecml_conflict(data, data, stream(0), share=1.0)
    assert (mixed.hit["a"] | mixed.hit["b"]).tolist() == [True, False, True]
