import csv

import numpy as np
import pytest

from evigrad.data import load
from tests.experiments.tiny import CLASSES, arrays, write_views


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_new_rows_get_the_probabilities_of_the_run(evigrad, run, views, tmp_path):
    """The test rows alone, raw and in a new file, come out as the run saved them."""
    content = np.load(views)
    test = load("views", path=views).test
    raw = {name: content[name] * 1.0 for name in ("sound", "image")}
    scaled = {name: test.affine[name](test.inputs[name]).numpy() for name in raw}
    order = [
        int(np.abs(test.inputs["sound"].numpy()[i] - raw["sound"].astype("f4")).max(1).argmin()) for i in range(12)
    ]
    np.savez(tmp_path / "new.npz", **{name: values[order] for name, values in raw.items()})
    assert evigrad("predict", run, "--data", tmp_path / "new.npz", "--out", tmp_path / "out.csv").code == 0
    saved = np.load(run / "predictions" / "test.npz")["probabilities"]
    found = [[float(row[f"p({name})"]) for name in CLASSES] for row in rows(tmp_path / "out.csv")]
    np.testing.assert_allclose(found, saved, atol=1e-6)
    assert scaled["sound"].std() < 2


def test_labels_give_an_accuracy(evigrad, run, views, tmp_path):
    answer = evigrad("predict", run, "--data", views, "--out", tmp_path / "out.csv")
    assert "accuracy" in answer.out
    assert f"60 predictions are in {tmp_path}/out.csv." in " ".join(answer.out.split())
    found = rows(tmp_path / "out.csv")
    assert [row["label"] for row in found] == list(arrays()["y"])
    assert sum(row["label"] == row["predicted"] for row in found) > 48


def test_without_labels_no_accuracy_is_told(evigrad, run, tmp_path):
    answer = evigrad("predict", run, "--data", write_views(tmp_path / "new.npz", y=None), "--out", tmp_path / "out.csv")
    assert "accuracy" not in answer.out
    assert "label" not in rows(tmp_path / "out.csv")[0]


def test_modalities_missing_from_the_file_or_by_choice_are_the_same(evigrad, run, tmp_path):
    write_views(tmp_path / "half.npz", image=None)
    write_views(tmp_path / "whole.npz")
    out = tmp_path / "out.csv"
    lacking = evigrad("predict", run, "--data", tmp_path / "half.npz", "--json", "--out", out).json
    words = ["--missing", "[image]", "--json", "--out", out]
    ignored = evigrad("predict", run, "--data", tmp_path / "whole.npz", *words).json
    assert lacking == ignored
    assert {row["present"] for row in lacking} == {"sound"}


def test_a_row_without_anything_is_pointed_out(evigrad, run, tmp_path):
    sound, image = arrays()["sound"], arrays()["image"]
    sound[0], image[0] = np.nan, np.nan
    new = write_views(tmp_path / "new.npz", sound=sound, image=image)
    answer = evigrad("predict", run, "--data", new, "--out", tmp_path / "out.csv")
    assert "1 samples have no modality at all" in answer.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "--data is missing: name the new files, as in --data new.npz."),
        (["--data", "no.npz"], "no.npz: no such file or folder"),
        (["--data", "VIEWS", "--missing", "[imag]"], "unknown modality 'imag'. Did you mean 'image'?"),
        (["--data", "VIEWS", "--missing", "[image, sound]"], "that is every modality, one has to stay"),
    ],
)
def test_errors(evigrad, run, views, words, text):
    answer = evigrad("predict", run, *[views if word == "VIEWS" else word for word in words])
    assert answer.code == 2
    assert text in answer.err
