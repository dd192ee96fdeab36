import sys

import pytest
import torch
from torch import nn

from evigrad.data import whole
from evigrad.networks import FUSIONS
from evigrad.training import ExportError, export, fit, restore
from tests.training.toy import method, network, settings, views


def prepared(name):
    model, chosen = network(), method(name)
    chosen.prepare(model, 50, 4, 2)
    return model, chosen


@pytest.mark.parametrize("name", ["uniform", "tmc"])
def test_the_program_on_disk_gives_the_models_outputs(tmp_path, name):
    model, chosen = prepared(name)
    report = export(model, chosen, whole(views(5)), tmp_path)
    assert report["program_difference"] < 1e-5
    program = torch.export.load(str(tmp_path / "model.pt2")).module()
    batch = whole(views(9, seed=3, missing=0.5))
    with torch.no_grad():
        expected = chosen.predict(model.eval()(batch.inputs, batch.present), batch.present)
    torch.testing.assert_close(program(batch.inputs, batch.present), expected)


def test_onnx_gives_the_models_outputs(tmp_path):
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    model, chosen = prepared("uniform")
    report = export(model, chosen, whole(views(5)), tmp_path)
    assert report["onnx_difference"] < 1e-5
    loaded = onnx.load(tmp_path / "model.onnx")
    batch = whole(views(9, seed=3, missing=0.5))
    values = [*batch.inputs.values(), *batch.present.values()]
    feed = {given.name: value.numpy() for given, value in zip(loaded.graph.input, values, strict=True)}
    with torch.no_grad():
        expected = chosen.predict(model.eval()(batch.inputs, batch.present), batch.present)
    found = reference.ReferenceEvaluator(loaded).run(None, feed)[0]
    torch.testing.assert_close(torch.as_tensor(found), expected)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_every_fusion_is_exported(tmp_path, fusion):
    model, chosen = network(fusion=fusion), method()
    chosen.prepare(model, 50, 4, 2)
    report = export(model, chosen, whole(views(5)), tmp_path)
    assert report["program_difference"] < 1e-5
    assert report["onnx_difference"] < 1e-5


def test_onnx_that_is_not_installed_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    report = export(*prepared("uniform"), whole(views(5)), tmp_path)
    assert report["onnx"] is None
    assert report["onnx_skipped"].endswith("Run: pip install 'evigrad[onnx]'")
    assert (tmp_path / "model.pt2").exists()


class Random(nn.Module):
    def forward(self, values):
        return values + torch.rand_like(values)


class Branching(nn.Module):
    def forward(self, values):
        return values if float(values.sum()) > 0 else -values


def test_an_export_with_other_outputs_is_an_error_and_not_a_file(tmp_path):
    model, chosen = prepared("uniform")
    model.encoders["sound"].layers.append(Random())
    with pytest.raises(ExportError, match=r"differs from the model by .* nothing was written. .*random"):
        export(model, chosen, whole(views(5)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_followed_is_an_error(tmp_path):
    model, chosen = prepared("uniform")
    model.encoders["sound"].layers.append(Branching())
    with pytest.raises(ExportError, match=r"torch.export can't follow this model: .* Rewrite the part it names"):
        export(model, chosen, whole(views(5)), tmp_path)


def test_one_sample_is_too_few(tmp_path):
    with pytest.raises(ValueError, match=r"the example has 1 sample\(s\); give at least 2"):
        export(*prepared("uniform"), whole(views(1)), tmp_path)


def test_a_run_is_restored_with_the_weights_it_selected(tmp_path):
    trained, chosen = network(), method("tmc")
    fit(trained, chosen, views(48), views(30, 1), folder=tmp_path, training=settings())
    model, again = network(seed=9), method("tmc")
    restore(tmp_path, model, again)
    assert model.state_dict().keys() == trained.state_dict().keys()
    assert all(torch.equal(value, trained.state_dict()[name]) for name, value in model.state_dict().items())
    assert torch.equal(again.epoch, chosen.epoch)
