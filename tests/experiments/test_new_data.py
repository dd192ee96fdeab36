import csv

import numpy as np
import pytest
import torch

from evigrad.data import load
from evigrad.data.wrapped import fetch
from evigrad.experiments import Choice, Experiment, load_trained, read_new
from evigrad.training import Training
from tests.experiments.tiny import arrays, write_views


@pytest.fixture(scope="module")
def trained(run):
    return load_trained(run)


def whole(dataset):
    return fetch(dataset, range(len(dataset)))


def test_new_views_are_read_like_the_training_data(trained, views):
    test = load("views", path=views).test
    found, labelled = read_new(trained, views)
    rows = test.present  # the same file: each test sample is among the new ones, scaled alike
    assert labelled
    assert set(rows) == set(found.modalities)
    everything, expected = whole(found), whole(test)
    for name, values in expected.inputs.items():
        distance = (values[:, None] - everything.inputs[name][None]).abs().amax(2).amin(1)
        assert distance.max() == 0
    assert [found.classes[label] for label in found.target] == list(arrays()["y"])


def test_labels_are_optional(trained, tmp_path):
    found, labelled = read_new(trained, write_views(tmp_path / "new.npz", y=None))
    assert not labelled
    assert len(found) == 60


def test_labels_may_be_numbered_otherwise(trained, tmp_path):
    path = write_views(tmp_path / "new.npz", y=np.arange(60) % 2, class_names=np.array(["owl", "cat"]))
    found, _ = read_new(trained, path)
    assert found.target[:4].tolist() == [2, 0, 2, 0]


def test_a_modality_that_is_left_out_is_absent(trained, tmp_path):
    found, _ = read_new(trained, write_views(tmp_path / "new.npz", image=None))
    batch = whole(found)
    assert not batch.present["image"].any()
    assert batch.present["sound"].all()
    assert batch.inputs["image"].shape == (60, 3)


def test_a_row_of_nan_is_absent(trained, tmp_path):
    sound = arrays()["sound"]
    sound[3] = np.nan
    found, _ = read_new(trained, write_views(tmp_path / "new.npz", sound=sound))
    assert (~whole(found).present["sound"]).nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"image": None, "imag": np.zeros((60, 3))}, "unknown modality in new.npz: 'imag'. Did you mean 'image'?"),
        ({"image": np.zeros((60, 5))}, r"'image' has samples of shape \(5,\), and the run was trained on \(3,\)"),
        ({"y": np.array(["cot"] * 60)}, "unknown class in new.npz, row 0: 'cot'. Did you mean 'cat'?"),
        ({"y": np.full(60, 7)}, r"'y', row 0: label 7 is not in 0..2"),
        ({"image": None, "sound": None}, "has none of the modalities sound, image"),
    ],
)
def test_errors(trained, tmp_path, changes, text):
    with pytest.raises(ValueError, match=text):
        read_new(trained, write_views(tmp_path / "new.npz", **changes))


def test_a_table_for_a_run_on_views(trained, tmp_path):
    (tmp_path / "new.csv").write_text("sound\n")
    with pytest.raises(ValueError, match="give an npz file or a folder of npy files"):
        read_new(trained, tmp_path / "new.csv")


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = write_table(folder / "train.csv", 24)
    options = {"path": str(folder / "train.csv"), "label": "kind", "text_length": 4}
    experiment = Experiment(Choice("table", options), Choice("joint"), training=Training(epochs=1, progress="none"))
    experiment.run(folder / "run")
    return load_trained(folder / "run"), rows


def write_table(path, rows, columns=("curve", "words", "kind")):
    draw = np.random.default_rng(1)
    content = []
    for row in range(rows):
        np.save(path.parent / f"{path.stem}{row}.npy", draw.normal(size=3).astype("float32"))
        (path.parent / f"{path.stem}{row}.txt").write_text("red blue")
        cells = {"curve": f"{path.stem}{row}.npy", "words": f"{path.stem}{row}.txt", "kind": "ab"[row % 2]}
        content.append({name: cells[name] for name in columns})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(content)
    return content


def test_a_table_is_read_with_the_options_of_the_run(table_run, tmp_path):
    trained, _ = table_run
    write_table(tmp_path / "new.csv", 5)
    found, labelled = read_new(trained, tmp_path / "new.csv")
    batch = whole(found)
    assert labelled
    assert batch.inputs["words"].shape == (5, 4)
    assert batch.inputs["words"].dtype == torch.long
    assert batch.target.tolist() == [0, 1, 0, 1, 0]


def test_a_table_without_labels_and_without_a_column(table_run, tmp_path):
    trained, _ = table_run
    write_table(tmp_path / "new.csv", 3, columns=("words",))
    found, labelled = read_new(trained, tmp_path / "new.csv")
    batch = whole(found)
    assert not labelled
    assert not batch.present["curve"].any()


def test_views_for_a_run_on_a_table(table_run, views):
    with pytest.raises(ValueError, match=r"give a table \(.csv, .parquet\), as in training"):
        read_new(table_run[0], views)


def test_an_empty_table(table_run, tmp_path):
    (tmp_path / "new.csv").write_text("curve,words\n")
    with pytest.raises(ValueError, match="the table has no row"):
        read_new(table_run[0], tmp_path / "new.csv")
