import json

import pytest

from evigrad.experiments import load_trained
from evigrad.training import missing_grid, noise_grid


def test_every_number_is_shown_and_kept(evigrad, run, tmp_path):
    answer = evigrad("evaluate", run, "--out", tmp_path / "found.json", "--levels", "[1]")
    assert answer.code == 0
    for word in ("accuracy", "nll", "ece", "brier", "aurc", "probe", "own_head", "block", "ablation", "Protocol:"):
        assert word in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    found = json.loads((tmp_path / "found.json").read_text())
    result = json.loads((run / "result.json").read_text())
    assert found["accuracy"] == result["metrics"]["test"]["accuracy"]
    assert found["modalities"] == result["metrics"]["test"]["modalities"]


def test_grids_are_those_of_the_library(evigrad, run, tmp_path):
    words = ["--out", tmp_path / "found.json", "--levels", "[1, 5]", "--seed", "3", "--split", "validation"]
    found = evigrad("evaluate", run, *words, "--json").json
    trained = load_trained(run)
    part = trained.experiment.splits().validation
    assert found["missing"] == missing_grid(trained.network, trained.method, part)
    rows = noise_grid(trained.network, trained.method, part, "fuml_noise", (0.0, 1.0, 5.0), seed=3)
    assert found["noise"] == {"protocol": "fuml_noise", "rows": rows}
    assert [row["kept"] for row in found["missing"]] == [["sound"], ["image"], ["sound", "image"]]


def test_grids_can_be_left_out(evigrad, run, tmp_path):
    words = ["--missing", "false", "--noise", "none", "--json", "--out", tmp_path / "found.json"]
    assert not {"missing", "noise"} & set(evigrad("evaluate", run, *words).json)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--split", "tset"], "--split tset isn't known. Did you mean 'test'? Choose one of: test, validation, train."),
        (["--noise", "fulm_noise"], "unknown noise protocol 'fulm_noise'. Did you mean 'fuml_noise'?"),
    ],
)
def test_unknown_names(evigrad, run, words, text):
    answer = evigrad("evaluate", run, *words)
    assert answer.code == 2
    assert text in answer.err


def test_no_run_is_named(evigrad):
    answer = evigrad("evaluate")
    assert answer.code == 2
    assert answer.err == "evigrad: RUN is missing; evigrad evaluate --help shows what it takes.\n"
