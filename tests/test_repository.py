"""The repository says one thing in all its files, and nothing about the machine it was written on."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import pytest

import evigrad

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!]+(  # .+)?")
# Somebody's folders, and addresses that answer in one network only.
ELSEWHERE = re.compile(
    r"(?<![\w.~-])/(?:work|root|home|Users|mnt|opt)/\w"
    r"|https?://(?!127\.0\.0\.1|localhost)(?:\d+\.\d+\.\d+\.\d+|[\w-]+(?=[/:\s]|$)|[\w.-]+\.(?:internal|local|lan|corp)\b)"
)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")


def tracked(*patterns: str) -> list[Path]:
    """The files that git holds, or would hold at the next commit."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        *patterns,
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in answer.stdout.splitlines() if (path := ROOT / name).is_file()]


def pins(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


def test_one_version():
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation is not None
    assert {PROJECT["version"], version("evigrad"), citation[1]} == {evigrad.__version__}


@pytest.mark.parametrize("name", ["constraints.txt", "oracles.txt"])
def test_every_pin_is_exact(name):
    assert [line for line in pins(name) if not PIN.fullmatch(line)] == []


def test_pins_leave_out_what_is_not_used():
    names = [line.split("==")[0] for line in pins("constraints.txt") + pins("oracles.txt")]
    assert names[0] == "torch"
    assert [name for name in names if re.match(r"torchvision|torchaudio|nvidia|cuda", name)] == []


def test_every_direct_dependency_is_pinned():
    lines = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    wanted = {re.split(r"[\[><= ]", line)[0] for line in lines}
    assert wanted - {line.split("==")[0] for line in pins("constraints.txt")} == {"evigrad"}


def test_the_core_needs_torch_only():
    assert [re.split(r"[><=]", line)[0] for line in PROJECT["dependencies"]] == ["torch"]


def test_nothing_names_a_machine():
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # binary
        found += [f"{path.relative_to(ROOT)}: {match[0]!r}" for match in ELSEWHERE.finditer(text)]
    assert found == []


@pytest.mark.parametrize("text", ["see |home|ann", "http:||mirror|simple", "https:||10.0.0.1|x", "http:||a.lan"])
def test_a_machine_would_be_noticed(text):
    assert ELSEWHERE.search(text.replace("|", "/"))


def test_links_between_pages_lead_somewhere():
    dead = []
    for page in tracked("*.md"):
        targets = LINK.findall(page.read_text(encoding="utf-8"))
        dead += [f"{page.relative_to(ROOT)}: {target}" for target in targets if not (page.parent / target).exists()]
    assert dead == []


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_licence(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        ".",
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("evigrad-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    source = {str(path.relative_to(ROOT / "src")) for path in tracked("src")}
    assert source <= names
    assert {name for name in names if not name.startswith("evigrad")} == set()
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
