"""The core in an environment that holds torch, what torch itself asks for, and nothing else."""

import json
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

SOURCE = Path(__file__).parent.parent / "src"
IMPORT = """
import json, sys, time
import torch
before = set(sys.modules)
start = time.perf_counter()
import evigrad
seconds = time.perf_counter() - start
"""
STEP = """
criterion = evigrad.CalibratedLoss(
    heads={"audio": torch.nn.Linear(4, 3), "video": torch.nn.Linear(5, 3)}, joint_head=torch.nn.Linear(9, 3)
)
features = {"audio": torch.randn(8, 4, requires_grad=True), "video": torch.randn(8, 5, requires_grad=True)}
out = criterion(features, torch.randint(3, (8,)))
out.loss.backward()
assert all(feature.grad.isfinite().all() for feature in features.values())
out.diagnostics
"""
REPORT = """
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([seconds, sorted(loaded - set(sys.stdlib_module_names) - {"evigrad", "torch"})]))
"""


def closure(name: str, found: set[str]) -> set[str]:
    """The distribution `name` and all that it requires on this platform."""
    if name not in found:
        found.add(name)
        for requirement in map(Requirement, distribution(name).requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                closure(requirement.name, found)
    return found


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory) -> Path:
    """The interpreter of a new environment into which only torch's own packages are linked."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for name in closure("torch", set()):
        files = distribution(name).files or []
        for entry in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / entry).symlink_to(Path(str(distribution(name).locate_file(entry))))
    (packages / "evigrad.pth").write_text(str(SOURCE))
    return folder / "bin" / "python"


def answer(python: Path, script: str) -> list:
    done = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_environment_is_bare(bare_python):
    script = "import json, importlib.util as u; print(json.dumps([u.find_spec(n) is not None for n in {}]))"
    assert answer(bare_python, script.format(["torch", "numpy", "pytest"])) == [True, False, False]
    assert sys.version_info[:2] == tuple(
        answer(bare_python, "import json, sys; print(json.dumps(sys.version_info[:2]))")
    )


def test_import_is_quick_and_loads_nothing_else(bare_python):
    seconds, foreign = answer(bare_python, IMPORT + REPORT)
    assert foreign == []
    assert seconds < 0.5


def test_a_training_step_loads_nothing_else(bare_python):
    _, foreign = answer(bare_python, IMPORT + STEP + REPORT)
    assert foreign == []


@pytest.mark.parametrize("command", ["train", "methods", "data list", "doctor", "demo", "predict run"])
def test_a_command_says_what_to_install(bare_python, command):
    done = subprocess.run([bare_python, "-I", "-m", "evigrad", *command.split()], capture_output=True, text=True)
    assert done.returncode == 69
    assert done.stderr.endswith(" isn't installed. Run: pip install 'evigrad[train]'\n")


def test_help_needs_nothing(bare_python):
    done = subprocess.run([bare_python, "-I", "-m", "evigrad", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "commands:" in done.stdout
