"""Every example in a docstring runs, and every public name has a docstring."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = sorted(module_name(path) for path in SOURCE.rglob("*.py"))
PACKAGES = sorted(module_name(path) for path in SOURCE.rglob("__init__.py"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    report = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name):
        runner.run(example, out=report.append)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_exist_and_have_docstrings(name):
    package = importlib.import_module(name)
    assert package.__doc__, f"{name} has no docstring"
    public = {public: getattr(package, public) for public in package.__all__}
    bare = [key for key, value in public.items() if callable(value) and not inspect.getdoc(value)]
    assert not bare, f"{name}: no docstring on {bare}"
