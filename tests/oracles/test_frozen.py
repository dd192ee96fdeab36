"""A change detector: values that the naive update gave once, on one tiny input, for each reading of the method."""

import json

import pytest
import torch

from tests.oracles.freeze import FILE, READINGS, frozen, tiny
from tests.oracles.problems import calibrated, criterion_for

TABLE = json.loads(FILE.read_text())


def as_tensors(rows):
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in rows.items()}


@pytest.mark.parametrize("name", READINGS)
def test_the_criterion_gives_the_frozen_values(name):
    readings = READINGS[name]
    batch = tiny(str(readings.get("loss", "cross_entropy")))
    got = calibrated(criterion_for(batch, generator=torch.Generator().manual_seed(0), **readings), batch)
    torch.testing.assert_close(got, as_tensors(TABLE[name]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", READINGS)
def test_the_oracle_gives_the_frozen_values(name):
    torch.testing.assert_close(as_tensors(frozen(READINGS[name])), as_tensors(TABLE[name]), rtol=0, atol=1e-9)


def test_readings_differ_where_they_should():
    """At a first step without a data set's size the running average is the batch; low-rank is full."""
    assert list(TABLE) == list(READINGS)
    same = {"batch curvature": "defaults", "low-rank posterior": "full posterior"}
    for name, other in same.items():
        assert TABLE[name] == TABLE[other]
    rest = [json.dumps(rows) for name, rows in TABLE.items() if name not in same]
    assert len(set(rest)) == len(rest)
