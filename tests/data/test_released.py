"""The released sets under EVIGRAD_DATA: their published splits, disjoint groups, and a linear check of the content."""

import numpy as np
import pytest
import torch

from evigrad.data import DataError, load, whole

SIZES = {
    "handwritten": (1280, 320, 400),
    "scene15": (2871, 717, 897),
    "ravdess_av": (892, 232, 300),
    "mosi_features": (1157, 290, 752),
    "emoji_image_text": (1219, 305, 382),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_protocols(real_data, name):
    splits = load(name, root=real_data)
    assert tuple(len(part) for part in splits.parts().values()) == SIZES[name]
    assert tuple(splits.test.modalities) == splits.info.modalities
    assert splits.info.samples == sum(SIZES[name])
    assert "selection on validation" in splits.test.protocol
    for part in splits.parts().values():
        batch = whole(part)
        assert all(values.isfinite().all() for values in batch.inputs.values())
        assert set(batch.target.tolist()) == set(range(len(part.classes)))


def groups(real_data, name: str, key: str, split) -> list[set[str]]:
    """Groups of each part, found again by comparing a view with the file."""
    with np.load(real_data / name / f"{name}.npz") as arrays:
        column, view = arrays[key], arrays["text" if name == "mosi_features" else "visual_au"]
    raw = {row.astype(np.float32).tobytes(): str(group) for row, group in zip(view, column, strict=True)}
    view_name = "text" if name == "mosi_features" else "face"
    return [{raw[row.numpy().tobytes()] for row in part.inputs[view_name]} for part in split.parts().values()]


@pytest.mark.parametrize(("name", "key"), [("mosi_features", "video_id"), ("ravdess_av", "actor")])
def test_no_video_or_actor_is_in_two_parts(real_data, name, key):
    parts = groups(real_data, name, key, load(name, root=real_data, seed=3))
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    if name == "mosi_features":
        assert (len(parts[0] | parts[1]), len(parts[2])) == (62, 31)
    else:
        assert len(parts[0] | parts[1] | parts[2]) == 24


def test_mosi_can_be_validated_on_videos_whose_labels_made_no_features(real_data):
    published = load("mosi_features", root=real_data)
    unseen = load("mosi_features", root=real_data, protocol="unseen", seed=3, validation=0.4)
    train, *parts = groups(real_data, "mosi_features", "video_id", unseen)
    tested = groups(real_data, "mosi_features", "video_id", published)[2]
    assert not parts[0] & parts[1]
    assert parts[0] | parts[1] == tested
    assert not train & tested
    assert len(unseen.validation) + len(unseen.test) == len(published.test)
    assert 0.4 <= len(unseen.validation) / len(published.test) < 0.5
    assert "'unseen'" in unseen.test.protocol
    assert "learned from" in published.validation.protocol


def test_both_published_splits_of_handwritten(real_data):
    ours, theirs = (
        load("digits", split="tmc", scaling="none"),
        load("handwritten", root=real_data, split="tmc", scaling="none"),
    )
    mine, other = (whole(splits.test) for splits in (ours, theirs))
    assert torch.equal(mine.inputs["pixels"].sort(0).values, other.inputs["pix240"].sort(0).values)
    published = whole(load("handwritten", root=real_data, scaling="none").test)
    assert not torch.equal(published.inputs["pix240"].sort(0).values, other.inputs["pix240"].sort(0).values)


def test_errors(real_data):
    with pytest.raises(DataError, match=r"unknown split 'tcm'. Did you mean 'tmc'\?"):
        load("handwritten", root=real_data, split="tcm")
    with pytest.raises(DataError, match=r"unknown protocol 'unsen'. Did you mean 'unseen'\?"):
        load("mosi_features", root=real_data, protocol="unsen")
    with pytest.raises(DataError, match="fold=5: the folds are 0, 1, 2, 3 and 4"):
        load("ravdess_av", root=real_data, fold=5)


def test_ravdess_folds_cover_all_clips(real_data):
    assert sum(len(load("ravdess_av", root=real_data, fold=fold).test) for fold in range(5)) == 1424


@pytest.mark.parametrize(
    ("name", "expected"),
    [  # logistic regression on train and validation, as measured when the copies were made
        ("scene15", {"gist20": 61.4, "phog59": 75.9, "lbp40": 47.9}),
        ("mosi_features", {"text": 75.7, "audio": 55.7}),
        ("ravdess_av", {"face": 59.3}),
        ("emoji_image_text", {"twemoji": 59.9, "noto": 60.7}),
    ],
)
def test_linear_check(real_data, name, expected):
    linear = pytest.importorskip("sklearn.linear_model")
    splits = load(name, root=real_data)
    seen, test = (torch.utils.data.ConcatDataset([splits.train, splits.validation]), whole(splits.test))
    rows = [seen[i] for i in range(len(seen))]
    for view, accuracy in expected.items():
        x = torch.stack([row.inputs[view].flatten() for row in rows]).numpy()
        y = torch.stack([row.target for row in rows]).numpy()
        model = linear.LogisticRegression(C=0.01 if x.shape[1] > 1000 else 1.0, max_iter=2000, tol=1e-3).fit(x, y)
        score = 100 * model.score(test.inputs[view].flatten(1).numpy(), test.target.numpy())
        assert score == pytest.approx(accuracy, abs=4), f"{view}: {score:.1f}"
