"""Every model of the zoo trains: heads as usual, encoders by what the criterion sends, nothing breaks on the way."""

import copy

import pytest
import torch
from torch import nn

from evigrad import CalibratedLoss
from tests.properties.criterion import assert_same_gradients
from tests.zoo import ZOO, FrozenEncoder, Model, ThousandClasses, TiedHeads, gradients, plain_training


@pytest.fixture(params=ZOO)
def kind(request):
    torch.manual_seed(0)
    return ZOO[request.param]


def presence(model, size):
    """Half of the samples have the first modality, all have the others."""
    return {model.names[0]: torch.arange(size) % 2 == 0}


@pytest.mark.parametrize("missing", [False, True])
def test_the_value_is_that_of_plain_training(kind, missing):
    model = kind()
    inputs, target = model.batch()
    present = presence(model, len(target)) if missing else None
    torch.testing.assert_close(
        model(inputs, target, present).loss, plain_training(model, inputs, target, present), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("missing", [False, True])
def test_heads_get_the_gradients_of_plain_training(kind, missing):
    model = kind()
    plain = copy.deepcopy(model)
    inputs, target = model.batch()
    present = presence(model, len(target)) if missing else None
    loss, wanted = model(inputs, target, present).loss, plain_training(plain, inputs, target, present)
    if loss.requires_grad:
        loss.backward()
    if wanted.requires_grad:
        wanted.backward()
    ours, theirs = (
        {name: value for name, value in gradients(one).items() if name.startswith("criterion.")}
        for one in (model, plain)
    )
    assert_same_gradients(ours, theirs, 1e-5)  # float32


@pytest.mark.parametrize("missing", [False, True])
def test_equal_evidence_is_plain_training_of_every_parameter(kind, missing):
    """s = 0 and γ = 1: all the way through the encoders, whatever they share, freeze or overwrite."""
    model = kind(evidence_power=0.0, scale=1.0)
    plain = copy.deepcopy(model)
    inputs, target = model.batch()
    present = presence(model, len(target)) if missing else None
    model(inputs, target, present).loss.backward()
    plain_training(plain, inputs, target, present).backward()
    assert_same_gradients(gradients(model), gradients(plain), 1e-4)  # float32


@pytest.mark.parametrize("missing", [False, True])
def test_encoders_get_what_the_features_get(kind, missing):
    """The criterion's gradients at detached features, taken through the encoders by autograd."""
    model = kind()
    other = copy.deepcopy(model)
    inputs, target = model.batch()
    present = presence(model, len(target)) if missing else None
    model(inputs, target, present).loss.backward()

    features = other.encode(inputs)
    leaves = {name: value.detach().requires_grad_() for name, value in features.items()}
    other.criterion(leaves, target, present).loss.backward()
    for name, value in features.items():
        if value.requires_grad:
            value.backward(leaves[name].grad, retain_graph=True)

    def encoders(one):
        return {name: value for name, value in gradients(one).items() if name.startswith("encoders.")}

    assert_same_gradients(encoders(model), encoders(other), 1e-5)  # float32


@pytest.mark.parametrize(
    "readings",
    [
        {"refresh": 2},
        {"posterior": "diagonal", "reference": "power", "rescale": "sample"},
        {"curvature": "batch", "centre": "newton", "weights": "source"},
    ],
    ids=["defaults", "diagonal", "batch"],
)
def test_five_steps_stay_finite(kind, readings):
    model = kind(**readings)
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-3)
    for step in range(5):
        inputs, target = model.batch(seed=step)
        out = model(inputs, target, presence(model, len(target)) if step % 2 else None)
        optimizer.zero_grad()
        out.loss.backward()
        assert all(value.isfinite().all() for value in gradients(model).values())
        optimizer.step()
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert all(torch.tensor(value).isfinite() for value in out.diagnostics.summary().values())


def test_one_sample(kind):
    model = kind()
    model(*model.batch(1)).loss.backward()
    assert all(value.isfinite().all() for value in gradients(model).values())


def test_a_modality_that_the_whole_batch_lacks(kind):
    """Exact zeros for its features, whatever stands in them; its posterior does not move."""
    model = kind()
    inputs, target = model.batch()
    name = model.names[0]
    leaves = {key: value.detach().clone().requires_grad_() for key, value in model.encode(inputs).items()}
    own = model.criterion.calibration.unimodal[name]
    before = copy.deepcopy(own.state_dict())
    model.criterion(leaves, target, {name: torch.zeros(len(target), dtype=torch.bool)}).loss.backward()
    assert (leaves[name].grad == 0).all()
    for key in ("count", "sum_gram", "sum_outputs"):
        torch.testing.assert_close(own.state_dict()[key], before[key], rtol=0, atol=0)
    if "posterior_variance" in before:  # the eigenvectors of nothing are arbitrary, their variance is the prior's
        torch.testing.assert_close(own.posterior_variance, torch.ones_like(own.posterior_variance))


def test_a_thousand_classes():
    """Equal evidence is plain training of every parameter, and the defaults stay finite over several steps."""
    model = ThousandClasses(evidence_power=0.0, scale=1.0)
    plain = copy.deepcopy(model)
    inputs, target = model.batch()
    model(inputs, target).loss.backward()
    plain_training(plain, inputs, target).backward()
    assert_same_gradients(gradients(model), gradients(plain), 1e-4)  # float32
    model = ThousandClasses(refresh=2)
    for seed in range(3):
        model(*model.batch(seed=seed)).loss.backward()
    assert all(value.isfinite().all() for value in gradients(model).values())


def test_a_frozen_encoder_gets_no_gradient_and_its_posterior_learns():
    model = FrozenEncoder()
    model(*model.batch()).loss.backward()
    assert all(value.grad is None for value in model.encoders["audio"].parameters())
    assert all(value.grad is not None for value in model.encoders["video"].parameters())
    assert model.criterion.calibration.unimodal["audio"].count == 6


def test_all_encoders_frozen_train_the_heads_alone():
    model = Model()
    model.encoders.requires_grad_(False)
    out = model(*model.batch())
    out.loss.backward()
    assert out.diagnostics.summary() == {}
    assert all(value.grad is not None for value in model.criterion.parameters())
    assert model.criterion.calibration.joint.count == 6


def test_tied_heads_are_one_parameter_with_a_posterior_for_each_modality():
    model = TiedHeads()
    assert len(list(model.criterion.parameters())) == 4
    present = {"audio": torch.tensor([True, True, False, False, False, False])}
    model(*model.batch(), present)
    counts = {name: int(one.count) for name, one in model.criterion.calibration.unimodal.items()}
    assert counts == {"audio": 2, "video": 6}


def test_a_criterion_may_serve_two_models():
    """Each model's encoders get gradients; the statistics are those of both."""
    first, second = Model(), Model()
    second.criterion = first.criterion
    for model, seed in ((first, 0), (second, 1)):
        model(*model.batch(seed=seed)).loss.backward()
        assert all(value.grad.abs().sum() > 0 for value in model.encoders.parameters())
    assert first.criterion.calibration.joint.steps == 2


def test_features_that_need_no_gradient_make_room_for_those_that_do():
    """Leaving one modality's features without gradient does not change what the other gets."""
    torch.manual_seed(0)
    heads, joint = {"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)}, nn.Linear(8, 3)
    values = {name: torch.randn(5, 4) for name in heads}
    target = torch.randint(3, (5,))
    got = []
    for wanted in (["a", "b"], ["b"]):
        criterion = CalibratedLoss(heads, joint)
        leaves = {name: value.clone().requires_grad_(name in wanted) for name, value in values.items()}
        criterion(leaves, target).loss.backward()
        got.append(leaves["b"].grad)
    torch.testing.assert_close(*got)
