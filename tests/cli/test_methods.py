import inspect

import pytest

from evigrad.methods import METHODS


def test_every_method_is_listed_with_its_paper(evigrad):
    out = evigrad("methods").out
    assert all(f"\n {name}" in out for name in METHODS)
    assert "Wei & Hu, ICML 2024" in " ".join(out.split())


@pytest.mark.parametrize("name", METHODS)
def test_one_method_tells_its_provenance_and_options(evigrad, name):
    answer = evigrad("methods", name)
    assert answer.code == 0
    assert "Provenance:" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "Args:" not in answer.out or "--method." in answer.out
    lines = [line.split() for line in answer.out.splitlines()]
    for option, parameter in inspect.signature(METHODS[name].__init__).parameters.items():
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD and option != "self":
            assert [f"--method.{option}", str(parameter.default)] in lines


def test_scripts_get_the_defaults(evigrad):
    assert evigrad("methods", "--json").json["bogc"]["options"]["scale"] == 1.5


def test_an_unknown_method(evigrad):
    answer = evigrad("methods", "mmparto")
    assert answer.code == 2
    assert "Unknown `method`: 'mmparto'. Did you mean 'mmpareto'?" in answer.err
