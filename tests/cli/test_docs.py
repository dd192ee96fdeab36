"""The commands of the documentation run as they stand, in the order of their page."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from tests.experiments.tiny import write_views

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["command-line.md", "data.md", "training.md"]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
YAML = re.compile(r"```yaml\n# (\S+)\n(.*?)```", re.DOTALL)
# They take a minute; what they do is tested on smaller settings in test_demo.
ELSEWHERE = {"evigrad demo", "evigrad demo --quick"}


def commands(page):
    lines = [line for block in BLOCK.findall((DOCS / page).read_text()) for line in block.splitlines()]
    return [line for line in lines if line.startswith("evigrad") and line not in ELSEWHERE]


def own_files(folder):
    write_views(folder / "views.npz")
    write_views(folder / "new.npz", y=None)
    for row in range(20):
        wavfile.write(folder / f"{row}.wav", 8000, np.full(800, 100 * row, dtype=np.int16))
    lines = [f"{row}.wav,{'cat' if row % 2 else 'dog'}" for row in range(20)]
    (folder / "sounds.csv").write_text("\n".join(["sound,label", *lines]))


@pytest.mark.parametrize("page", PAGES)
def test_documented_commands_run(page, evigrad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_files(tmp_path)
    for name, content in YAML.findall((DOCS / page).read_text()):
        (tmp_path / name).write_text(content)
    for line in commands(page):
        line, _, remark = line.partition("#")
        answer = evigrad(*shlex.split(line)[1:])
        expected = re.search(r"exit code (\d+)", remark)
        assert answer.code == int(expected[1] if expected else 0), f"{line}\n{answer.err}"


def test_every_command_is_documented():
    from evigrad.cli import COMMANDS

    text = "".join((DOCS / page).read_text() for page in PAGES)
    assert [name for name in COMMANDS if f"evigrad {name}" not in text] == []
