import hashlib
from importlib.resources import files

import numpy as np
import pytest
import torch

from evigrad.data import DataError, load, whole
from evigrad.data.digits import VIEWS, _read

#: Of the file that tools/build_digits.py writes.
SHA256 = "e3184bc649f984ca424727fd697387bbd05c2abf266525fcec351199f25ae3b8"


def test_the_bundled_file_is_the_one_that_was_built():
    file = files("evigrad.data") / "bundled/digits.npz"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256
    assert len(file.read_bytes()) < 1_500_000
    assert "CC BY 4.0" in (files("evigrad.data") / "bundled/README.md").read_text()


def test_first_row_as_published():
    data, _ = _read()
    assert data.inputs["pixels"][0, :15].tolist() == [0, 3, 4, 4, 6, 6, 6, 6, 6, 5, 3, 1, 0, 0, 0]
    assert data.inputs["profiles"][0, :4].tolist() == [98, 236, 531, 673]
    assert data.inputs["karhunen"][0, 10].item() == np.float32(-0.064074)
    assert data.inputs["zernike"][0, :3].tolist() == [np.float32(x) for x in (0.011033, 0.83147, 15.352)]
    assert data.inputs["morphology"][0].tolist() == [np.float32(x) for x in (1, 0, 0, 133.15, 1.3117, 1620.2)]
    assert data.inputs["fourier"][0, :2].tolist() == [np.float32(x) for x in (0.065882, 0.19731)]
    assert torch.equal(data.target, torch.arange(10).repeat_interleave(200))


def test_equals_the_copy_of_the_multi_view_literature(real_data):
    data, tmc_test = _read()
    with np.load(real_data / "handwritten" / "handwritten.npz") as other:
        for number, view in enumerate(VIEWS):
            theirs = other[f"x{number}"].astype(np.float64)
            # The CSV files have five significant digits and at most eight places.
            assert np.allclose(data.inputs[view].double().numpy(), theirs, rtol=5.1e-5, atol=5.1e-8)
        assert data.target.tolist() == other["y"].tolist()
        assert tmc_test.tolist() == sorted(other["tmc_test_idx"].tolist())
        assert not set(tmc_test.tolist()) & set(other["tmc_train_idx"].tolist())


def test_published_split():
    splits = load("digits", split="tmc", validation=0.25)
    assert [len(part) for part in splits.parts().values()] == [1200, 400, 400]
    assert torch.bincount(splits.test.target).tolist() == [40] * 10
    assert torch.bincount(splits.validation.target).tolist() == [40] * 10
    assert torch.equal(load("digits", split="tmc", seed=5).test.target, splits.test.target)
    assert "split 'tmc'" in splits.test.protocol
    assert splits.info.licence == "CC BY 4.0"


def test_seeded_split_depends_on_the_seed_alone():
    first, again, other = load("digits", seed=1), load("digits", seed=1), load("digits", seed=2)
    assert [len(part) for part in list(first.parts().values())[1:]] == [320, 400]
    assert 1280 - 6 <= len(first.train) <= 1280  # what is identical to a later part's row is left out
    assert torch.equal(first.test.values("pixels"), again.test.values("pixels"))
    assert not torch.equal(first.test.values("pixels"), other.test.values("pixels"))


def test_scaled_on_train():
    splits = load("digits")
    for view in VIEWS:
        values = splits.train.values(view)
        assert values.mean(0).abs().max() < 1e-4
        assert ((values.std(0, correction=0) - 1).abs() < 1e-3).logical_or(values.abs().amax(0) == 0).all()
    assert splits.test.values("pixels").mean(0).abs().max() > 0.02


def test_regime_of_few_labels_and_noisy_views():
    clean = load("digits", labels_per_class=5)
    noisy = load("digits", labels_per_class=5, noise={"pixels": 2.0})
    assert torch.bincount(clean.train.target).tolist() == [5] * 10
    assert len(clean.validation) == 320
    for part, other in zip(clean.parts().values(), noisy.parts().values(), strict=True):
        difference = other.values("pixels") - part.values("pixels")
        assert difference.std().item() == pytest.approx(2, rel=0.05)
        assert torch.equal(other.values("fourier"), part.values("fourier"))
    assert torch.equal(noisy.test[3].inputs["pixels"], noisy.test[3].inputs["pixels"])
    everywhere = load("digits", noise=1.0)
    assert (everywhere.test.values("morphology") - load("digits").test.values("morphology")).std() > 0.9


def test_errors():
    with pytest.raises(DataError, match=r"unknown split 'tcm'. Did you mean 'tmc'\?"):
        load("digits", split="tcm")
    with pytest.raises(DataError, match=r"unknown view 'pixel'. Did you mean 'pixels'\?"):
        load("digits", noise={"pixel": 1.0})
    with pytest.raises(DataError, match=r"noise of view 'pixels' is -1.0"):
        load("digits", noise={"pixels": -1.0})


@pytest.mark.parametrize("seed", range(4))
def test_no_row_of_a_seeded_split_is_in_two_parts(seed):
    parts = load("digits", seed=seed, scaling="none").parts().values()
    rows = [{row.tobytes() for row in torch.cat(list(whole(part).inputs.values()), dim=1).numpy()} for part in parts]
    assert not rows[0] & rows[1]
    assert not rows[0] & rows[2]
    assert not rows[1] & rows[2]
