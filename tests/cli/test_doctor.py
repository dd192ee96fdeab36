import pytest

from evigrad.cli import doctor, selfcheck


def test_what_is_installed_and_what_is_missing(evigrad, monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS", {"train": ("torch",), "av": ("no_such_module",)})
    answer = evigrad("doctor", "--check", "false")
    assert answer.code == 0
    assert "missing: no_such_module" in answer.out
    assert "pip install 'evigrad[av]'" in answer.out
    assert "torch 2." in answer.out
    assert "Devices: cpu" in answer.out


def test_the_extras_are_those_of_the_package():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(doctor.EXTRAS) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("seed", range(4))
def test_the_criterion_passes_the_independent_calculation(seed):
    assert selfcheck.gradient_error(samples=5, classes=4, seed=seed) < selfcheck.TOLERANCE


def test_the_self_check_passes(evigrad):
    answer = evigrad("doctor", "--json")
    assert answer.code == 0
    assert answer.json["healthy"]
    assert [one["passed"] for one in answer.json["check"]] == [True, True]


def test_a_wrong_gradient_is_found(evigrad, monkeypatch):
    class Off(selfcheck.CalibratedLoss):
        def __init__(self, *heads, **options):
            super().__init__(*heads, scale=1.500001, **options)

    monkeypatch.setattr(selfcheck, "CalibratedLoss", Off)
    monkeypatch.setattr(selfcheck, "training_gain", lambda: (0.3, 0.25))
    answer = evigrad("doctor")
    assert answer.code == 1
    assert answer.out.count("FAIL ") == 2
