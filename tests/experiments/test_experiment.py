import json

import numpy as np
import pytest
import torch

from evigrad.data import load
from evigrad.experiments import Architecture, Choice, Experiment, Inputs, load_trained, read_experiment
from evigrad.training import Optimizer, Training, predict, read_result
from tests.experiments.tiny import CLASSES, experiment, write_views


def test_a_configuration_comes_back_from_json(views):
    whole = Experiment(
        Choice("views", {"path": str(views)}),
        Choice("bogc", {"scale": 1.0}),
        Architecture({"sound": "mlp"}, "sum"),
        Training(epochs=2, loggers=("tensorboard",), optimizer=Optimizer("adamw", betas=(0.8, 0.9))),
    )
    assert Experiment.from_config(json.loads(json.dumps(whole.to_config()))) == whole


def test_seeding_moves_the_data_and_the_training():
    seeded = Experiment(Choice("digits", {"split": "tmc"})).seeded(7)
    assert seeded.data.options == {"split": "tmc", "seed": 7}
    assert seeded.training.seed == 7


def test_a_run_is_loaded_without_its_data(views, tmp_path):
    own = write_views(tmp_path / "gone.npz")
    folder = tmp_path / "run"
    result = experiment(own, "tmc").run(folder)
    test = load("views", path=own).test
    own.unlink()
    trained = load_trained(folder)
    found = predict(trained.network, trained.method, test)
    saved = np.load(folder / "predictions" / "test.npz", allow_pickle=False)
    assert torch.equal(found.probabilities, torch.from_numpy(saved["probabilities"]))
    assert trained.inputs.classes == CLASSES
    assert result.metrics["test"]["accuracy"] > 0.8


def test_resuming_a_finished_run_returns_it(run, views):
    assert experiment(views).run(run, resume=True) == read_result(run)


def test_settings_are_searched_for_without_the_test_part(views, tmp_path):
    result = experiment(views).run(tmp_path / "run", test=False)
    assert sorted(result.metrics) == ["train", "validation"]
    assert not (tmp_path / "run" / "predictions" / "test.npz").exists()


def test_text_gets_the_text_encoder():
    inputs = Inputs({"words": (5,), "image": (4,)}, ("a", "b"), {"words": 300})
    built = Architecture().build(inputs, seed=0)
    assert [type(encoder).__name__ for encoder in built.encoders.values()] == ["TextEncoder", "MLP"]
    assert built.encoders["words"].vocabulary == 300
    chosen = Architecture("mlp").build(inputs, seed=0)
    assert type(chosen.encoders["words"]).__name__ == "MLP"


def test_the_weights_depend_on_the_seed_alone():
    inputs = Inputs({"a": (3,)}, ("x", "y"))
    one, same, other = (Architecture().build(inputs, seed).fusion.linear.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_wrong_modality_in_the_architecture(views, tmp_path):
    broken = Experiment(Choice("views", {"path": str(views)}), network=Architecture({"soun": "mlp"}))
    with pytest.raises(ValueError, match=r"'soun'. Did you mean 'sound'?"):
        broken.run(tmp_path / "run")


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no run: there is no config.json in it"):
        read_experiment(tmp_path)


def test_a_run_that_was_started_with_unnamed_objects(tmp_path):
    (tmp_path / "config.json").write_text('{"training": {}}')
    with pytest.raises(ValueError, match="has no data, method, network, inputs: the run was started from Python"):
        read_experiment(tmp_path)


def test_a_run_without_an_epoch(run, tmp_path):
    (tmp_path / "config.json").write_text((run / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"no epoch was finished. Go on with it: evigrad resume"):
        load_trained(tmp_path)
