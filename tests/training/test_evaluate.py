import numpy as np
import pytest
import torch
from torch import nn

from evigrad.data import FeatureNoise, collate, corrupt
from evigrad.training import evaluate, missing_grid, noise_grid, predict
from tests.training.toy import CLASSES, method, network, views


def prepared(name="uniform", **options):
    model, chosen = network(**options), method(name)
    chosen.prepare(model, 50, 4, 2)
    return model, chosen


def with_batch_norm():
    model, chosen = prepared()
    width = model.encoders["sound"].width
    model.encoders["sound"].layers.append(nn.Sequential(nn.BatchNorm1d(width), nn.Dropout(0.5)))
    return model, chosen


def test_no_sample_is_dropped_and_the_batch_size_does_not_matter():
    model, chosen = prepared()
    data = views(37, missing=0.3)
    whole, parts = predict(model, chosen, data, batch_size=64), predict(model, chosen, data, batch_size=8)
    assert len(whole.target) == len(parts.target) == 37
    assert torch.equal(whole.index, torch.arange(37))
    torch.testing.assert_close(whole.probabilities, parts.probabilities)


def test_nothing_is_changed_by_evaluating():
    model, chosen = with_batch_norm()
    model.train()
    model.encoders["image"].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    evaluate(model, chosen, views(30), probe_on=views(40, 1))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.encoders["sound"].training
    assert not model.encoders["image"].training
    assert all(parameter.grad is None for parameter in model.parameters())


def by_hand(model, chosen, data):
    """The four readings, a sample at a time, from the weights alone."""
    right = {name: {"own_head": [], "block": [], "ablation": []} for name in data.modalities}
    fusion, parts = model.fusion, len(data.modalities)
    for row in range(len(data)):
        sample = data[row]
        for name, found in right.items():
            if not sample.present[name]:
                continue
            feature = model.encoders[name](sample.inputs[name][None])
            logits = {
                "own_head": model.heads[name](feature),
                "block": feature @ fusion.block(name).T + fusion.linear.bias / parts,
                "ablation": feature @ fusion.block(name).T + fusion.linear.bias,
            }
            for reading, values in logits.items():
                found[reading].append(int(values.argmax()) == int(sample.target))
    return {name: {key: np.mean(values) for key, values in found.items()} for name, found in right.items()}


def test_readings_of_single_modalities_equal_a_loop_over_samples():
    model, chosen = prepared()
    with torch.no_grad():
        model.fusion.linear.bias.copy_(torch.tensor([0.8, -0.4, 0.1]))
    data = views(60, missing=0.4)
    found = evaluate(model, chosen, data)["modalities"]
    for name, expected in by_hand(model, chosen, data).items():
        assert {key: found[name][key] for key in expected} == pytest.approx(expected)
        assert "probe" not in found[name]
    assert found["image"]["samples"] == int(data.present["image"].sum())


def test_blocks_add_up_to_the_joint_logits():
    model, chosen = prepared()
    data = views(20)
    found = predict(model, chosen, data)
    batch = collate([data[i] for i in range(20)])
    with torch.no_grad():
        expected = model.eval()(batch.inputs, batch.present).joint_logits
    torch.testing.assert_close(found.readings["block"]["sound"] + found.readings["block"]["image"], expected)


def test_readings_that_do_not_exist_are_left_out():
    model, chosen = prepared("joint", fusion="gated")
    found = evaluate(model, chosen, views(20))["modalities"]["sound"]
    assert set(found) == {"samples", "ablation"}
    model, chosen = prepared("unimodal")
    assert set(evaluate(model, chosen, views(20))["modalities"]["sound"]) == {"samples", "own_head"}


def test_a_probe_on_an_untrained_encoder_beats_chance():
    model, chosen = prepared("joint")
    found = evaluate(model, chosen, views(200, 1), probe_on=views(300))
    assert found["modalities"]["sound"]["probe"] > 0.6
    assert found["protocol"] == "toy"


def test_per_class_is_named_and_complete():
    model, chosen = prepared()
    found = evaluate(model, chosen, views(40))
    assert tuple(found["per_class"]) == CLASSES
    assert sum(row["samples"] for row in found["per_class"].values()) == found["samples"] == 40


def test_the_missing_grid_equals_taking_modalities_away_by_hand():
    model, chosen = prepared()
    data = views(40)
    rows = {tuple(row["kept"]): row for row in missing_grid(model, chosen, data)}
    assert set(rows) == {("sound",), ("image",), ("sound", "image")}
    batch = collate([data[i] for i in range(40)])
    gone = torch.zeros(40, dtype=torch.bool)
    with torch.no_grad():
        output = model.eval()(batch.inputs, {**batch.present, "image": gone})
    assert rows["sound",]["accuracy"] == (output.joint_logits.argmax(1) == batch.target).double().mean().item()
    assert rows["sound", "image"]["accuracy"] == evaluate(model, chosen, data)["accuracy"]
    assert "without image" in rows["sound",]["protocol"]


def test_samples_that_have_nothing_left_are_not_counted():
    model, chosen = prepared()
    data = views(40, missing=0.5)
    alone = missing_grid(model, chosen, data, kept=[["image"]])[0]
    assert alone["samples"] == int(data.present["image"].sum()) < 40


def test_the_noise_grid_starts_clean_and_gets_worse():
    model, chosen = prepared()
    train_a_little(model, chosen)
    data = views(200)
    rows = noise_grid(model, chosen, data, "ecml_noise", levels=[0, 20], draws=2, share=1.0)
    assert [(row["level"], row["draw"]) for row in rows] == [(0, 0), (20, 0), (20, 1)]
    assert rows[0]["accuracy"] == evaluate(model, chosen, data)["accuracy"]
    assert rows[1]["accuracy"] < rows[0]["accuracy"]
    again = noise_grid(model, chosen, data, "ecml_noise", levels=[20], draws=2, share=1.0, batch_size=7)
    assert [row["accuracy"] for row in again] == [row["accuracy"] for row in rows[1:]]


@pytest.mark.parametrize("level", [-1.0, float("nan")])
def test_noise_has_no_negative_level(level):
    model, chosen = prepared()
    with pytest.raises(ValueError, match=r"levels must be at least 0, got (-1.0|nan)"):
        noise_grid(model, chosen, views(10), "fuml_noise", levels=[0.5, level])


def train_a_little(model, chosen):
    data = views(200, seed=5)
    batch = collate([data[i] for i in range(200)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for _ in range(40):
        optimizer.zero_grad()
        chosen.loss(model(batch.inputs, batch.present), batch).backward()
        optimizer.step()


def test_corrupted_data_sets_are_data_sets():
    model, chosen = prepared()
    noisy = corrupt(views(30), {"sound": FeatureNoise(3.0)}, torch.Generator().manual_seed(0), probability=1.0)
    assert evaluate(model, chosen, noisy)["samples"] == 30


def test_an_empty_data_set_is_an_error():
    model, chosen = prepared()
    empty = views(5).select(torch.arange(0))
    with pytest.raises(ValueError, match="there is nothing to predict: the data set has no samples"):
        predict(model, chosen, empty)
