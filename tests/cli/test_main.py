import os
import subprocess
import sys

import pytest

from evigrad.cli import COMMANDS, ExitCode
from evigrad.cli.console import program
from evigrad.cli.errors import CheckError, guarded
from evigrad.training import DivergedError, ExportError, Interrupted, StorageError

HEAVY = ("torch", "numpy", "jsonargparse", "rich", "lightning_fabric", "torchmetrics", "safetensors")


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_help_comes_without_anything_heavy():
    code = (
        f"import sys; from evigrad.cli import main; main(['--help']); print([m for m in {HEAVY} if m in sys.modules])"
    )
    answer = python("-c", code)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1] == "[]"
    for name in COMMANDS:
        assert f"\n  {name}" in answer.stdout


def test_the_module_is_the_command():
    answer = python("-m", "evigrad", "trian")
    assert answer.returncode == ExitCode.USAGE
    assert "Traceback" not in answer.stderr
    assert answer.stderr.startswith("evigrad: unknown command 'trian'. Did you mean 'train'?")


def test_a_reader_that_has_seen_enough():
    command = f"{sys.executable} -m evigrad methods mmpareto | head -1; exit ${{PIPESTATUS[0]}}"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0
    assert answer.stderr == ""


def test_a_narrow_terminal_gets_narrow_paragraphs(evigrad, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = evigrad("export", "--help").out.splitlines()
    assert max(map(len, lines[:12])) <= 50
    assert lines[2].startswith("Write a run as a torch.export program")


def test_every_command_explains_itself(evigrad):
    for name in COMMANDS:
        answer = evigrad(name, "--help")
        assert answer.code == 0
        assert answer.out.startswith(f"usage: evigrad {name}")
        assert max(map(len, answer.out.splitlines())) <= 80
        assert "``" not in answer.out
        assert ":class:" not in answer.out


def test_version(evigrad):
    import evigrad as package

    assert evigrad("--version").out == f"evigrad {package.__version__}\n"


def test_no_command(evigrad):
    answer = evigrad()
    assert answer.code == ExitCode.USAGE
    assert "no command given. Choose one of: demo, train," in answer.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ValueError("epochs must be 1"), 2, "evigrad: epochs must be 1\n"),
        (FileNotFoundError("no run here"), 2, "evigrad: no run here\n"),
        (FileNotFoundError(2, "No such file", "x.npz"), 2, "evigrad: x.npz: No such file\n"),
        (ImportError("pip install 'evigrad[onnx]'"), 69, "evigrad: pip install 'evigrad[onnx]'\n"),
        (
            ModuleNotFoundError("No module named 'PIL'", name="PIL.Image"),
            69,
            "evigrad: PIL isn't installed. Run: pip install 'evigrad[av]'\n",
        ),
        (ModuleNotFoundError("No module named 'mine'", name="mine"), 69, "evigrad: No module named 'mine'\n"),
        (StorageError("disk full"), 74, "evigrad: disk full\n"),
        (CheckError("differs"), 1, "evigrad: differs\n"),
        (DivergedError("loss is nan"), 1, "evigrad: loss is nan\n"),
        (ExportError("differs"), 1, "evigrad: differs\n"),
        (KeyboardInterrupt(), 130, "evigrad: stopped; what was finished is kept\n"),
    ],
)
def test_an_error_is_a_line_and_a_code(capsys, monkeypatch, error, code, text):
    monkeypatch.delenv("EVIGRAD_TRACEBACK", raising=False)

    def work():
        raise error

    assert guarded(work) == code
    assert capsys.readouterr().err.lstrip("\n") == text


def test_an_interrupted_run_says_how_to_go_on(capsys, tmp_path):
    def work():
        raise Interrupted(tmp_path, 7)

    assert guarded(work) == ExitCode.INTERRUPTED
    assert f"evigrad: go on with: {program()} resume {tmp_path}\n" in capsys.readouterr().err


def test_a_defect_shows_where(capsys):
    def work():
        return {}["gone"]

    assert guarded(work) == ExitCode.INTERNAL
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "this is a defect in evigrad, please report it with the lines above (KeyError: 'gone')" in err


def test_developers_may_see_where_a_user_error_comes_from(evigrad, monkeypatch):
    assert "Traceback" not in evigrad("methods", "boc").err
    assert "Traceback" in evigrad("methods", "boc", "--traceback").err
    monkeypatch.setenv("EVIGRAD_TRACEBACK", "1")
    assert "Traceback" in evigrad("methods", "boc").err


def test_exit_codes_are_documented(evigrad):
    out = evigrad("--help").out
    for code in ExitCode:
        assert f"{code.value:>3}  {code.meaning}" in out
    assert max(map(len, out.splitlines())) <= 80
