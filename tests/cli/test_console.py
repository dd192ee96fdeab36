import sys

import pytest

from evigrad.cli.console import program


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A project folder with an environment of its own, whose interpreter runs this."""
    commands = tmp_path / "project" / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "evigrad").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(commands / "python"))
    monkeypatch.chdir(tmp_path / "project")
    return commands


def test_a_command_on_the_path_is_called_by_its_name(here, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    assert program() == "evigrad"


def test_one_that_is_not_on_the_path_is_called_by_its_place(here, monkeypatch, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "evigrad").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other))
    assert program() == ".venv/bin/evigrad"
    monkeypatch.chdir(other)
    assert program() == str(here / "evigrad")


def test_without_a_command_of_its_own_the_name_has_to_do(here):
    (here / "evigrad").unlink()
    assert program() == "evigrad"
