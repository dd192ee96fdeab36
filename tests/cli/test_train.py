import json
import re
import shutil
from itertools import product

import numpy as np
import pytest
import yaml

from evigrad.cli.console import program
from evigrad.data import names
from evigrad.methods import METHODS
from tests.cli.conftest import TINY


def test_a_run_says_where_it_is_and_what_can_be_done_next(evigrad, views, tmp_path):
    answer = evigrad("train", "--data", views, "--method", "uniform", "--out", tmp_path / "run", *TINY)
    assert answer.code == 0
    assert "Accuracy: train" in answer.out
    assert "best validation accuracy (earliest on a" in answer.out
    for command in ("evaluate", "predict", "export"):
        assert f"  {program()} {command} {tmp_path}/run" in answer.out


def test_json_is_all_that_is_on_standard_output(evigrad, views, tmp_path):
    answer = evigrad("train", "--data", views, "--out", tmp_path / "run", "--json", *TINY)
    assert answer.json["folder"] == str(tmp_path / "run")
    assert answer.json["metrics"]["test"]["accuracy"] > 0.8
    assert answer.json["protocol"]["method"] == "BOGC"


def test_settings_arrive(evigrad, views, tmp_path):
    own = ["--method", "bogc", "--method.scale", "0.5", "--network.fusion", "concatenation", "--data.seed", "3"]
    options = ["--network.encoder_options", '{"sound": {"width": 5, "hidden": [6]}}', "--training.clip_norm", "1"]
    assert evigrad("train", "--data", views, *TINY, *own, *options, "--out", tmp_path / "run").code == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["method"] == {"name": "bogc", "options": config["method"]["options"]}
    assert config["method"]["options"]["scale"] == 0.5
    assert config["data"]["options"]["seed"] == 3
    assert config["data"]["options"]["path"] == str(views)
    assert config["network"]["encoder_options"]["sound"]["width"] == 5
    assert config["training"]["clip_norm"] == 1.0


def test_what_is_printed_as_configuration_can_be_run(evigrad, views, tmp_path):
    printed = evigrad(
        "train", "--data", views, "--method", "mmpareto", "--method.gamma", "1.25", *TINY, "--print_config"
    )
    assert printed.code == 0
    file = tmp_path / "run.yaml"
    file.write_text(printed.out)
    assert yaml.safe_load(printed.out)["method"]["gamma"] == 1.25
    answer = evigrad("train", "--out", tmp_path / "run", "--config", file, "--training.epochs", "1")
    assert answer.code == 0, answer.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["method"] == {"name": "mmpareto", "options": {"gamma": 1.25, "rescale": "tensor"}}
    assert config["training"]["epochs"] == 1
    assert config["training"]["batch_size"] == 12


def test_the_command_line_wins_over_a_file_wherever_it_stands(evigrad, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("training: {epochs: 9}\nmethod: {name: tmc, annealing: 3}\n")
    printed = evigrad("train", "--training.epochs", "2", "--config", file, "--print_config").out
    content = yaml.safe_load(printed)
    assert content["training"]["epochs"] == 2
    assert content["method"] == {"name": "tmc", "annealing": 3, "pseudo_view": False}


def test_help_is_that_of_the_named_method_and_data(evigrad):
    out = evigrad("train", "--method", "ogm_ge", "--data", "synthetic", "--help").out
    assert "--method.alpha" in out
    assert "--data.conflict" in out
    assert "--method.posterior" not in out
    assert "(type: float, default: 0.8)" in " ".join(out.split())


@pytest.mark.parametrize(("group", "name"), [*product(["data"], names()), *product(["method"], METHODS)])
def test_help_explains_every_option(evigrad, group, name):
    text = evigrad("train", f"--{group}.name", name, "--help").out
    entries = [entry.split("\n\n")[0] for entry in re.split(r"\n  (?=--)", text)[1:]]
    explained = {
        entry.split()[0]: re.sub(r"^--\S+( [A-Z_]+)?|\(type:.*", "", entry, flags=re.DOTALL) for entry in entries
    }
    assert len(explained) > 30
    assert [option for option, words in explained.items() if not words.strip()] == []


def test_a_table_is_trained_on_and_new_rows_are_predicted(evigrad, tmp_path):
    draw = np.random.default_rng(0)
    lines = ["left,right,label"]
    for row in range(30):
        for side in ("left", "right"):
            np.save(tmp_path / f"{side}{row}.npy", draw.normal(size=4) + 3 * (row % 2))
        lines.append(f"left{row}.npy,{'' if row % 5 == 0 else f'right{row}.npy'},{'no' if row % 2 else 'yes'}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    (tmp_path / "new.csv").write_text("right\nright0.npy\nright1.npy\n")
    run = tmp_path / "run"
    long = [*TINY, "--training.epochs", "30"]
    assert evigrad("train", "--data", tmp_path / "t.csv", "--data.text_length", "9", "--out", run, *long).code == 0
    rows = evigrad("predict", run, "--data", tmp_path / "new.csv", "--json").json
    assert [(row["predicted"], row["present"]) for row in rows] == [("yes", "right"), ("no", "right")]


def test_the_default_folder(evigrad, views, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert evigrad("train", "--data", views, "--method", "joint", *TINY, "--training.seed", "4").code == 0
    assert (tmp_path / "runs" / "views-joint-seed-4" / "result.json").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--training.epocs", "3"], "unknown option --training.epocs. Did you mean '--training.epochs'?"),
        (["--method", "boc"], "Unknown `method`: 'boc'. Did you mean 'bogc'?"),
        (
            ["--method", "mmpareto", "--method.gama", "1"],
            "unknown option --method.gama. Did you mean '--method.gamma'?",
        ),
        (["--method.scale", "-1"], "`scale` must be a finite number above zero, got -1.0"),
        (["--method.posterior", "kroneker"], "Did you mean 'kronecker'?"),
        (["--data", "digts"], "unknown data set 'digts'. Did you mean 'digits'?"),
        (["--data", "digits", "--data.splt", "tmc"], "unknown option --data.splt. Did you mean '--data.split'?"),
        (["--data", "nowhere/x.npz"], "--data nowhere/x.npz: no such file or folder; evigrad data list shows"),
        (["--training.epochs", "x"], "--training.epochs takes int, got 'x'."),
        (["--training.epochs", "0"], "epochs must be at least 1, got 0."),
        (["--training.optimizer.name", "sdg"], "optimizer.name='sdg' is not known. Did you mean 'sgd'?"),
        (["--network.fusion", "concat"], "Did you mean 'concatenation'?"),
        (["--config", "no.yaml"], "--config no.yaml: no such file. evigrad train --print_config writes one"),
        (["--training.clip_norm", "x"], "--training.clip_norm takes float or null, got 'x'."),
        (["--data.noise", "x"], "--data.noise takes Mapping[str, float], float or null, got 'x'."),
        (["--training.selection.metric", "acuracy"], "is not known. Did you mean 'accuracy'?"),
        (["--data"], "--data needs a value; evigrad data list lists the names."),
        (["--data", "--training.epochs", "1"], "--data needs a value; evigrad data list lists the names."),
        (["--method"], "--method needs a value; evigrad methods lists the names."),
        (["stray"], "unexpected argument 'stray'; evigrad train --help shows what it takes."),
    ],
)
def test_what_is_wrong_is_said_in_a_line(evigrad, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    answer = evigrad("train", *words)
    assert answer.code == 2
    assert text in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("training: {epohcs: 3}", "unknown key training.epohcs in the configuration. Did you mean 'training.epochs'?"),
        ("trainin: {epochs: 3}", "unknown key trainin.epochs in the configuration. Did you mean 'training.epochs'?"),
        ("method: {name: bogc, scal: 1}", "unknown key method.scal in the configuration. Did you mean 'method.scale'?"),
        ("- a", "should hold a mapping such as 'method: {name: bogc}'"),
        ("a: [", "isn't valid YAML: while parsing"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_in_a_line(evigrad, tmp_path, content, text):
    file = tmp_path / "run.yaml"
    file.write_text(content)
    answer = evigrad("train", "--config", file, "--out", tmp_path / "run")
    assert answer.code == 2
    assert text in answer.err


def test_a_folder_that_holds_a_run(evigrad, run):
    answer = evigrad("train", "--out", run)
    assert answer.code == 2
    assert f"already holds a run. Go on with it: evigrad resume {run}; or choose another folder" in answer.err


def test_a_file_in_the_place_of_the_folder(evigrad, views, tmp_path):
    place = tmp_path / "taken"
    place.touch()
    answer = evigrad("train", "--data", views, "--out", place, *TINY)
    assert answer.code == 2
    assert f"{place} can't be written: a file is where a folder should be. Choose another place." in answer.err


@pytest.mark.parametrize("method", ["joint", "bogc"])
def test_diverged_training(evigrad, views, tmp_path, method):
    words = [*TINY, "--training.optimizer.learning_rate", "1e12", "--method", method]
    answer = evigrad("train", "--data", views, "--out", tmp_path / "run", *words)
    assert answer.code == 1
    assert re.search(r"[Ll]ower the learning rate", answer.err)


def test_resuming_reports_a_finished_run(evigrad, run):
    answer = evigrad("resume", run, "--json")
    assert answer.code == 0
    assert answer.json["metrics"] == json.loads((run / "result.json").read_text())["metrics"]


def test_resuming_nothing(evigrad, tmp_path):
    answer = evigrad("resume", tmp_path / "none")
    assert answer.code == 2
    assert "holds no run: there is no config.json in it" in answer.err


def test_a_finished_run_is_reported_without_its_data(evigrad, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    config = copy / "config.json"
    config.write_text(re.sub(r'"path": "[^"]*"', '"path": "/nowhere/gone.npz"', config.read_text()))
    answer = evigrad("resume", copy, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["folder"] == str(copy)


@pytest.mark.parametrize(
    ("file", "content", "words", "text"),
    [
        ("config.json", None, ["resume"], r"config.json isn't a configuration .*epohcs.* Restore it from a copy"),
        ("result.json", b"{}", ["resume"], "result.json isn't a result .* Delete it and resume the run"),
        ("result.json", b"\xff", ["resume"], r"result.json is not valid JSON .* Restore it from a copy"),
        ("scaling.safetensors", b"x", ["predict"], r"scaling.safetensors is damaged .* Restore it from a copy"),
        ("checkpoints/best.safetensors", b"x", ["predict"], "best.safetensors is damaged or not a checkpoint"),
    ],
)
def test_a_damaged_run_folder_is_a_line_that_names_the_file(evigrad, run, views, tmp_path, file, content, words, text):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    whole = (copy / file).read_bytes()
    (copy / file).write_bytes(whole.replace(b'"epochs"', b'"epohcs"') if content is None else content)
    answer = evigrad(*words, copy, *(["--data", views] if words == ["predict"] else []))
    assert answer.code == 2
    assert re.search(text, answer.err)
    assert "Traceback" not in answer.err
