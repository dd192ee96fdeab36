"""What goes into the criterion and what comes out: value, logits, presence, positions, and the heads' gradients."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from evigrad import CalibratedLoss, CalibratedOutput
from tests.properties.criterion import assert_same_gradients
from tests.zoo import concatenated, gradients, plain_loss

LOSSES = ("cross_entropy", "binary", "square")
WIDTHS = {"audio": 4, "video": 3, "text": 5}
CLASSES = 3


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def build(widths=WIDTHS, classes=CLASSES, **readings):
    heads = {name: nn.Linear(width, classes) for name, width in widths.items()}
    return CalibratedLoss(heads, nn.Linear(sum(widths.values()), classes), **readings)


def leaves(shape=(6,), widths=WIDTHS):
    return {name: torch.randn(*shape, width, requires_grad=True) for name, width in widths.items()}


def targets(loss, shape=(6,), classes=CLASSES):
    if loss == "cross_entropy":
        return torch.randint(classes, shape)
    if loss == "binary":
        return torch.randint(2, (*shape, classes)).float()
    return torch.randn(*shape, classes)


def masks(shape=(6,)):
    return {name: torch.rand(*shape) < 0.6 for name in ("audio", "text")}


def plain(criterion, features, target, present=None, loss="cross_entropy", weight=1.0):
    joint = concatenated(criterion.heads, criterion.joint.output)
    return plain_loss(criterion.heads, joint, features, target, present, loss, weight)


def grads(features):
    return {name: value.grad for name, value in features.items()}


@pytest.mark.parametrize(
    ("loss", "function"),
    [("cross_entropy", F.cross_entropy), ("binary", F.binary_cross_entropy_with_logits), ("square", F.mse_loss)],
)
def test_the_value_is_a_sum_of_pytorch_losses(loss, function):
    criterion, features, target = build(loss=loss, unimodal_weight=0.3), leaves(), targets(loss)
    out = criterion(features, target)
    wanted = function(out.joint_logits, target)
    for logits in out.unimodal_logits.values():
        wanted = wanted + 0.3 * function(logits, target)
    torch.testing.assert_close(out.loss, wanted)


@pytest.mark.parametrize("fusion", ["head", "average"])
@pytest.mark.parametrize("shape", [(6,), (4, 2), (2, 3, 2)], ids=str)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_head_gradients_are_those_of_plain_training(loss, missing, shape, fusion):
    widths = dict.fromkeys(WIDTHS, 4)
    criterion = build(widths, loss=loss, fusion=fusion, unimodal_weight=0.7)
    other = copy.deepcopy(criterion)
    features, target = leaves(shape, widths), targets(loss, shape)
    present = masks(shape) if missing else None
    out = criterion(features, target, present)
    wanted = plain(other, features, target, present, loss, 0.7)
    torch.testing.assert_close(out.loss, wanted)
    out.loss.backward()
    wanted.backward()
    assert_same_gradients(gradients(criterion), gradients(other), 1e-5)  # float32


def test_logits_are_those_of_the_heads():
    criterion, features = build(), leaves((2, 3))
    out = criterion(features, targets("cross_entropy", (2, 3)))
    for name, value in features.items():
        torch.testing.assert_close(out.unimodal_logits[name], criterion.heads[name](value))
    torch.testing.assert_close(out.joint_logits, criterion.joint.output(torch.cat(list(features.values()), -1)))


def test_logits_carry_gradients_to_the_heads_only():
    criterion, features = build(), leaves()
    out = criterion(features, targets("cross_entropy"))
    (out.joint_logits.sum() + sum(logits.sum() for logits in out.unimodal_logits.values())).backward()
    assert all(value.grad is not None for value in criterion.parameters())
    assert all(value.grad is None for value in features.values())


def test_the_output_is_a_tuple_with_the_loss_first():
    out = build()(leaves(), targets("cross_entropy"))
    assert isinstance(out, CalibratedOutput)
    loss, joint_logits, unimodal_logits, diagnostics = out
    assert loss is out.loss
    assert joint_logits is out.joint_logits
    assert unimodal_logits is out.unimodal_logits
    assert diagnostics is out.diagnostics


def test_concatenation_follows_the_heads_whatever_the_order_of_the_features():
    criterion, features, target = build(), leaves(), targets("cross_entropy")
    criterion.eval()
    first = criterion(features, target)
    first.loss.backward()
    wanted = grads(features)
    turned = {name: features[name].detach().requires_grad_() for name in reversed(WIDTHS)}
    second = criterion(turned, target)
    second.loss.backward()
    torch.testing.assert_close(second.joint_logits, first.joint_logits, rtol=0, atol=0)
    assert_same_gradients({name: turned[name].grad for name in WIDTHS}, wanted, 1e-6)


def test_a_modality_may_be_left_out():
    """The same as absent for every sample."""
    criterion, features, target = build(), leaves(), targets("cross_entropy")
    criterion.eval()
    without = {name: value.detach().requires_grad_() for name, value in features.items() if name != "video"}
    absent = criterion(features, target, {"video": torch.zeros(6, dtype=torch.bool)})
    absent.loss.backward()
    out = criterion(without, target)
    out.loss.backward()
    torch.testing.assert_close(out.loss, absent.loss, rtol=0, atol=0)
    torch.testing.assert_close(out.joint_logits, absent.joint_logits, rtol=0, atol=0)
    assert (features["video"].grad == 0).all()
    assert_same_gradients(grads(without), {name: features[name].grad for name in without}, 1e-6)


def test_what_stands_in_the_rows_of_an_absent_sample_is_ignored():
    """Even NaN: nothing of it reaches the loss, the logits, the state or a gradient."""
    target, present, values = targets("cross_entropy"), masks(), leaves()
    results = []
    for rubbish in (0.0, float("nan")):
        torch.manual_seed(1)
        criterion = build()
        features = {}
        for name, value in values.items():
            here = present.get(name, torch.ones(6, dtype=torch.bool))
            features[name] = torch.where(here[:, None], value.detach(), rubbish).requires_grad_()
        out = criterion(features, target, present)
        out.loss.backward()
        results.append((out.loss.detach(), out.joint_logits.detach(), grads(features), criterion.state_dict()))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    for name, here in present.items():
        assert (results[1][2][name][~here] == 0).all()


def test_a_presence_of_all_is_no_presence():
    criterion, features, target = build().eval(), leaves(), targets("cross_entropy")
    criterion(features, target).loss.backward()
    again = {name: value.detach().requires_grad_() for name, value in features.items()}
    everyone = {name: torch.ones(6, dtype=torch.bool) for name in WIDTHS}
    criterion(again, target, everyone).loss.backward()
    torch.testing.assert_close(grads(again), grads(features), rtol=0, atol=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_many_positions_are_as_many_samples(loss):
    """[B, P, K] equals [B·P, K]; a presence of samples holds for all of their positions."""
    criterion, target, present = build(loss=loss), targets(loss, (4, 2)), masks((4,))
    other = copy.deepcopy(criterion)
    deep = leaves((4, 2))
    flat = {name: value.detach().flatten(0, 1).requires_grad_() for name, value in deep.items()}
    out = criterion(deep, target, present)
    repeated = {name: mask.repeat_interleave(2) for name, mask in present.items()}
    wanted = other(flat, target.flatten(0, 1), repeated)
    out.loss.backward()
    wanted.loss.backward()
    torch.testing.assert_close(out.loss, wanted.loss, rtol=0, atol=0)
    assert out.joint_logits.shape == (4, 2, CLASSES)
    torch.testing.assert_close(
        {name: value.grad.flatten(0, 1) for name, value in deep.items()}, grads(flat), rtol=0, atol=0
    )
    torch.testing.assert_close(criterion.state_dict(), other.state_dict(), rtol=0, atol=0)
    assert out.diagnostics.conflict["audio"].shape == (4, 2)


def test_a_presence_may_differ_from_position_to_position():
    criterion, target = build(), targets("cross_entropy", (4, 2))
    features, present = leaves((4, 2)), {"text": torch.tensor([[True, False]] * 4)}
    criterion(features, target, present).loss.backward()
    assert (features["text"].grad[:, 1] == 0).all()
    assert (features["text"].grad[:, 0] != 0).all()


def test_probabilities_as_target():
    """A distribution per sample, as label smoothing and mixing make them."""
    criterion, features = build(), leaves()
    soft = torch.randn(6, CLASSES).softmax(-1)
    out = criterion(features, soft)
    torch.testing.assert_close(out.loss, plain(criterion, features, soft))
    one_hot, labels = build(evidence_power=0.0), torch.randint(CLASSES, (6,))
    other = copy.deepcopy(one_hot)
    first, second = leaves(), {}
    second.update({name: value.detach().requires_grad_() for name, value in first.items()})
    one_hot(first, labels).loss.backward()
    other(second, F.one_hot(labels, CLASSES).float()).loss.backward()
    assert_same_gradients(grads(second), grads(first), 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("loss", LOSSES)
def test_targets_of_another_precision_leave_the_losss_own(loss, dtype):
    """Label smoothing by NumPy gives float64; rounded probabilities sum to one only nearly, for 300 classes too."""
    criterion, features = build(classes=300, loss=loss), leaves()
    soft = (3 * torch.randn(6, 300)).softmax(-1).to(dtype)
    out = criterion(features, soft)
    assert out.loss.dtype == torch.float32
    torch.testing.assert_close(out.loss, plain(criterion, features, soft.float(), loss=loss))
    out.loss.backward()
    assert all(value.grad.isfinite().all() for value in features.values())


@pytest.mark.parametrize("loss", ["binary", "square"])
@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.float32])
def test_one_output_takes_targets_without_a_class_dimension(loss, dtype):
    criterion, features = build(classes=1, loss=loss), leaves()
    target = torch.randint(2, (6,)).to(dtype)
    out = criterion(features, target)
    torch.testing.assert_close(out.loss, plain(criterion, features, target.float()[:, None], loss=loss))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.long])
def test_labels_of_any_integer_type(dtype):
    out = build()(leaves(), torch.tensor([0, 1, 2, 0, 1, 2], dtype=dtype))
    assert out.loss.isfinite()


@pytest.mark.parametrize("factor", [0.125, 1 / 3, 1024.0, -1.0])
def test_a_factor_on_the_loss_is_a_factor_on_every_gradient(factor):
    """Exactly: the criterion's gradient is multiplied once, by what arrives in backward."""
    results = []
    for by in (1.0, factor):
        torch.manual_seed(1)
        criterion, features, target = build(), leaves(), targets("cross_entropy")
        (criterion(features, target).loss * by).backward()
        results.append((grads(features), gradients(criterion)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other, {name: value * factor for name, value in one.items()})
    torch.testing.assert_close(
        results[1][0], {name: value * factor for name, value in results[0][0].items()}, rtol=1e-6, atol=0
    )


def test_a_second_backward_adds_the_same_again():
    criterion, features, target = build(), leaves(), targets("cross_entropy")
    out = criterion(features, target)
    out.loss.backward(retain_graph=True)
    once = {name: value.clone() for name, value in grads(features).items()}
    out.loss.backward()
    torch.testing.assert_close(grads(features), {name: 2 * value for name, value in once.items()}, rtol=0, atol=0)


def test_the_loss_may_be_one_term_of_many():
    """Another term on the same features adds its own gradient."""
    criterion, features, target = build().eval(), leaves(), targets("cross_entropy")
    criterion(features, target).loss.backward()
    alone = {name: value.clone() for name, value in grads(features).items()}
    again = {name: value.detach().requires_grad_() for name, value in features.items()}
    penalty = sum(value.square().sum() for value in again.values())
    (0.5 * criterion(again, target).loss + penalty).backward()
    wanted = {name: 0.5 * alone[name] + 2 * features[name].detach() for name in alone}
    torch.testing.assert_close(grads(again), wanted)


def test_autograd_grad_gives_what_backward_gives():
    criterion, features, target = build().eval(), leaves(), targets("cross_entropy")
    got = torch.autograd.grad(criterion(features, target).loss, list(features.values()))
    criterion(features, target).loss.backward()
    torch.testing.assert_close(got, tuple(grads(features).values()), rtol=0, atol=0)


def test_every_reading_gives_another_gradient():
    """None of the options is read by nobody."""
    options = [
        {"unimodal_weight": 0.5}, {"evidence_power": 1.0}, {"scale": 1.0}, {"posterior": "diagonal"},
        {"posterior": "full"}, {"curvature": "batch"}, {"curvature": "batch", "posterior": "lowrank"},
        {"centre": "newton"}, {"moments": "monte_carlo"}, {"fusion": "average"}, {"reference": "power"},
        {"weights": "source"}, {"rescale": "sample"}, {"rescale": "none"}, {"dataset_size": 1000},
        {"prior_precision": 10.0}, {"variance_floor": 10.0}, {"decay": 0.1}, {"refresh": 2},
    ]  # fmt: skip
    results = [after_steps(**readings) for readings in [{}, *options]]
    for one, other in itertools.combinations(range(len(results)), 2):
        same = torch.allclose(results[one], results[other], rtol=1e-4, atol=0)
        assert not same, f"{[{}, *options][one]} and {[{}, *options][other]} give the same gradient"


def after_steps(seed=0, **readings):
    torch.manual_seed(1)
    criterion = build(dict.fromkeys(WIDTHS, 4), generator=torch.Generator().manual_seed(seed), **readings)
    for _ in range(3):
        features = leaves(widths=dict.fromkeys(WIDTHS, 4))
        criterion(features, targets("cross_entropy")).loss.backward()
    return torch.cat([value.grad.flatten() for value in features.values()])


def test_draws_come_from_the_generator_that_was_passed_in():
    same, again, other = (after_steps(seed, moments="monte_carlo", draws=8) for seed in (0, 0, 1))
    torch.testing.assert_close(same, again, rtol=0, atol=0)
    assert not torch.allclose(same, other, rtol=1e-3)
    criterion = build(moments="monte_carlo", draws=8, generator=torch.Generator())
    features, target = leaves(), targets("cross_entropy")
    before = torch.random.get_rng_state()
    criterion(features, target).loss.backward()
    torch.testing.assert_close(torch.random.get_rng_state(), before, rtol=0, atol=0)


@pytest.mark.parametrize("joined", [True, False], ids=["trained", "fresh"])
def test_eval_mode_calibrates_without_learning(joined):
    """Gradients at the features (for saliency, say) are there in eval mode; the state does not move."""
    criterion = build()
    if joined:
        for _ in range(3):
            criterion(leaves(), targets("cross_entropy"))
    criterion.eval()
    before = copy.deepcopy(criterion.state_dict())
    features = leaves()
    criterion(features, targets("cross_entropy")).loss.backward()
    assert all((value.grad != 0).any() for value in features.values())
    torch.testing.assert_close(criterion.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_there_is_a_loss_and_no_learning(context):
    criterion, features, target = build(), leaves(), targets("cross_entropy")
    before = copy.deepcopy(criterion.state_dict())
    with context():
        out = criterion(features, target)
    torch.testing.assert_close(out.loss, plain(criterion, features, target).detach())
    assert not out.loss.requires_grad
    assert out.diagnostics.summary() == {}
    torch.testing.assert_close(criterion.state_dict(), before, rtol=0, atol=0)


def test_diagnostics_are_detached_and_made_on_reading():
    criterion, features, target = build(), leaves(), targets("cross_entropy")
    diagnostics = criterion(features, target, masks()).diagnostics
    assert set(diagnostics.conflict) == set(WIDTHS)
    for trace in diagnostics.traces.values():
        assert not trace.calibrated.requires_grad
    summary = diagnostics.summary()
    assert all(isinstance(value, float) for value in summary.values())
    assert {name.split("/")[0] for name in summary} == set(WIDTHS)
