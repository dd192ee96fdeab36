import torch

from evigrad.data import load
from evigrad.experiments.scaling import load_scaling, save_scaling


def test_scaling_comes_back(views, tmp_path):
    train = load("views", path=views).train
    save_scaling(tmp_path / "new", train)
    found = load_scaling(tmp_path / "new")
    raw = torch.full((2, 4), 50.0)
    assert set(found) == {"sound", "image"}
    assert torch.equal(found["sound"](raw), train.affine["sound"](raw))


def test_nothing_is_written_where_nothing_is_scaled(views, tmp_path):
    save_scaling(tmp_path, load("views", path=views, scaling="none").train)
    assert list(tmp_path.iterdir()) == []
    assert load_scaling(tmp_path) == {}
