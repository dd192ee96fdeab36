"""Every registered method goes through every property."""

import pytest

from evigrad.methods import METHODS
from tests.properties import methods as properties
from tests.properties.toys import SHAPES

pytestmark = pytest.mark.parametrize("name", METHODS)


def test_order_of_modalities_is_irrelevant(name):
    properties.assert_order_is_irrelevant(name, SHAPES)


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_any_number_of_modalities(name, count):
    properties.assert_any_number(name, count)


def test_resumes_bit_for_bit(name):
    properties.assert_resumes(name)


def test_absent_inputs_are_ignored(name):
    properties.assert_absent_inputs_are_ignored(name)


def test_a_batch_without_a_modality_leaves_its_encoder(name):
    properties.assert_a_batch_without_a_modality_leaves_its_encoder(name)


def test_odd_batches_do_no_harm(name):
    properties.assert_odd_batches_do_no_harm(name)


def test_trains_beside_what_cannot_learn(name):
    properties.assert_trains_beside_what_cannot_learn(name)


def test_micro_batches_add_up(name):
    if name == "bogc":
        pytest.skip("the running curvature and the norm are those of a micro-batch, by design")
    properties.assert_micro_batches_add_up(name)


def test_loss_scale_cancels(name):
    properties.assert_loss_scale_cancels(name)


def test_trains_under_autocast(name):
    properties.assert_trains_under_autocast(name)


def test_statistics_move_once(name):
    properties.assert_statistics_move_once(name)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_predictions_are_distributions(name, missing):
    properties.assert_probabilities(name, missing)
