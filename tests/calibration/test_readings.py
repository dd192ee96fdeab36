import dataclasses
import itertools

import pytest

from evigrad.calibration.readings import CENTRES, CURVATURES, FUSIONS, Readings

DEFAULTS = {
    "loss": "cross_entropy",
    "unimodal_weight": 1.0,
    "evidence_power": 0.5,
    "scale": 1.5,
    "posterior": "kronecker",
    "curvature": "running",
    "centre": "weights",
    "moments": "linearized",
    "fusion": "head",
    "reference": "none",
    "weights": "printed",
    "rescale": "batch",
    "dataset_size": None,
    "prior_precision": 1.0,
    "variance_floor": 1e-6,
    "decay": 0.99,
    "refresh": 10,
    "rank": 512,
    "draws": 128,
    "probes": 16,
    "synchronize": True,
}


def readings(**given) -> Readings:
    return Readings(**(DEFAULTS | given))


def test_every_valid_combination_is_accepted_and_every_other_refused():
    """Only two pairs exclude each other: exact moments with another loss, a running average with lowrank."""
    accepted = 0
    for loss, posterior, curvature, moments in itertools.product(
        ["cross_entropy", "binary", "square"],
        ["full", "kronecker", "diagonal", "lowrank"],
        ["batch", "running"],
        ["linearized", "monte_carlo", "exact"],
    ):
        valid = (moments != "exact" or loss == "square") and (posterior != "lowrank" or curvature == "batch")
        given = {"loss": loss, "posterior": posterior, "curvature": curvature, "moments": moments}
        if valid:
            readings(**given)
            accepted += 1
        else:
            with pytest.raises(ValueError, match=r"needs `loss='square'`|has no running average"):
                readings(**given)
    assert accepted == 7 * 7


def test_names_of_the_choices():
    assert CURVATURES == ("batch", "running")
    assert CENTRES == ("weights", "newton")
    assert FUSIONS == ("head", "average")


def test_running():
    assert readings().running
    assert not readings(curvature="batch").running


def test_one_process_shares_nothing():
    assert not readings(synchronize=True).shared
    assert not readings(synchronize=False).shared


def test_they_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        readings().scale = 2.0


@pytest.mark.parametrize("argument", ["unimodal_weight", "evidence_power", "variance_floor", "decay"])
def test_what_may_be_zero(argument):
    assert getattr(readings(**{argument: 0.0}), argument) == 0.0


@pytest.mark.parametrize("argument", ["scale", "prior_precision"])
def test_what_may_not_be_zero(argument):
    with pytest.raises(ValueError, match=rf"`{argument}` must be a finite number above zero, got 0.0"):
        readings(**{argument: 0.0})


@pytest.mark.parametrize("argument", ["refresh", "rank", "draws", "probes", "dataset_size"])
def test_counts_start_at_one(argument):
    assert getattr(readings(**{argument: 1}), argument) == 1
    with pytest.raises(ValueError, match=rf"`{argument}` must be a whole number of at least 1, got 0"):
        readings(**{argument: 0})


def test_decay_below_one():
    with pytest.raises(ValueError, match=r"`decay` must be at least 0 and below 1, got 1.0"):
        readings(decay=1.0)


def test_a_misspelt_reading():
    with pytest.raises(ValueError, match=r"Unknown `centre`: 'weight'. Did you mean 'weights'\?"):
        readings(centre="weight")
