import json

import numpy as np
import pytest

from evigrad.data import load, names, options
from tests.experiments.tiny import write_views


def test_every_data_set_is_listed(evigrad):
    answer = evigrad("data", "list")
    assert all(name in answer.out for name in names())
    assert [one["name"] for one in evigrad("data", "list", "--json").json] == list(names())


def test_one_data_set(evigrad):
    answer = evigrad("data", "info", "digits")
    for text in ("CC BY 4.0", "pixels, fourier", "--data.labels_per_class", "2,000"):
        assert text in answer.out
    assert evigrad("data", "info", "views", "--json").json["options"]["path"] == "required"


@pytest.mark.parametrize("name", names())
def test_what_is_told_has_no_markup_and_every_option(evigrad, name):
    out = evigrad("data", "info", name).out
    assert "`" not in out
    assert ":class:" not in out
    assert all(f"--data.{option} " in out for option in options(name))


def test_reading_options_of_a_table_are_told(evigrad):
    told = evigrad("data", "info", "table", "--json").json["options"]
    assert told["label"] == "label"
    assert told["image_size"] == [224, 224]
    assert told["rate"] == 16000


def test_what_was_left_out_is_told(evigrad, tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(2))
    (tmp_path / "t.csv").write_text("curve,label\none.npy,a\none.npy,b\ngone.npy,b\n")
    answer = evigrad("data", "prepare", "table", "--source", tmp_path / "t.csv", "--out", tmp_path / "o", "--allow_bad")
    assert answer.code == 0, answer.err
    assert "1 problem, left out:\n  row 3, column 'curve': no such file" in answer.out


def test_own_views_are_prepared_with_a_manifest(evigrad, tmp_path):
    source = write_views(tmp_path / "mine.npz")
    words = ["data", "prepare", "views", "--source", source, "--out", tmp_path / "out"]
    answer = evigrad(*words)
    assert answer.code == 0, answer.err
    assert "1 file read, 1 written (" in answer.out
    assert " kB) in " in answer.out
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert evigrad(*words, "--json").json["sources"] == manifest["sources"]
    assert sum(map(len, load("views", path=tmp_path / "out").parts().values())) == 60


def test_options_reach_the_reader(evigrad, tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(2))
    (tmp_path / "t.csv").write_text("curve,kind\none.npy,a\none.npy,b\n")
    words = ["data", "prepare", "table", "--source", tmp_path / "t.csv", "--out", tmp_path / "out"]
    assert evigrad(*words).code == 2
    assert evigrad(*words, "--options", "{label: kind}").code == 0


def test_every_bad_file_is_in_one_report(evigrad, tmp_path):
    (tmp_path / "t.csv").write_text("curve,label\ngone.npy,a\nlost.npy,b\n")
    answer = evigrad("data", "prepare", "table", "--source", tmp_path / "t.csv", "--out", tmp_path / "out")
    assert answer.code == 2
    assert "2 problems" in answer.err
    assert "row 1, column 'curve'" in answer.err
    assert "row 2, column 'curve'" in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "an action is missing. Choose one of: list, info, prepare"),
        (["inf"], "unknown action 'inf'. Did you mean 'info'?"),
        (["info", "digit"], "unknown data set 'digit'. Did you mean 'digits'?"),
        (["prepare", "views"], "--source is missing: evigrad data prepare views --source FILES --out FOLDER."),
        (["prepare", "views", "--source", "x"], "--out is missing"),
        (["prepare", "views", "--source", "gone.npz", "--out", "out"], "source='gone.npz': no such file or folder"),
        (["prepare", "digits", "--source", ".", "--out", "out"], "'digits' has nothing to prepare"),
    ],
)
def test_errors(evigrad, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    answer = evigrad("data", *words)
    assert answer.code == 2
    assert text in answer.err
