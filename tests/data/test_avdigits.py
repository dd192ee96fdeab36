from pathlib import Path

import numpy as np
import pytest
import torch

from evigrad.data import DataError, load, prepare, whole
from tests.data.files import write_originals


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("avdigits")
    prepare("avdigits", write_originals(folder / "raw", images=60), folder / "out")
    return folder / "out"


def clips(prepared) -> dict[str, np.ndarray]:
    with np.load(prepared / "fsdd.npz") as arrays:
        return dict(arrays)


def which(sample_audio, stored) -> int:
    """Row of the stored clip that a standardised log-mel is: the only one it equals up to an affine map."""
    flat = torch.cat([stored.flatten(1), sample_audio.flatten()[None]]).double()
    similarity = torch.corrcoef(flat)[-1, :-1]
    [row] = (similarity > 1 - 1e-9).nonzero()[:, 0].tolist()
    return row


def test_official_takes(prepared):
    splits = load("avdigits", root=prepared, images_per_clip=2)
    assert splits.train.modalities == {"image": (1, 28, 28), "audio": (1, 64, 64)}
    # 10 digits x 3 speakers x takes (10, 11 | 5-9 | 0-4) x 2 images
    assert [len(part) for part in splits.parts().values()] == [120, 300, 300]
    stored = clips(prepared)
    log_mel = torch.from_numpy(stored["logmel_u8"])
    for part, takes in (("train", {10, 11}), ("validation", set(range(5, 10))), ("test", set(range(5)))):
        dataset = splits.parts()[part]
        for row in range(0, len(dataset), 37):
            sample = dataset[row]
            clip = which(sample.inputs["audio"], log_mel)
            assert int(stored["take"][clip]) in takes
            assert int(stored["label"][clip]) == int(sample.target)
    assert "takes 0-4 test, 5-9 validation" in splits.test.protocol
    assert "same-digit pairs drawn with seed 0" in splits.test.protocol


def test_each_image_is_used_once_and_test_images_are_tests(prepared):
    splits = load("avdigits", root=prepared, images_per_clip=2)
    with np.load(prepared / "mnist.npz") as mnist:
        known = {
            part: {image.tobytes(): int(y) for image, y in zip(mnist[f"x_{part}"], mnist[f"y_{part}"], strict=True)}
            for part in ("train", "test")
        }
    used = []
    for part, dataset in splits.parts().items():
        batch = whole(dataset)
        for image, target in zip(batch.inputs["image"], batch.target, strict=True):
            key = (image[0] * 255).round().byte().numpy().tobytes()
            assert known["test" if part == "test" else "train"][key] == int(target)
            used.append(key)
    assert len(used) == len(set(used))


def test_pairing_depends_on_the_seed_alone(prepared):
    first, again, other = (whole(load("avdigits", root=prepared, images_per_clip=1, seed=s).test) for s in (0, 0, 1))
    assert torch.equal(first.inputs["image"], again.inputs["image"])
    assert not torch.equal(first.inputs["image"], other.inputs["image"])
    assert torch.equal(first.inputs["audio"], other.inputs["audio"])


def test_speakers_are_kept_apart(prepared):
    splits = load("avdigits", root=prepared, protocol="speaker", images_per_clip=1)
    stored = clips(prepared)
    log_mel = torch.from_numpy(stored["logmel_u8"])
    assert [len(part) for part in splits.parts().values()] == [120, 120, 120]
    assert "bob validation, cat test" in splits.test.protocol
    for part, speaker in (("validation", "bob"), ("test", "cat"), ("train", "ann")):
        rows = [which(splits.parts()[part][i].inputs["audio"], log_mel) for i in range(0, 120, 17)]
        assert {str(stored["speaker_names"][stored["speaker"][row]]) for row in rows} == {speaker}
    named = load("avdigits", root=prepared, protocol="speaker", speakers=("cat", "ann"), images_per_clip=1)
    assert "cat validation, ann test" in named.test.protocol


def test_audio_is_scaled_on_train_and_images_to_one(prepared):
    splits = load("avdigits", root=prepared, images_per_clip=1)
    batch = whole(splits.train)
    assert batch.inputs["audio"].mean().item() == pytest.approx(0, abs=1e-4)
    assert batch.inputs["audio"].std().item() == pytest.approx(1, abs=1e-3)
    assert (batch.inputs["image"].min(), batch.inputs["image"].max()) == (0, 1)


def test_errors(prepared):
    with pytest.raises(DataError, match="images_per_clip=0: give a whole number from 1"):
        load("avdigits", root=prepared, images_per_clip=0)
    with pytest.raises(DataError, match="images_per_clip=40: the train images have only 60 of digit 0; use fewer"):
        load("avdigits", root=prepared, images_per_clip=40)
    with pytest.raises(DataError, match=r"unknown protocol 'speakers'. Did you mean 'speaker'\?"):
        load("avdigits", root=prepared, protocol="speakers")
    with pytest.raises(DataError, match=r"unknown speaker 'bop'. Did you mean 'bob'\?"):
        load("avdigits", root=prepared, protocol="speaker", speakers=("ann", "bop"))
    with pytest.raises(DataError, match="name two different ones"):
        load("avdigits", root=prepared, protocol="speaker", speakers=("ann", "ann"))
    with pytest.raises(DataError, match="'published' pairs exist for 'official'; use 'drawn'"):
        load("avdigits", root=prepared, protocol="speaker", pairs="published")
    with pytest.raises(DataError, match=r"no pairs.npz in"):
        load("avdigits", root=prepared, pairs="published")


def beside(prepared, folder, **changes) -> Path:
    """The prepared files in another folder, with published pairs that fit; ``changes`` replaces arrays of pairs."""
    for name in ("mnist.npz", "fsdd.npz"):
        (folder / name).symlink_to(prepared / name)
    stored, image = clips(prepared), np.load(prepared / "mnist.npz")
    pairs = {}
    for part, rows in (("train", stored["take"] >= 5), ("test", stored["take"] < 5)):
        pairs[f"{part}_audio"] = np.flatnonzero(rows)
        first = [np.flatnonzero(image[f"y_{part}"] == digit)[0] for digit in range(10)]
        pairs[f"{part}_image"] = np.array(first)[stored["label"][rows]]
    np.savez(folder / "pairs.npz", **(pairs | changes))
    return folder


def test_published_pairs_are_taken_as_they_are(prepared, tmp_path):
    splits = load("avdigits", root=beside(prepared, tmp_path), pairs="published")
    assert [len(part) for part in splits.parts().values()] == [60, 150, 150]


@pytest.mark.parametrize("part", ["train", "test"])
def test_published_pairs_of_another_release_are_refused(prepared, tmp_path, part):
    take = clips(prepared)["take"]
    shifted = np.roll(np.flatnonzero(take < 5 if part == "test" else take >= 5), 7)
    folder = beside(prepared, tmp_path, **{f"{part}_audio": shifted})
    with pytest.raises(
        DataError, match=r"pairs.npz does not fit the .* clips of fsdd.npz .*; take the three files from"
    ):
        load("avdigits", root=folder, pairs="published")


def test_a_training_clip_among_the_published_test_pairs_is_refused(prepared, tmp_path):
    stored = clips(prepared)
    swapped = np.flatnonzero(stored["take"] < 5)
    swapped[0] = np.flatnonzero((stored["take"] >= 5) & (stored["label"] == stored["label"][swapped[0]]))[0]
    with pytest.raises(DataError, match="does not fit the test clips"):
        load("avdigits", root=beside(prepared, tmp_path, test_audio=swapped), pairs="published")


def test_recordings_without_training_takes_are_named(tmp_path):
    prepare("avdigits", write_originals(tmp_path / "raw", images=3, takes=7, speakers=("ann",)), tmp_path / "out")
    with pytest.raises(DataError, match=r"protocol='official': there is no clip for train .*; prepare all recordings"):
        load("avdigits", root=tmp_path / "out")


def test_the_compact_files(real_data):
    splits = load("avdigits", root=real_data, pairs="published")
    assert [len(part) for part in splits.parts().values()] == [9600, 1200, 1200]
    drawn = load("avdigits", root=real_data, protocol="speaker")
    assert [len(part) for part in drawn.parts().values()] == [8000, 2000, 2000]
    assert "theo validation, yweweler test" in drawn.test.protocol
