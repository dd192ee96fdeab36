"""A small file of views and a finished run on it."""

import pytest

from tests.experiments.tiny import experiment, write_views


@pytest.fixture(scope="session")
def views(tmp_path_factory):
    return write_views(tmp_path_factory.mktemp("own") / "views.npz")


@pytest.fixture(scope="session")
def run(views, tmp_path_factory):
    """A finished run, to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    experiment(views).run(folder)
    return folder
