import pytest
import torch

from evigrad.data import (
    BlankWords,
    DataError,
    FeatureNoise,
    batches,
    corrupt,
    corrupt_batch,
    ecml_conflict,
    remove_at_random,
    stream,
    synthetic,
    whole,
)


def data(size: int = 40, missing: float = 0.3):
    return synthetic(signal={"a": 1.0, "b": 1.0}, sizes=(size, 2, 2), missing=missing).train


def test_hits_what_is_recorded_and_nothing_else():
    clean = data(400)
    noisy = corrupt(clean, {"a": FeatureNoise(1.0)}, stream(0), probability=0.3)
    changed = (whole(noisy).inputs["a"] != whole(clean).inputs["a"]).any(1)
    assert torch.equal(changed, noisy.hit["a"])
    assert not (noisy.hit["a"] & ~clean.present["a"]).any()
    assert noisy.hit["a"][clean.present["a"]].double().mean().item() == pytest.approx(0.3, abs=0.08)
    assert torch.equal(whole(noisy).inputs["b"], whole(clean).inputs["b"])
    assert set(noisy.hit) == {"a"}


def test_the_generator_decides_and_reading_order_does_not():
    damage = {"a": FeatureNoise(1.0), "b": FeatureNoise(2.0)}
    first, again, other = (corrupt(data(), damage, stream(seed)) for seed in (1, 1, 2))
    assert torch.equal(whole(first).inputs["b"], whole(again).inputs["b"])
    assert not torch.equal(whole(first).inputs["b"], whole(other).inputs["b"])
    for loader in (batches(first, 7, shuffle=True, generator=stream(5)), batches(first, 13, workers=2)):
        for batch in loader:
            assert torch.equal(batch.inputs["b"], whole(first).inputs["b"][batch.index])
    assert torch.equal(first[3].inputs["a"], whole(first).inputs["a"][3])


def test_rows_and_modalities_get_independent_noise():
    clean = data(60, missing=0.0)
    noisy = corrupt(clean, {"a": FeatureNoise(1.0), "b": FeatureNoise(1.0)}, stream(0), probability=1.0)
    noise = torch.cat([whole(noisy).inputs[n] - whole(clean).inputs[n] for n in "ab"])
    correlation = torch.corrcoef(noise).fill_diagonal_(0)
    assert correlation.abs().max() < 0.95
    assert correlation.mean().abs() < 0.02


def test_a_batch_for_training_gets_fresh_recorded_noise():
    batch = whole(data(300))
    generator = stream(0)
    first = corrupt_batch(batch, {"b": FeatureNoise(1.0)}, generator)
    second = corrupt_batch(batch, {"b": FeatureNoise(1.0)}, generator)
    assert torch.equal((first.batch.inputs["b"] != batch.inputs["b"]).any(1), first.hit["b"])
    assert not torch.equal(first.hit["b"], second.hit["b"])
    assert first.hit["b"].double().mean().item() == pytest.approx(
        0.5 * batch.present["b"].double().mean().item(), abs=0.08
    )
    assert first.batch.inputs["b"][~batch.present["b"]].eq(0).all()


def test_unknown_modalities_are_named():
    with pytest.raises(DataError, match=r"unknown modality 'c'. Known: a, b"):
        corrupt(data(), {"c": FeatureNoise(1.0)}, stream(0))
    with pytest.raises(DataError, match=r"unknown modality 'c'. Known: a, b"):
        corrupt_batch(whole(data()), {"c": FeatureNoise(1.0)}, stream(0))


def test_probabilities_and_the_row_that_cannot_be_damaged_are_named():
    with pytest.raises(DataError, match="probability=2: it must lie between 0 and 1"):
        corrupt(data(), {"a": FeatureNoise(1.0)}, stream(0), probability=2)
    with pytest.raises(DataError, match="probability=-1: it must lie between 0 and 1"):
        corrupt_batch(whole(data()), {"a": FeatureNoise(1.0)}, stream(0), probability=-1)
    with pytest.raises(DataError, match=r"row 0, modality 'a': word damage got a value of type torch.float32"):
        whole(corrupt(data(), {"a": BlankWords(1.0)}, stream(0), probability=1))


def test_wrappers_of_wrappers_never_touch_what_is_absent_and_read_the_same_in_workers():
    plain = data(200)
    gone = remove_at_random(plain, 0.3, stream(1))
    noisy = corrupt(gone, {"a": FeatureNoise(1.0), "b": FeatureNoise(1.0)}, stream(2))
    mixed = ecml_conflict(noisy, plain, stream(3))
    last = remove_at_random(mixed, 0.3, stream(4))
    batch, before = whole(last), whole(plain)
    for name in ("a", "b"):
        assert torch.equal(batch.present[name], before.present[name] & ~gone.hit[name] & ~last.hit[name])
        assert batch.inputs[name][~batch.present[name]].eq(0).all()
        assert not (noisy.hit[name] & ~gone.present[name]).any()
        assert not (mixed.hit[name] & ~noisy.present[name]).any()
        untouched = batch.present[name] & ~noisy.hit[name] & ~mixed.hit[name]
        assert untouched.any()
        assert torch.equal(batch.inputs[name][untouched], before.inputs[name][untouched])
        for row in mixed.hit[name].nonzero()[:, 0].tolist():
            donor = plain[int(mixed.donor[name][row])]
            assert int(donor.target) == (int(plain.target[row]) + 1) % len(plain.classes)
            if batch.present[name][row]:
                assert torch.equal(batch.inputs[name][row], donor.inputs[name])
    for part in batches(last, 64, workers=2):
        assert all(torch.equal(part.inputs[name], batch.inputs[name][part.index]) for name in part.inputs)
    assert len(last.protocol.split("; ")) >= 5
