import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evigrad.experiments.statistics import (
    holm,
    paired,
    student_probability,
    student_quantile,
    summarise,
)


@pytest.mark.parametrize("freedom", [*range(1, 31), 99, 100])
def test_student_is_scipys(freedom):
    for t in (0.0, 0.01, 0.7, 1.0, 2.5, 12.0, 300.0):
        assert student_probability(t, freedom) == pytest.approx(1 - 2 * stats.t.sf(t, freedom), abs=1e-13)
    for confidence in (0.5, 0.9, 0.95, 0.999):
        expected = stats.t.ppf((1 + confidence) / 2, freedom)
        assert student_quantile(confidence, freedom) == pytest.approx(expected, rel=1e-9)


def test_summary_is_scipys_interval():
    values = [0.91, 0.935, 0.902, 0.96, 0.88]
    found = summarise(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.mean, found.worst, found.runs) == (pytest.approx(np.mean(values)), 0.88, 5)


def test_paired_is_scipys_test():
    one, other = [0.9, 0.93, 0.95, 0.91, 0.92], [0.89, 0.9, 0.95, 0.9, 0.88]
    found, expected = paired(one, other), stats.ttest_rel(one, other)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_one_run_has_no_interval():
    assert math.isnan(summarise([0.5]).low)
    assert math.isnan(paired([0.5], [0.4]).p)


def test_equal_results_are_no_difference():
    assert paired([0.5, 0.6], [0.5, 0.6]).p == 1.0


def test_a_constant_difference_is_certain():
    assert paired([0.75, 0.5], [0.5, 0.25]).p == 0.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_stepwise_definition(probabilities):
    found = holm(probabilities)
    for index, p in enumerate(probabilities):
        rank = sorted(probabilities).index(p)
        steps = [
            min(1.0, value * (len(probabilities) - place))
            for place, value in enumerate(sorted(probabilities)[: rank + 1])
        ]
        assert found[index] >= max(steps) - 1e-12
        assert found[index] >= p


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (lambda: summarise([]), "values is empty: give the result of at least one run"),
        (lambda: paired([1.0], []), "values has 1 runs and reference 0: pair them by seed"),
        (lambda: student_probability(1.0, 0), "freedom must be at least 1, got 0"),
        (lambda: student_quantile(1.0, 3), "confidence must lie between 0 and 1, got 1.0"),
    ],
)
def test_errors(work, text):
    with pytest.raises(ValueError, match=text):
        work()
