import csv
import json

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from torch import nn

from evigrad.data import collate
from evigrad.methods import METHODS
from evigrad.training import DivergedError, Hardware, Optimizer, Schedule, Selection, fit, read_result
from evigrad.training.checkpoint import load_checkpoint
from evigrad.training.config import METRICS
from evigrad.training.order import EpochPlan
from tests.training.toy import Precise, last, method, network, settings, views


def bare_joint_loop(training, data, initial):
    """The oracle: PyTorch alone, no evigrad but the network and the order of the data."""
    plan = EpochPlan(len(data), training.batch_size)
    optimizer = torch.optim.SGD(initial.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    losses = []
    for epoch in range(training.epochs):
        order = plan.order(training.seed, epoch).tolist()
        for start in range(0, len(data), training.batch_size):
            batch = collate([data[i] for i in order[start : start + training.batch_size]])
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(initial(batch.inputs).joint_logits, batch.target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def equal(first: nn.Module, second: nn.Module) -> bool:
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def steps(folder):
    with (folder / "steps.csv").open() as file:
        return list(csv.DictReader(file))


def test_joint_training_is_a_bare_loop_bit_for_bit(tmp_path):
    data, training = views(70), last(epochs=3)
    trained, expected = network(), network()
    fit(trained, method("joint"), data, folder=tmp_path, training=training)
    expected.drop_heads()
    losses = bare_joint_loop(training, data, expected)
    assert equal(trained, expected)
    assert [float(row["loss"]) for row in steps(tmp_path)] == losses


def test_the_last_incomplete_batch_is_trained_on(tmp_path):
    fit(network(), method(), views(33), folder=tmp_path, training=last(epochs=1, batch_size=16))
    assert len(steps(tmp_path)) == 3


def gradient_recorder(network):
    """Gradients as the optimizer will see them, one entry per step."""
    seen = []

    class Recording(type(method("joint"))):
        def after_backward(self, wrapped, surgery):
            super().after_backward(wrapped, surgery)
            seen.append([parameter.grad.clone() for parameter in network.parameters()])

    return Recording(), seen


@pytest.mark.parametrize("accumulate", [2, 3])
def test_accumulation_gives_the_gradient_of_the_whole_batch_also_on_an_incomplete_last_step(tmp_path, accumulate):
    seen = {}
    for parts in (1, accumulate):
        model = network().double()
        recording, seen[parts] = gradient_recorder(model)
        training = last(epochs=1, batch_size=16, accumulate=parts, optimizer=Optimizer(learning_rate=0.0))
        fit(model, recording, views(37, kind=Precise), folder=tmp_path / str(parts), training=training)
    assert len(seen[1]) == len(seen[accumulate]) == 3
    for whole, parts in zip(seen[1], seen[accumulate], strict=True):
        for a, b in zip(whole, parts, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_clipping_comes_after_surgery(tmp_path):
    norms = []

    class Enlarging(type(method("joint"))):
        def after_backward(self, wrapped, surgery):
            for parameter in wrapped.module.parameters():
                parameter.grad.mul_(1e6)

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            gradients = [p.grad for group in self.param_groups for p in group["params"]]
            norms.append(torch.cat([g.flatten() for g in gradients]).norm().item())
            return super().step(closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "SGD", Watched)
        fit(network(), Enlarging(), views(40), folder=tmp_path, training=last(epochs=1, clip_norm=0.5))
    assert norms == pytest.approx([0.5] * 3, rel=1e-4)


def test_the_learning_rate_follows_the_schedule(tmp_path):
    training = last(epochs=4, schedule=Schedule("step", every=2), optimizer=Optimizer(learning_rate=0.1))
    fit(network(), method(), views(32), folder=tmp_path, training=training)
    rates = [float(row["learning_rate"]) for row in steps(tmp_path)]
    assert rates == pytest.approx([0.1] * 4 + [0.01] * 4)


def test_selection_keeps_the_epoch_with_the_best_validation_metric(tmp_path):
    training = settings(epochs=6, selection=Selection(metric="nll"), optimizer=Optimizer(learning_rate=0.3))
    result = fit(network(), method(), views(48), views(40, seed=1), folder=tmp_path, training=training)
    with (tmp_path / "epochs.csv").open() as file:
        scores = [float(row["validation/nll"]) for row in csv.DictReader(file)]
    assert result.best_epoch == int(np.argmin(scores))
    assert result.metrics["validation"]["nll"] == pytest.approx(min(scores), abs=1e-12)


def test_the_test_set_changes_nothing_but_its_own_numbers(tmp_path):
    runs = []
    for number, seed in enumerate((1, 2)):
        trained = network()
        test = views(30, seed=seed)
        fit(trained, method(), views(48), views(40, seed=9), test, folder=tmp_path / str(number), training=settings())
        runs.append(trained)
    assert equal(*runs)


def test_patience_stops_early(tmp_path):
    training = settings(epochs=50, selection=Selection(patience=2), optimizer=Optimizer(learning_rate=0.0))
    result = fit(network(), method(), views(32), views(20, seed=1), folder=tmp_path, training=training)
    assert (result.best_epoch, result.epochs) == (0, 3)


def test_without_validation_data_the_best_epoch_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"needs a validation set and none was given.*keep='last'.*never used"):
        fit(network(), method(), views(32), folder=tmp_path, training=settings())


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_can_select(tmp_path, metric):
    training = settings(selection=Selection(metric=metric), optimizer=Optimizer(learning_rate=0.3))
    result = fit(network(), method(), views(48), views(40, seed=1), folder=tmp_path, training=training)
    with (tmp_path / "epochs.csv").open() as file:
        scores = [float(row[f"validation/{metric}"]) for row in csv.DictReader(file)]
    best = np.argmin(scores) if metric in ("nll", "ece", "brier", "aurc") else np.argmax(scores)
    assert result.best_epoch == best


def test_a_loss_that_is_not_finite_ends_the_run_and_spares_the_checkpoint(tmp_path):
    training = last(epochs=3, optimizer=Optimizer(learning_rate=1e30))
    with pytest.raises(DivergedError, match=r"training loss is (nan|inf) at step .*Lower the learning rate"):
        fit(network(), method(), views(64), folder=tmp_path, training=training)
    trained = network()
    tensors, _ = load_checkpoint(tmp_path / "checkpoints" / "last.safetensors")
    assert all(torch.isfinite(tensors[f"network.{name}"]).all() for name in trained.state_dict())


def test_features_that_overflow_are_a_divergence_that_leaves_its_rows(tmp_path):
    """A calibrated run meets infinite features before any loss is infinite."""
    training = last(epochs=3, log_every=50, optimizer=Optimizer(learning_rate=1e12))
    with pytest.raises(
        DivergedError, match=r"diverged in step \d+ .*`features.*NaN or infinite .*checkpoint is .*last.safe"
    ):
        fit(network(), method("bogc"), views(64), folder=tmp_path, training=training)
    assert (tmp_path / "steps.csv").read_text().count("\n") > 1


def test_the_run_folder_tells_the_whole_story(tmp_path):
    result = fit(
        network(), method("mmpareto"), views(40), views(30, seed=1), views(31, seed=2), folder=tmp_path,
        training=settings(), config={"method": "mmpareto"},
    )  # fmt: skip
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["method"] == "mmpareto"
    assert config["training"]["batch_size"] == 16
    assert json.loads((tmp_path / "environment.json").read_text())["packages"]["torch"] == torch.__version__
    assert len((tmp_path / "diagnostics.jsonl").read_text().splitlines()) == 2
    stored = np.load(tmp_path / "predictions" / "test.npz")
    predicted = stored["probabilities"].argmax(1)
    assert (predicted == stored["target"]).mean() == pytest.approx(result.metrics["test"]["accuracy"])
    with (tmp_path / "predictions" / "test.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["predicted"] for row in rows] == [("x", "y", "z")[c] for c in predicted]
    assert read_result(tmp_path).to_json() == json.loads(json.dumps(result.to_json()))
    assert "best validation accuracy" in result.protocol["selection"]


def test_every_modality_has_all_four_readings_by_name(tmp_path):
    result = fit(network(), method(), views(40), views(30, seed=1), folder=tmp_path, training=settings())
    assert set(result.metrics["validation"]["modalities"]["image"]) == {
        "samples", "own_head", "block", "ablation", "probe",
    }  # fmt: skip


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    fit(network(), method(), views(32), folder=tmp_path, training=last(epochs=1))
    assert torch.equal(torch.rand(2), expected)


def test_missing_modalities_train(tmp_path):
    result = fit(
        network(), method(), views(60, missing=0.5), views(40, 1, missing=0.5), folder=tmp_path, training=settings()
    )
    counted = result.metrics["validation"]["modalities"]["image"]["samples"]
    assert 0 < counted < 40


def test_modality_dropout_thins_training_batches_anew_each_step_and_nothing_else(tmp_path):
    seen = []

    class Watching(type(method("joint"))):
        def loss(self, output, batch):
            seen.append(torch.stack(list(batch.present.values())))
            return super().loss(output, batch)

    training = settings(epochs=2, batch_size=32, modality_dropout=0.5)
    result = fit(network(), Watching(), views(64), views(40, 1), folder=tmp_path, training=training)
    assert [masks.shape[1] for masks in seen] == [32] * 4
    assert all(masks.any(dim=0).all() for masks in seen)
    assert not any(torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])
    # Of the four subsets the empty one is drawn again: a modality stays with probability 2/3.
    assert torch.stack(seen).float().mean().item() == pytest.approx(2 / 3, abs=0.1)
    assert all(value["samples"] == 40 for value in result.metrics["validation"]["modalities"].values())


def test_a_modality_that_is_not_in_every_epoch_has_a_column_from_the_first(tmp_path):
    data = views(48)
    data.present["image"].copy_(torch.arange(48) == 0)
    training = last(epochs=2, modality_dropout=0.8, seed=1)
    fit(network(), method(), data, folder=tmp_path, training=training)
    with (tmp_path / "epochs.csv").open() as file:
        found = [row["train/own_head/image"] for row in csv.DictReader(file)]
    assert found == ["nan", "0.0"]  # with this seed the only sample keeps it in the second epoch


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains(tmp_path, name):
    result = fit(network(), method(name), views(64), views(40, 1), folder=tmp_path, training=settings(epochs=4))
    assert result.metrics["validation"]["accuracy"] > 0.5


@pytest.mark.parametrize("name", ["uniform", "mmpareto"])
def test_bfloat16_trains(tmp_path, name):
    training = settings(epochs=4, hardware=Hardware(accelerator="cpu", precision="bf16-mixed"))
    result = fit(network(), method(name), views(64), views(40, 1), folder=tmp_path, training=training)
    assert result.metrics["validation"]["accuracy"] > 0.5


def half_precision(scale=2.0**10):
    """Fabric refuses float16 on the CPU by name but runs it when given the plugin."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    fabric = Fabric(accelerator="cpu", devices=1, plugins=MixedPrecision("16-mixed", "cpu", scaler))
    fabric.launch()
    return fabric


@pytest.mark.parametrize("name", ["uniform", "mmpareto"])
def test_surgery_sees_gradients_without_the_loss_scale(tmp_path, name):
    norms = {}
    for number, scale in enumerate((1.0, 2.0**10)):
        chosen = method(name)
        norms[scale] = watch_gradients(chosen)
        fit(
            network(), chosen, views(32), folder=tmp_path / str(number), training=last(epochs=1),
            fabric=half_precision(scale),
        )  # fmt: skip
    assert norms[1.0] == pytest.approx(norms[2.0**10], rel=0.02)


def watch_gradients(chosen):
    """The norm of the gradient after the surgery of each step."""
    norms = []
    original = chosen.after_backward

    def watched(wrapped, surgery):
        original(wrapped, surgery)
        gradients = [p.grad.flatten() for p in wrapped.module.parameters() if p.grad is not None]
        norms.append(torch.cat(gradients).norm().item())

    chosen.after_backward = watched
    return norms


def test_a_step_that_overflows_is_skipped_with_its_surgery(tmp_path):
    chosen, trained = method("uniform"), network()
    norms = watch_gradients(chosen)
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    fit(trained, chosen, views(16), folder=tmp_path, training=last(epochs=1), fabric=half_precision(2.0**30))
    assert norms == []
    assert all(torch.equal(value, before[name]) for name, value in trained.state_dict().items())
