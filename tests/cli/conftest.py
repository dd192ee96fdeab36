"""Fabric marks the environment for its own use when it is imported; let that happen before any test."""

import json
from dataclasses import dataclass

import lightning_fabric
import pytest

from evigrad.cli import main
from tests.experiments.tiny import write_views

__all__ = ["lightning_fabric"]

TINY = ["--training.epochs", "3", "--training.batch_size", "12", "--training.progress", "none"]
TINY += ["--training.optimizer.learning_rate", "0.05"]


@dataclass(frozen=True)
class Answer:
    """What a command said and returned."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def evigrad(capfd, monkeypatch):
    """Calls the command line in this process."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("EVIGRAD_TRACEBACK", raising=False)

    def call(*words):
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Answer(code, out, err)

    return call


@pytest.fixture(scope="session")
def views(tmp_path_factory):
    return write_views(tmp_path_factory.mktemp("own") / "views.npz")


@pytest.fixture(scope="session")
def run(views, tmp_path_factory):
    """A finished run, to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    assert main(["train", "--data", str(views), "--method", "uniform", "--out", str(folder), "--json", *TINY]) == 0
    return folder
