import pytest

from evigrad.calibration.errors import choose, nearest, positive


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("kroneker", " Did you mean 'kronecker'?"),
        ("diag", " Did you mean 'diagonal'?"),
        ("low_rank", " Did you mean 'lowrank'?"),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_nearest(name, answer):
    assert nearest(name, ["full", "kronecker", "diagonal", "lowrank"]) == answer


def test_nearest_takes_any_iterable():
    assert nearest("audi", iter(["audio", "video"])) == " Did you mean 'audio'?"


def test_choose_returns_what_it_knows():
    assert choose("posterior", "full", ["full", "diagonal"]) == "full"


def test_choose_names_the_argument_the_value_and_the_choices():
    with pytest.raises(
        ValueError, match=r"^Unknown `rescale`: 'bach'. Did you mean 'batch'\? Choose one of: batch, none.$"
    ):
        choose("rescale", "bach", ["batch", "none"])
    with pytest.raises(ValueError, match=r"^Unknown `rescale`: None. Choose one of: batch, sample.$"):
        choose("rescale", None, ["batch", "sample"])


@pytest.mark.parametrize("value", [1e-30, 1, 2.5])
def test_positive_returns_the_number(value):
    assert positive("scale", value) == value


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), float("-inf")])
def test_positive_shows_what_it_got(value):
    with pytest.raises(ValueError, match=rf"`scale` must be a finite number above zero, got {value!r}"):
        positive("scale", value)


def test_zero_is_allowed_on_demand():
    assert positive("evidence_power", 0.0, allow_zero=True) == 0.0
    with pytest.raises(ValueError, match=r"`evidence_power` must be a finite number zero or more, got -0.1"):
        positive("evidence_power", -0.1, allow_zero=True)
