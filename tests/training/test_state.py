import random

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from evigrad.training import state
from evigrad.training.checkpoint import load_checkpoint, save_checkpoint


def draws(generator):
    return (
        torch.rand(3).tolist(),
        torch.rand(3, generator=generator).tolist(),
        np.random.standard_normal(3).tolist(),  # noqa: NPY002
        [random.gauss(0, 1) for _ in range(3)],
    )


def test_every_generator_goes_on_where_it_was(tmp_path):
    generator = torch.Generator().manual_seed(4)
    draws(generator)  # an odd number of normal draws leaves a second one cached
    tensors, values = state.random_state(generator)
    save_checkpoint(tmp_path / "a", tensors, {"random": values})
    expected = draws(generator)
    draws(generator)
    loaded, content = load_checkpoint(tmp_path / "a")
    state.load_random_state(generator, loaded, content["random"])
    assert draws(generator) == expected


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_goes_on_where_it_was(tmp_path, kind):
    def build():
        torch.manual_seed(0)
        layer = nn.Linear(3, 2)
        return layer, kind(layer.parameters(), lr=0.1, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))

    def step(layer, optimizer):
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()

    layer, optimizer = build()
    step(layer, optimizer)
    tensors, values = state.optimizer_state(optimizer)
    save_checkpoint(tmp_path / "a", {**tensors, **state.module_state(layer, "network")}, {"optimizer": values})
    step(layer, optimizer)
    other, restored = build()
    loaded, content = load_checkpoint(tmp_path / "a")
    state.load_module(other, loaded, "network")
    state.load_optimizer(restored, loaded, content["optimizer"])
    step(other, restored)
    assert torch.equal(layer.weight, other.weight)


def test_weights_that_do_not_fit_are_listed():
    tensors = state.module_state(nn.Linear(3, 2), "network")
    text = r"the saved network doesn't fit this one: weight \(saved \(2, 3\), needed \(2, 4\)\)\. Rebuild it"
    with pytest.raises(ValueError, match=text):
        state.load_module(nn.Linear(4, 2), tensors, "network")
    with pytest.raises(ValueError, match=r"bias \(saved \(2,\), needed nothing\)"):
        state.load_module(nn.Linear(3, 2, bias=False), tensors, "network")


def test_tied_and_strided_weights_survive(tmp_path):
    weight = torch.rand(4, 4)
    saved = {"a": weight, "b": weight, "row": weight[1], "turned": weight.T, "none": torch.empty(0)}
    save_checkpoint(tmp_path / "a", saved, {})
    loaded, _ = load_checkpoint(tmp_path / "a")
    assert all(torch.equal(loaded[name], value) for name, value in saved.items())


def test_equal_content_gives_equal_bytes(tmp_path):
    for name, keys in (("a", "xyz"), ("b", "zyx")):
        save_checkpoint(tmp_path / name, {key: torch.ones(2) for key in keys}, dict.fromkeys(keys, 1))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_checkpoint_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint at .*a. Start the run first"):
        load_checkpoint(tmp_path / "a")


def test_somebody_elses_safetensors_file_is_refused(tmp_path):
    safetensors.torch.save_file({"x": torch.ones(1)}, tmp_path / "a")
    with pytest.raises(ValueError, match=r"has checkpoint format None; this version reads format 1"):
        load_checkpoint(tmp_path / "a")
