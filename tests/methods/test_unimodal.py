import pytest
import torch
from torch.nn import functional as F

from tests.properties.methods import (
    assert_absent_inputs_are_ignored,
    assert_equals_reference,
    assert_order_is_irrelevant,
    assert_resumes,
    assert_same,
)
from tests.properties.toys import CLASSES, SHAPES, prepared, sgd, toy_batch, toy_batches, toy_network, train, weights


def plain(network, batches):
    """Every encoder and head in a loop and optimizer of its own."""
    for name, encoder in network.encoders.items():
        parts = torch.nn.ModuleList([encoder, network.heads[name]])
        optimizer = sgd(parts)
        for batch in batches:
            optimizer.zero_grad()
            F.cross_entropy(network.heads[name](encoder(batch.inputs[name])), batch.target).backward()
            optimizer.step()


def test_is_one_plain_loop_for_each_modality():
    network = toy_network()
    assert_equals_reference(prepared("unimodal", network), network, plain, toy_batches(4))


@pytest.mark.parametrize("modality", SHAPES)
def test_one_run_of_all_equals_separate_runs(modality):
    """Check (c)."""
    together, alone, batches = toy_network(), toy_network(), toy_batches(4, missing=0.3)
    train(prepared("unimodal", together), together, batches)
    train(prepared("unimodal", alone, modality=modality), alone, batches)
    assert alone.modalities == (modality,)
    theirs = weights(together)
    assert_same(weights(alone), {name: theirs[name] for name in weights(alone)})


def test_prediction_does_not_depend_on_other_inputs():
    """Check (a)."""
    network, batch, other = toy_network().eval(), toy_batch(), toy_batch(seed=9)
    method = prepared("unimodal", network, modality="image")
    mixed = {**other.inputs, "image": batch.inputs["image"]}
    first, second = (method.predict(network(inputs), batch.present) for inputs in (batch.inputs, mixed))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_with_one_modality_joint_and_unimodal_coincide():
    """Check (b)."""
    shapes, batches = {"image": (12,)}, toy_batches(4, shapes={"image": (12,)})
    own, joint = toy_network(shapes), toy_network(shapes)
    joint.fusion.linear.load_state_dict(own.heads["image"].state_dict())
    train(prepared("unimodal", own), own, batches)
    train(prepared("joint", joint), joint, batches)
    assert_same(weights(joint.encoders), weights(own.encoders))
    assert_same(weights(joint.fusion.linear), weights(own.heads["image"]))


def test_predicts_with_the_mean_over_the_modalities_present():
    network, batch = toy_network().eval(), toy_batch(missing=0.5)
    batch.present["sound"][3], batch.present["image"][3], batch.present["words"][3] = False, False, False
    method = prepared("unimodal", network)
    output = network(batch.inputs, batch.present)
    predicted, own = method.predict(output, batch.present), method.unimodal_probabilities(output)
    for row in range(8):
        there = [own[name][row] for name in SHAPES if batch.present[name][row]]
        expected = sum(there) / len(there) if there else torch.full((CLASSES,), 1 / CLASSES)
        torch.testing.assert_close(predicted[row], expected)


@pytest.mark.parametrize("modality", SHAPES)
def test_one_modality_has_the_properties_of_every_method(modality):
    assert_order_is_irrelevant("unimodal", SHAPES, modality=modality)
    assert_resumes("unimodal", modality=modality)
    assert_absent_inputs_are_ignored("unimodal", modality=modality)


def test_unknown_modality_is_an_error():
    with pytest.raises(ValueError, match=r"Unknown `modality`: 'sond'\. Did you mean 'sound'\?"):
        prepared("unimodal", toy_network(), modality="sond")
