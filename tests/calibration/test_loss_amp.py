"""Mixed precision: autocast in bfloat16 and float16, GradScaler, and models that are in half precision throughout."""

import copy

import pytest
import torch
from torch import nn

from evigrad import CalibratedLoss
from tests.zoo import Model, gradients, plain_training

HALVES = [torch.bfloat16, torch.float16]
# Relative rounding of one operation is 2^-9 and 2^-12; a dozen of them lie between input and gradient.
NEAR = {torch.bfloat16: 3e-2, torch.float16: 4e-3}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def apart(got, wanted):
    """Distance of two sets of gradients, relative to their length."""
    flat = [torch.cat([value.flatten().float() for value in one.values()]) for one in (got, wanted)]
    return float((flat[0] - flat[1]).norm() / flat[1].norm())


def step(model, dtype, scaler=None, batch=None):
    inputs, target = batch or model.batch(16)
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        features = model.encode(inputs)
        out = model.criterion(features, target)
    (scaler.scale(out.loss) if scaler else out.loss).backward()
    return features, out


@pytest.mark.parametrize(
    "readings", [{}, {"posterior": "diagonal", "reference": "power"}, {"curvature": "batch"}], ids=str
)
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_are_those_of_single_precision_up_to_rounding(dtype, readings):
    model = Model(**readings)
    exact = copy.deepcopy(model)
    features, out = step(model, dtype)
    step(exact, torch.float32)
    assert {value.dtype for value in features.values()} == {dtype}
    assert out.joint_logits.dtype == dtype
    assert out.loss.dtype == torch.float32
    assert {value.dtype for value in gradients(model).values()} == {torch.float32}
    assert apart(gradients(model), gradients(exact)) < NEAR[dtype]


@pytest.mark.parametrize("dtype", HALVES)
def test_the_features_gradient_has_their_dtype(dtype):
    model = Model()
    inputs, target = model.batch()
    leaves = {name: value.detach().to(dtype).requires_grad_() for name, value in model.encode(inputs).items()}
    with torch.autocast("cpu", dtype=dtype):
        model.criterion(leaves, target).loss.backward()
    assert {value.grad.dtype for value in leaves.values()} == {dtype}


@pytest.mark.parametrize("dtype", HALVES)
def test_statistics_are_those_of_the_same_features_in_single_precision(dtype):
    """They never enter half precision: rounding the features is all that autocast does to them."""
    model = Model(loss="square")  # whose curvature does not depend on the logits, which autocast rounds too
    twin = copy.deepcopy(model.criterion)
    for seed in range(3):
        inputs, labels = model.batch(8, seed)
        target = nn.functional.one_hot(labels, 3).float()
        with torch.autocast("cpu", dtype=dtype):
            features = model.encode(inputs)
            model.criterion(features, target)
        twin({name: value.detach().float() for name, value in features.items()}, target)
    ours, wanted = (one.calibration.state_dict() for one in (model.criterion, twin))
    assert {value.dtype for value in ours.values()} == {torch.float32, torch.int64}
    torch.testing.assert_close(ours, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("scale", [2.0**16, 2.0**-8])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_a_scaler_multiplies_every_gradient_by_exactly_its_scale(dtype, scale):
    """Evidence is not free of scale, so it must come from the loss before it is scaled: a power of two shows it."""
    model = Model()
    scaled = copy.deepcopy(model)
    step(model, dtype)
    step(scaled, dtype, torch.amp.GradScaler("cpu", init_scale=scale))
    got = {name: value / scale for name, value in gradients(scaled).items()}
    if scale > 1:  # small ones lose less in float16
        assert apart(got, gradients(model)) < NEAR.get(dtype, 1e-6)
    else:
        assert apart(got, gradients(model)) < (0.5 if dtype == torch.float16 else NEAR.get(dtype, 1e-6))
    if dtype != torch.float16:  # the others have exponents to spare
        torch.testing.assert_close(got, gradients(model), rtol=0, atol=0)


@pytest.mark.parametrize("joint", [False, True], ids=["joint_head", "joint"])
def test_late_training_in_float16(joint):
    """Gradients of 1e-7 are zero in float16; the scaler brings them through, the statistics never lose them."""
    model = Model()
    if joint:
        model.criterion = CalibratedLoss(model.heads, joint=Gated(), generator=torch.Generator())
    with torch.no_grad():  # predictions that are nearly certain
        for head in (*model.heads.values(), *[m for m in model.criterion.joint.modules() if isinstance(m, nn.Linear)]):
            head.weight.mul_(1e-3)
        for head in (*model.heads.values(), model.criterion.joint.output):
            head.bias.copy_(torch.tensor([12.0, 0.0, 0.0]))
    batch = (model.batch(16)[0], torch.zeros(16, dtype=torch.long))
    exact = copy.deepcopy(model)
    features, out = step(model, torch.float16, torch.amp.GradScaler("cpu", init_scale=2.0**16), batch)
    _, wanted = step(exact, torch.float32, None, batch)
    for name, value in features.items():
        assert value.dtype == torch.float16
        trace, other = out.diagnostics.traces[name], wanted.diagnostics.traces[name]
        assert 0 < other.joint_gradient.abs().max() < 1e-7
        for one, two in (
            (trace.joint_gradient, other.joint_gradient),
            (trace.calibrated, other.calibrated),
            (trace.update.joint.uncertainty, other.update.joint.uncertainty),
        ):
            assert float((one - two).norm() / two.norm()) < 0.05
    got = {name: value / 2.0**16 for name, value in gradients(model).items() if "encoders" in name}
    assert apart(got, {name: value for name, value in gradients(exact).items() if "encoders" in name}) < 0.05


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.output = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, features):
        return self.output(features["audio"] * self.gate(features["video"]).sigmoid())


@pytest.mark.parametrize("dtype", HALVES)
def test_a_joint_module_under_autocast(dtype):
    """Its Jacobian is taken in half precision, its moments are not: hundreds of squares are summed."""
    heads, joint = {name: nn.Linear(4, 3) for name in ("audio", "video")}, Gated()
    values, target = {name: torch.randn(16, 4) for name in heads}, torch.randint(3, (16,))
    traces = []
    for precision in (torch.float32, dtype):
        criterion = CalibratedLoss(heads, joint=joint, probes=1000, generator=torch.Generator().manual_seed(0))
        leaves = {name: value.to(precision, copy=True).requires_grad_() for name, value in values.items()}
        with torch.autocast("cpu", dtype=dtype, enabled=precision == dtype):
            out = criterion(leaves, target)
        out.loss.backward()
        assert {value.grad.dtype for value in leaves.values()} == {precision}
        traces.append(out.diagnostics.traces)
    for name in heads:
        exact, half = (one[name] for one in traces)
        assert half.calibrated.dtype == torch.float32
        for one, two in (
            (half.joint_gradient, exact.joint_gradient),
            (half.update.joint.log_evidence, exact.update.joint.log_evidence),
            (half.calibrated, exact.calibrated),
        ):
            assert float((one - two).norm() / two.norm()) < NEAR[dtype]


@pytest.mark.parametrize("dtype", HALVES)
def test_large_features_do_not_overflow(dtype):
    """Their squares do not fit into float16."""
    model = Model()
    inputs, target = model.batch()
    features = {name: (3e4 * torch.randn(6, 4)).to(dtype).requires_grad_() for name in inputs}
    with torch.autocast("cpu", dtype=dtype):
        out = model.criterion(features, target)
    assert out.diagnostics.traces["audio"].calibrated.isfinite().all()
    assert all(value.isfinite().all() for value in model.criterion.calibration.state_dict().values())


@pytest.mark.parametrize("dtype", HALVES)
def test_training_with_autocast_and_scaler_goes_as_in_single_precision(dtype):
    """No step is skipped, and the loss falls as far."""
    losses = {}
    for precision in (torch.float32, dtype):
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=precision == torch.float16, init_scale=2.0**12)
        batch = learnable(model)
        for _ in range(150):
            optimizer.zero_grad()
            _, out = step(model, precision, scaler, batch)
            scaler.step(optimizer)
            scaler.update()
        losses[precision] = float(out.loss.detach())
        if precision == torch.float16:
            assert scaler.get_scale() == 2.0**12
    with torch.no_grad():
        first = float(plain_training(Model(), *batch))
    assert losses[dtype] < 0.7 * first
    assert abs(losses[dtype] - losses[torch.float32]) < 0.01 * first


def learnable(model):
    inputs, _ = model.batch(64)
    return inputs, (inputs["audio"][:, 0] > 0).long() + (inputs["video"][:, 0] > 0).long()


def test_a_scaler_skips_a_step_that_overflowed_and_goes_on():
    """A scale that is far too large: gradients overflow, the scaler halves it, the statistics stay sound."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-12)
    before = copy.deepcopy(list(model.parameters()))
    for number in range(4):
        optimizer.zero_grad()
        step(model, torch.float16, scaler)
        scaler.step(optimizer)
        scaler.update()
        if number == 0:
            torch.testing.assert_close(list(model.parameters()), before, rtol=0, atol=0)
    assert scaler.get_scale() < 2.0**40
    assert not torch.equal(model.heads["audio"].weight, before[0])
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert all(value.isfinite().all() for value in gradients(model).values())


@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_in_half_precision_keeps_statistics_in_single(dtype):
    """`.to(dtype)` casts weights; sums over thousands of samples would stop growing (bfloat16 has 8 bits)."""
    criterion = CalibratedLoss({"audio": nn.Linear(4, 3)}, nn.Linear(4, 3), loss="square").to(dtype)
    assert {value.dtype for value in criterion.parameters()} == {dtype}
    twin = copy.deepcopy(criterion).float()
    for _ in range(300):
        features, target = torch.randn(32, 4).to(dtype), torch.randn(32, 3)
        criterion({"audio": features}, target)
        twin({"audio": features.float()}, target)
    ours, wanted = (one.calibration.state_dict() for one in (criterion, twin))
    assert {value.dtype for value in ours.values()} == {torch.float32, torch.int64}
    torch.testing.assert_close(ours, wanted, rtol=0, atol=0)
    assert ours["joint.count"] > 3000


@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_in_half_precision_trains(dtype):
    model = Model().to(dtype)
    inputs, target = model.batch(16)
    model({name: value.to(dtype) for name, value in inputs.items()}, target).loss.backward()
    assert {value.dtype for value in gradients(model).values()} == {dtype}
    assert all((value != 0).any() for value in gradients(model).values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_statistics_follow_to_double_and_back(dtype):
    criterion = Model().criterion.double().to(dtype)
    assert {value.dtype for value in criterion.calibration.state_dict().values()} == {dtype, torch.int64}
