import re
from pathlib import Path

import pytest
import torch

from evigrad.methods import METHODS, Method, build_method

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_methods_of_the_first_release_are_there():
    assert {"unimodal", "joint", "uniform", "ogm_ge", "mmpareto", "tmc", "bogc"} <= METHODS.keys()
    assert all(issubclass(method, Method) for method in METHODS.values())


def test_every_method_has_its_row_in_the_documentation():
    rows = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(rows) == sorted(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_building_a_method_draws_nothing(name):
    before = torch.random.get_rng_state()
    build_method(name)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown `method`: 'ogm-ge'\. Did you mean 'ogm_ge'\?"):
        build_method("ogm-ge")


def test_unknown_options_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown `option of tmc`: 'anealing'\. Did you mean 'annealing'\?"):
        build_method("tmc", anealing=3)
    with pytest.raises(ValueError, match=r"'joint' has no options, and 'alpha' was given; leave it out"):
        build_method("joint", alpha=1.0)


def test_a_method_may_take_any_keyword(monkeypatch):
    class Own(Method):
        def __init__(self, **options):
            super().__init__()
            self.options = options

    monkeypatch.setitem(METHODS, "own", Own)
    assert build_method("own", anything=1).options == {"anything": 1}
