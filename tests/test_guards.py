"""The guards themselves, on small test files run in a pytest of their own."""

import threading

import pytest

pytest_plugins = ["pytester"]

LEAKS = {
    "variable": ("import os\ndef test(): os.environ['EVIGRAD_LEAK'] = '1'", "EVIGRAD_LEAK"),
    "removed variable": ("import os\ndef test(): os.environ.pop('HOME', None)", "HOME"),
    "thread": (
        "import threading\nfrom tests import guards\n"
        "def test(): threading.Thread(target=guards.RELEASE.wait, name='lost').start()",
        "lost",
    ),
    "process group": (
        "import torch.distributed as d\n"
        "def test(tmp_path): d.init_process_group('gloo', f'file://{tmp_path}/x', rank=0, world_size=1)",
        "process group",
    ),
}


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makeconftest("from tests.guards import leaves_nothing_behind, restores_global_state")
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.mark.parametrize("kind", LEAKS)
def test_a_leak_fails_its_test(pytester, monkeypatch, kind):
    source, named = LEAKS[kind]
    monkeypatch.setattr("tests.guards.GRACE", 0.05)
    monkeypatch.setattr("tests.guards.RELEASE", release := threading.Event(), raising=False)
    result = run(pytester, source)
    release.set()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*the test leaves behind:*{named}*"])


def test_a_clean_test_passes(pytester):
    source = """
        import os, threading
        def test(monkeypatch):
            monkeypatch.setenv("EVIGRAD_LEAK", "1")
            thread = threading.Thread(target=int)
            thread.start()
            os.environ["ACCELERATE_SOMETHING"] = "1"
        def test_after():
            assert "ACCELERATE_SOMETHING" not in os.environ
    """
    run(pytester, source).assert_outcomes(passed=2)


def test_global_state_is_put_back(pytester):
    source = """
        import random, numpy, torch
        DRAWS = []
        def draw():
            draws = random.random(), float(torch.rand(())), numpy.random.rand()
            DRAWS.append((*draws, torch.get_default_dtype()))
            torch.set_default_dtype(torch.float64)
        def test_first(): draw()
        def test_second():
            draw()
            assert DRAWS[0] == DRAWS[1]
    """
    run(pytester, source).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("folder", "outcome"), [("", {"skipped": 1}), ("no such folder", {"errors": 1}), (".", {"passed": 1})]
)
def test_real_data_is_optional_but_not_misspelt(pytester, monkeypatch, folder, outcome):
    monkeypatch.setenv("EVIGRAD_DATA", folder)
    pytester.makeconftest("from tests.conftest import real_data")
    pytester.makepyfile("def test(real_data): assert real_data.is_dir()")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(**outcome)
    if "errors" in outcome:
        result.stdout.fnmatch_lines(["*EVIGRAD_DATA='no such folder' is not a folder: unset it, or name*"])
