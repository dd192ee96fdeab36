import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from evigrad.data import DataError, DataReportError, load, prepare, verify, whole
from tests.data.files import write_idx, write_originals, write_wav
from tests.data.test_table import OPTIONS, write_table


def files(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_audio_visual_digits_with_progress_and_manifest(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=2)
    seen = []
    manifest = prepare("avdigits", source, tmp_path / "out", lambda *step: seen.append(step))
    assert files(tmp_path / "out") == {"mnist.npz", "fsdd.npz", "manifest.json"}
    assert json.loads((tmp_path / "out" / "manifest.json").read_text()) == manifest
    assert [step[0] for step in seen] == list(range(1, 61))
    assert seen[0][1:] == (60, "0_ann_0.wav")
    assert len(manifest["sources"]) == 64
    assert manifest["problems"] == []
    assert verify(tmp_path / "out") == []
    assert files(tmp_path) == {"raw", "out"}
    with np.load(tmp_path / "out" / "fsdd.npz") as fsdd:
        assert fsdd["logmel_u8"].shape == (60, 64, 64)
        assert fsdd["speaker_names"].tolist() == ["ann", "bob", "cat"]
        assert fsdd["label"].tolist() == sorted(fsdd["label"].tolist())


def test_every_bad_file_in_one_report_and_nothing_written(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=2)
    (source / "recordings" / "3_bob_1.wav").write_bytes(b"junk")
    write_wav(source / "recordings" / "4_cat_0.wav", [0.0] * 100, rate=16000)
    write_wav(source / "recordings" / "notes.wav", [0.0])
    (source / "train-images-idx3-ubyte.gz").write_bytes(b"junk")
    (source / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataReportError) as caught:
        prepare("avdigits", source, tmp_path / "out")
    report = caught.value.problems
    assert len(report) == 5
    for line, name in zip(
        report, ["train-images", "t10k-labels", "3_bob_1.wav", "4_cat_0.wav", "notes.wav"], strict=True
    ):
        assert name in line
    assert "16000 samples a second, FSDD has 8000" in report[3]
    assert "the name is not <digit>_<speaker>_<take>.wav" in report[4]
    assert files(tmp_path) == {"raw"}


def test_bad_clips_can_be_left_out_and_are_recorded(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=2)
    (source / "recordings" / "3_bob_1.wav").write_bytes(b"junk")
    manifest = prepare("avdigits", source, tmp_path / "out", allow_bad=True)
    assert len(manifest["problems"]) == 1
    with np.load(tmp_path / "out" / "fsdd.npz") as fsdd:
        assert len(fsdd["label"]) == len(fsdd["take"]) == len(fsdd["logmel_u8"]) == 59
    (source / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataReportError, match=r"t10k-labels.idx1-ubyte.: not found"):
        prepare("avdigits", source, tmp_path / "other", allow_bad=True)


def test_images_and_labels_of_different_sets(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=1)
    write_idx(source / "t10k-labels-idx1-ubyte", np.zeros(7))
    with pytest.raises(DataReportError, match="MNIST test: 30 images but 7 labels"):
        prepare("avdigits", source, tmp_path / "out")


def test_other_images_labels_and_clips_that_are_there_twice_are_named(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=1)
    write_idx(source / "t10k-images-idx3-ubyte", np.zeros((30, 20, 20)))
    write_idx(source / "t10k-labels-idx1-ubyte", np.full(30, 11))
    (source / "copy").mkdir()
    (source / "copy" / "0_ann_0.wav").write_bytes((source / "recordings" / "0_ann_0.wav").read_bytes())
    with pytest.raises(DataReportError) as caught:
        prepare("avdigits", source, tmp_path / "out")
    images, labels, clip = caught.value.problems
    assert "t10k-images-idx3-ubyte: shape (30, 20, 20), MNIST's images are [N, 28, 28]; fetch the original" in images
    assert "t10k-labels-idx1-ubyte: shape (30,) and labels up to 11, MNIST's labels are [N], 0 to 9; fetch" in labels
    assert "recordings/0_ann_0.wav: the same clip as" in clip
    manifest = prepare(
        "avdigits", write_originals(tmp_path / "raw", images=3, takes=1), tmp_path / "out", allow_bad=True
    )
    assert len(manifest["problems"]) == 1
    with np.load(tmp_path / "out" / "fsdd.npz") as fsdd:
        assert len(fsdd["label"]) == len(fsdd["logmel_u8"]) == 30


def test_files_in_a_folder_of_their_own_name_are_found(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=1)
    content = (source / "t10k-images-idx3-ubyte").read_bytes()
    (source / "t10k-images-idx3-ubyte").unlink()
    (source / "t10k-images-idx3-ubyte").mkdir()
    (source / "t10k-images-idx3-ubyte" / "t10k-images-idx3-ubyte").write_bytes(content)
    (source / "clips.wav").mkdir()
    assert prepare("avdigits", source, tmp_path / "out")["problems"] == []


def test_a_table_becomes_views_that_read_the_same(tmp_path):
    split = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    table = write_table(tmp_path / "raw", split=split)
    manifest = prepare("table", table, tmp_path / "out", **OPTIONS)
    assert manifest["options"]["mel_bins"] == 8
    assert len(manifest["sources"]) == 1 + 20 + 16
    plain, ready = load("table", path=table, **OPTIONS).test, load("views", path=tmp_path / "out", scaling="none").test
    first, second = whole(plain), whole(ready)
    assert torch.allclose(first.inputs["audio"], second.inputs["audio"])
    assert torch.allclose(first.inputs["image"] * 255, second.inputs["image"])
    assert torch.equal(first.present["image"], second.present["image"])
    assert torch.equal(first.target, second.target)
    assert plain.classes == ready.classes


def test_texts_of_a_table_stay_tokens(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("some words")
    table = write_table(tmp_path / "raw", note=["a.txt"] * 20)
    prepare("table", table, tmp_path / "out", **OPTIONS)
    value = load("views", path=tmp_path / "out").train[0].inputs["note"]
    assert value.dtype == torch.long
    assert (value > 0).sum() == 2


def test_a_table_reports_missing_and_unreadable_files_together(tmp_path):
    audio = [f"sound/{i}.wav" for i in range(20)]
    audio[1] = "sound/gone.wav"
    table = write_table(tmp_path / "raw", audio=audio)
    (tmp_path / "raw" / "sound" / "4.wav").write_bytes(b"junk")
    (tmp_path / "raw" / "picture" / "7.png").write_bytes(b"junk")
    with pytest.raises(DataReportError) as caught:
        prepare("table", table, tmp_path / "out", **OPTIONS)
    starts = [line.split(":")[0] for line in caught.value.problems]
    assert starts == ["row 2, column 'audio'", "row 5, column 'audio'", "row 8, column 'image'"]
    manifest = prepare("table", table, tmp_path / "out", allow_bad=True, **OPTIONS)
    assert len(manifest["problems"]) == 3
    with np.load(tmp_path / "out" / "views.npz") as arrays:
        assert len(arrays["y"]) == 17


def test_column_names_with_a_meaning_are_refused(tmp_path):
    with pytest.raises(DataReportError, match="column 'y': this name has a meaning in the result; rename it"):
        prepare("table", write_table(tmp_path / "raw", y=["sound/1.wav"] * 20), tmp_path / "out", **OPTIONS)


def test_views_are_checked_and_copied(tmp_path):
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine" / "y.npy", np.arange(20) % 2)
    np.save(tmp_path / "mine" / "a.npy", np.ones((20, 2)))
    manifest = prepare("views", tmp_path / "mine", tmp_path / "out")
    assert [entry["file"] for entry in manifest["sources"]] == ["a.npy", "y.npy"]
    assert len(load("views", path=tmp_path / "out").train) == 12
    np.save(tmp_path / "mine" / "a.npy", np.full((20, 2), np.inf))
    with pytest.raises(DataReportError, match="view 'a', row 0, column 0: inf"):
        prepare("views", tmp_path / "mine", tmp_path / "other")


def test_a_release_is_checked_and_copied(tmp_path):
    random = np.random.default_rng(0)
    arrays = {"y": np.arange(60) % 15, "view_names": np.array(["gist20", "phog59", "lbp40"])}
    arrays |= {f"x{i}": random.normal(size=(60, width)) for i, width in enumerate((20, 59, 40))}
    np.savez(tmp_path / "scene15.npz", **arrays, train_idx=np.arange(45), test_idx=np.arange(45, 60))
    prepare("scene15", tmp_path, tmp_path / "out")
    splits = load("scene15", root=tmp_path / "out", validation=0.34)
    assert [len(part) for part in splits.parts().values()] == [30, 15, 15]


def test_preparing_again_is_the_same_and_something_else_is_not_overwritten(tmp_path):
    source = write_originals(tmp_path / "raw", images=3, takes=1)
    first = prepare("avdigits", source, tmp_path / "out")
    before = (tmp_path / "out" / "mnist.npz").stat().st_mtime_ns
    assert prepare("avdigits", source, tmp_path / "out") == first
    assert (tmp_path / "out" / "mnist.npz").stat().st_mtime_ns == before
    (source / "recordings" / "0_ann_0.wav").unlink()
    with pytest.raises(DataError, match="is not empty and holds something else; remove it or choose another folder"):
        prepare("avdigits", source, tmp_path / "out")
    assert verify(tmp_path / "out") == []
    assert files(tmp_path) == {"raw", "out"}


def test_verify_finds_changed_and_missing_files(tmp_path):
    prepare("avdigits", write_originals(tmp_path / "raw", images=3, takes=1), tmp_path / "out")
    (tmp_path / "out" / "mnist.npz").write_bytes(b"other")
    (tmp_path / "out" / "fsdd.npz").unlink()
    assert verify(tmp_path / "out") == [
        "fsdd.npz: missing",
        "mnist.npz: its checksum is not the one in the manifest",
    ]
    with pytest.raises(DataError, match=r"there is no manifest.json; prepare the data set first"):
        verify(tmp_path / "raw")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match=r"No space left on device; nothing was written: .*/out"):
        prepare("avdigits", write_originals(tmp_path / "raw", images=3, takes=1), tmp_path / "out")
    assert files(tmp_path) == {"raw"}


def test_errors(tmp_path):
    with pytest.raises(DataError, match=r"data set 'digits' has nothing to prepare: load\('digits'\) works at once"):
        prepare("digits", tmp_path, tmp_path / "out")
    with pytest.raises(DataError, match=r"unknown data set 'avdigit'. Did you mean 'avdigits'\?"):
        prepare("avdigit", tmp_path, tmp_path / "out")
    with pytest.raises(DataError, match=r"source=.*gone': no such file or folder"):
        prepare("avdigits", tmp_path / "gone", tmp_path / "out")


def mine(folder, **more):
    folder.mkdir()
    for name, array in {"y": np.arange(20) % 2, "a": np.ones((20, 2)), "b": np.ones((20, 3)), **more}.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_chosen_views_alone_are_written(tmp_path):
    source = mine(tmp_path / "mine", present_a=np.arange(20) > 3, present_b=np.arange(20) > 3)
    with pytest.raises(DataReportError, match="row 0: no view is there; remove the row"):
        prepare("views", source, tmp_path / "out")
    np.save(source / "present_a.npy", np.arange(20) > -1)
    prepare("views", source, tmp_path / "out", views=["a"])
    assert load("views", path=tmp_path / "out").train.modalities == {"a": (2,)}
    with np.load(tmp_path / "out" / "views.npz") as arrays:
        assert sorted(arrays) == ["a", "present_a", "y"]


def test_a_prepared_folder_can_be_prepared_and_is_named_as_the_source(tmp_path):
    prepare("views", mine(tmp_path / "mine"), tmp_path / "out")
    manifest = prepare("views", tmp_path / "out", tmp_path / "again")
    assert [entry["file"] for entry in manifest["sources"]] == ["views.npz"]


def test_a_release_is_found_below_the_folder_of_all_and_no_other_file_is_taken_for_it(tmp_path):
    arrays = {"y": np.arange(60) % 15, "view_names": np.array(["gist20"]), "x0": np.ones((60, 20))}
    (tmp_path / "all" / "scene15").mkdir(parents=True)
    np.savez(
        tmp_path / "all" / "scene15" / "scene15.npz", **arrays, train_idx=np.arange(45), test_idx=np.arange(45, 60)
    )
    assert len(prepare("scene15", tmp_path / "all", tmp_path / "out")["sources"]) == 1
    np.savez(tmp_path / "all" / "scene15" / "other.npz", y=np.arange(3))
    with pytest.raises(
        DataError, match=r"other.npz': the file of 'scene15' is called scene15.npz; give it or its folder"
    ):
        prepare("scene15", tmp_path / "all" / "scene15" / "other.npz", tmp_path / "new")


def test_modalities_of_a_prepared_table_keep_the_order_of_its_columns(tmp_path):
    split = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    table = write_table(tmp_path / "raw", split=split)
    lines = [line.split(",") for line in table.read_text(encoding="utf-8-sig").splitlines()]
    # The first row has no image, so that the order in which files are met is not that of the columns.
    table.write_text("\n".join(",".join([cells[1], cells[0], *cells[2:]]) for cells in lines))
    prepare("table", table, tmp_path / "out", **OPTIONS)
    assert list(load("table", path=table, **OPTIONS).train.modalities) == ["image", "audio"]
    assert list(load("views", path=tmp_path / "out").train.modalities) == ["image", "audio"]


def test_places_that_cannot_be_written_are_named_and_links_stay(tmp_path):
    source = mine(tmp_path / "mine")
    (tmp_path / "file").write_text("")
    for out in ("file", "file/below"):
        with pytest.raises(DataError, match=r"out='.*': .*file is a file; choose another folder"):
            prepare("views", source, tmp_path / out)
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "manifest.json").write_text("junk")
    with pytest.raises(DataError, match="is not empty and holds something else"):
        prepare("views", source, tmp_path / "junk")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    prepare("views", source, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "real") == {"views.npz", "manifest.json"}
    with pytest.raises(DataError, match=r"unknown option for preparing 'views': 'vews'. Did you mean 'views'\?"):
        prepare("views", source, tmp_path / "out", vews=["a"])
    with pytest.raises(DataError, match=r"unknown option for preparing 'table': 'rat'. Did you mean 'rate'\?"):
        prepare("table", source, tmp_path / "out", rat=8000)


def test_a_place_without_the_right_to_write_is_named_before_any_file_is_read(tmp_path, monkeypatch):
    # Asked of the system, because the administrator, who may run this, may write everywhere.
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(DataError, match=r"out='.*out': .* cannot be written to; choose another folder"):
        prepare("avdigits", tmp_path, tmp_path / "out")


def test_killed_in_the_middle_nothing_is_half_written(tmp_path):
    # The process ends without any clean-up in the middle of the second file, as by SIGKILL or a power cut.
    code = (
        "import os, sys, numpy, evigrad.data as data\n"
        "numpy.savez_compressed = lambda file, **_: (file.write(b'half'), file.flush(), os._exit(9))\n"
        "data.prepare('views', sys.argv[1], sys.argv[2])\n"
    )
    words = [sys.executable, "-c", code, str(mine(tmp_path / "mine")), str(tmp_path / "out")]
    assert subprocess.run(words, check=False).returncode == 9
    assert not (tmp_path / "out").exists()
    prepare("views", tmp_path / "mine", tmp_path / "out")
    assert verify(tmp_path / "out") == []


def contents(path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def test_real_images_and_clips(real_data, tmp_path):
    mnist, fsdd = contents(real_data / "avdigits" / "mnist.npz"), contents(real_data / "avdigits" / "fsdd.npz")
    for part, stem in (("train", "train"), ("test", "t10k")):
        write_idx(tmp_path / "raw" / f"{stem}-images-idx3-ubyte", mnist[f"x_{part}"][:200])
        write_idx(tmp_path / "raw" / f"{stem}-labels-idx1-ubyte", mnist[f"y_{part}"][:200])
    expected = {}
    for i in np.flatnonzero(fsdd["take"] < 2):
        name = f"{fsdd['label'][i]}_{fsdd['speaker_names'][fsdd['speaker'][i]]}_{fsdd['take'][i]}.wav"
        clip = fsdd["wave"][fsdd["offset"][i] : fsdd["offset"][i + 1]] / 32768
        write_wav(tmp_path / "raw" / "recordings" / name, clip)
        expected[name] = fsdd["logmel_u8"][i].astype(int)
    prepare("avdigits", tmp_path / "raw", tmp_path / "out")
    ours = contents(tmp_path / "out" / "fsdd.npz")
    assert len(ours["label"]) == len(expected) == 120
    for i, log_mel in enumerate(ours["logmel_u8"]):
        name = f"{ours['label'][i]}_{ours['speaker_names'][ours['speaker'][i]]}_{ours['take'][i]}.wav"
        assert np.abs(log_mel.astype(int) - expected[name]).max() <= 1
    assert np.array_equal(contents(tmp_path / "out" / "mnist.npz")["x_test"], mnist["x_test"][:200])
