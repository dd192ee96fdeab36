"""A joint module of any kind: trained as usual, its gradient's moments taken back through its Jacobian."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from evigrad import CalibratedLoss
from evigrad.calibration.joint import Fusion
from tests.properties.criterion import assert_same_gradients
from tests.zoo import concatenated, gradients, plain_loss

K, C, B = 4, 3, 5
NAMES = ("audio", "video")


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.output = nn.Linear(K, C)

    def forward(self, features):
        return self.output(sum(features.values()))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(K, K)
        self.output = nn.Linear(K, C)

    def forward(self, features):
        return self.output(features["audio"] * self.gate(features["video"]).sigmoid())


class FiLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.film = nn.Linear(K, 2 * K)
        self.head = nn.Linear(K, C)

    def forward(self, features):
        factor, shift = self.film(features["audio"]).chunk(2, -1)
        return self.head(factor * features["video"] + shift)


class Attention(nn.Module):
    """Attention over one token a modality; absent ones are masked."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(K, 2, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, K))
        self.output = nn.Linear(K, C)

    def forward(self, features, present):
        tokens = torch.stack([features[name] for name in NAMES], 1)
        masked = ~torch.stack([present[name] for name in NAMES], 1)
        pooled, _ = self.attention(self.query.expand(len(tokens), -1, -1), tokens, tokens, key_padding_mask=masked)
        return self.output(pooled[:, 0])


class Perceptron(nn.Module):
    """Every sample's hidden features depend on the whole batch, and on a random mask."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2 * K, 7),
            nn.BatchNorm1d(7),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(7, 6),
            nn.Tanh(),
            nn.Linear(6, C),
        )

    def forward(self, features):
        return self.layers(torch.cat([features[name] for name in NAMES], -1))


class SecretConcatenation(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, features):
        return self.output(torch.cat([features[name] for name in NAMES], -1))


MODULES = (Sum, Gated, FiLM, Attention, Perceptron)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def build(joint, seed=0, **readings):
    heads = {name: nn.Linear(K, C) for name in NAMES}
    return CalibratedLoss(heads, joint=joint, generator=torch.Generator().manual_seed(seed), **readings)


def data(size=B):
    values = {name: torch.randn(size, K, requires_grad=True) for name in NAMES}
    return values, torch.randint(C, (size,))


def mask(size=B):
    return {"video": torch.arange(size) % 3 != 1}


def run(joint, features, present):
    """The module by itself, on what the criterion shows it."""
    everyone = dict.fromkeys(NAMES, torch.ones(len(features["audio"]), dtype=torch.bool)) | (present or {})
    return joint(features, everyone) if isinstance(joint, Attention) else joint(features)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", MODULES)
def test_value_and_gradients_of_heads_and_module_are_those_of_plain_training(kind, missing):
    criterion = build(kind())
    other = copy.deepcopy(criterion)
    features, target = data()
    present = mask() if missing else None
    torch.manual_seed(1)  # the same dropout
    out = criterion(features, target, present)
    torch.manual_seed(1)
    wanted = plain_loss(other.heads, lambda values: run(other.joint.module, values, present), features, target, present)
    torch.testing.assert_close(out.loss, wanted)
    out.loss.backward()
    wanted.backward()
    assert_same_gradients(gradients(criterion), gradients(other), 1e-5)  # float32
    torch.testing.assert_close(  # running means and the like: updated once
        dict(criterion.joint.module.named_buffers()), dict(other.joint.module.named_buffers()), rtol=0, atol=0
    )


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", MODULES)
def test_equal_evidence_is_plain_training(kind, missing):
    """The mean is exact: with s = 0 and γ = 1 the features get what autograd gives them."""
    criterion = build(kind(), evidence_power=0.0, scale=1.0)
    other = copy.deepcopy(criterion)
    features, target = data()
    again = {name: value.detach().requires_grad_() for name, value in features.items()}
    present = mask() if missing else None
    torch.manual_seed(1)
    criterion(features, target, present).loss.backward()
    torch.manual_seed(1)
    plain_loss(other.heads, lambda values: run(other.joint.module, values, present), again, target, present).backward()
    got = {name: value.grad for name, value in features.items()}
    assert_same_gradients(got, {name: value.grad for name, value in again.items()}, 1e-5)  # float32


def estimated_variance(criterion, features, target, present=None):
    """σ² of the joint gradient as the criterion saw it, out of the evidence (1/σ²)^s with s = 1."""
    traces = criterion(features, target, present).diagnostics.traces
    return torch.stack([(-traces[name].update.joint.log_evidence).exp() for name in NAMES])


def explicit_variance(joint, features, target, present=None, prior=1.0):
    """diag(G Cov Gᵀ), G the Jacobian of all pulled-back gradients at the output layer's weights; all by autograd."""
    hidden = []
    layer = [module for module in joint.modules() if isinstance(module, nn.Linear) and module.out_features == C][-1]
    handle = layer.register_forward_pre_hook(lambda _, args: hidden.append(args[0]))
    leaves = [features[name].detach().requires_grad_() for name in NAMES]
    run(joint, dict(zip(NAMES, leaves, strict=True)), present)
    handle.remove()
    theta = torch.cat([layer.weight, layer.bias[:, None]], 1).detach()
    inputs = torch.cat([hidden[0], torch.ones(len(target), 1, dtype=theta.dtype)], 1)

    def loss(weights):
        return F.cross_entropy(inputs.detach() @ weights.T, target, reduction="sum")

    precision = torch.autograd.functional.hessian(loss, theta).reshape(theta.numel(), -1)
    covariance = torch.linalg.inv(precision + prior * torch.eye(theta.numel(), dtype=theta.dtype))

    def gradient(weights):  # the module before the layer is fixed: what is pulled back is no function of its input
        residual = (inputs.detach() @ weights.T).softmax(-1) - F.one_hot(target, C)
        return residual @ weights[:, :-1]

    at_hidden = torch.autograd.functional.jacobian(gradient, theta).reshape(hidden[0].numel(), -1)  # [B·H, P]
    pulled = []
    for column in at_hidden.T:
        parts = torch.autograd.grad(hidden[0], leaves, column.view_as(hidden[0]), retain_graph=True, allow_unused=True)
        pulled.append(torch.stack([torch.zeros_like(leaves[0]) if part is None else part for part in parts]))
    jacobian = torch.stack(pulled, -1)  # [M, B, K, P]
    return torch.einsum("mbkp,pq,mbkq->mbk", jacobian, covariance, jacobian)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", MODULES)
def test_variance_against_an_explicit_jacobian(kind, missing):
    """Unbiased, with a relative standard error of at most sqrt(2/n); batch normalisation and masks included."""
    count = 2000
    readings = {"posterior": "full", "curvature": "batch", "evidence_power": 1.0, "variance_floor": 0.0}
    criterion = build(kind(), probes=count, **readings).double()
    features, target = data()
    features = {name: value.detach().double().requires_grad_() for name, value in features.items()}
    present = mask() if missing else None
    twin = copy.deepcopy(criterion.joint.module)
    torch.manual_seed(1)
    got = estimated_variance(criterion, features, target, present)
    torch.manual_seed(1)
    shown = {name: value.detach().clone() for name, value in features.items()}
    for name, here in (present or {}).items():
        shown[name][~here] = 0
    wanted = explicit_variance(twin, shown, target, present)
    everyone = dict.fromkeys(NAMES, torch.ones(B, dtype=torch.bool)) | (present or {})
    seen = torch.stack([everyone[name] for name in NAMES])[:, :, None].expand_as(wanted) & (wanted > 1e-12)
    error = (got[seen] / wanted[seen] - 1) * (count / 2) ** 0.5  # in standard errors, or less
    assert seen.sum() > 20
    assert error.abs().max() < 4.5, error  # 40 entries: a larger one has probability 3e-4
    assert error.square().mean() < 1.6  # many entries share their probes, so the mean square is loose
    assert error.mean().abs() < 1.5


def test_the_stated_error_holds_at_the_default_number_of_probes():
    """Over 200 seeds and all entries: no bias, and a standard deviation of at most sqrt(2/16)."""
    readings = {"posterior": "full", "curvature": "batch", "evidence_power": 1.0, "variance_floor": 0.0}
    joint = Gated().double()
    features, target = data()
    features = {name: value.detach().double().requires_grad_() for name, value in features.items()}
    wanted = explicit_variance(joint, features, target)
    errors = []
    for seed in range(200):
        criterion = build(joint, seed, **readings).double()
        errors.append(estimated_variance(criterion, features, target) / wanted - 1)
    errors = torch.stack(errors)
    stated = (2 / 16) ** 0.5
    assert errors.square().mean().sqrt() < 1.05 * stated
    assert errors.square().mean().sqrt() > 0.5 * stated  # the bound is no idle one
    assert errors.mean(0).abs().max() < 4.5 * stated / 200**0.5
    assert errors.mean().abs() < 0.035  # 4 standard errors; dividing out the probes' own mean would take off 1/16


@pytest.mark.parametrize(
    "readings",
    [
        {},
        {"curvature": "batch"},
        {"posterior": "diagonal"},
        {"loss": "binary"},
        {"loss": "square"},
        {"centre": "newton"},
    ],
    ids=str,
)
def test_a_module_that_is_secretly_a_concatenation_equals_the_joint_head(readings):
    """Each variance within the stated error, and with all evidence equal the very same gradient."""
    loss, count = readings.get("loss", "cross_entropy"), 4000
    features, target = data()
    if loss != "cross_entropy":
        target = torch.rand(B, C)
    output, heads = nn.Linear(2 * K, C), {name: nn.Linear(K, C) for name in NAMES}
    for power, tolerance in ((0.0, 1e-5), (1.0, 4.5 * (2 / count) ** 0.5)):
        options = {"evidence_power": power, "rescale": "none", "variance_floor": 0.0, **readings}
        direct = CalibratedLoss(heads, output, **options)
        probed = CalibratedLoss(
            heads,
            joint=SecretConcatenation(output),
            probes=count,
            generator=torch.Generator().manual_seed(0),
            **options,
        )
        one, other = (criterion(features, target) for criterion in (direct, probed))
        torch.testing.assert_close(one.loss, other.loss)
        for name in NAMES:
            first, second = one.diagnostics.traces[name], other.diagnostics.traces[name]
            torch.testing.assert_close(first.joint_gradient, second.joint_gradient)
            ratio = (first.update.joint.log_evidence - second.update.joint.log_evidence).exp()
            torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0, atol=max(tolerance, 1e-5))
            if power == 0.0:
                torch.testing.assert_close(first.calibrated, second.calibrated)


def test_monte_carlo_through_a_module():
    """Draws are pulled back one by one: against the explicit Jacobian with a posterior that is narrow."""
    joint = Gated().double()
    features, target = data()
    features = {name: value.detach().double().requires_grad_() for name, value in features.items()}
    count = 4000
    criterion = build(
        joint, posterior="full", curvature="batch", moments="monte_carlo", draws=count, evidence_power=1.0,
        variance_floor=0.0, prior_precision=1e4,
    ).double()  # fmt: skip
    wanted = explicit_variance(joint, features, target, prior=1e4)
    ratio = estimated_variance(criterion, features, target) / wanted
    # The sampling error, and what is beyond first order at a standard deviation of 0.01 for each weight.
    assert (ratio - 1).abs().max() < 4.5 * (2 / count) ** 0.5 + 0.02


def test_monte_carlo_shifts_the_mean_through_the_module():
    """A wide posterior moves the mean of the draws off the gradient at the weights; exactness is that of the draws."""
    joint = SecretConcatenation(nn.Linear(2 * K, C))
    heads = {name: nn.Linear(K, C) for name in NAMES}
    features, target = data()
    gradients_of = []
    for options in ({"joint_head": joint.output}, {"joint": joint}):
        generator = torch.Generator().manual_seed(0)
        criterion = CalibratedLoss(
            heads, **options, moments="monte_carlo", draws=20000, generator=generator, weights="source",
            evidence_power=0.0, rescale="none", scale=1.0,
        )  # fmt: skip
        out = criterion(features, target)
        gradients_of.append({name: out.diagnostics.traces[name].calibrated for name in NAMES})
    exact = {name: trace.unimodal_gradient + trace.joint_gradient for name, trace in out.diagnostics.traces.items()}
    for name in NAMES:
        size = exact[name].abs().max()
        shift = (gradients_of[0][name] - exact[name]).abs().max() / size
        torch.testing.assert_close(gradients_of[1][name] / size, gradients_of[0][name] / size, rtol=0, atol=0.02)
        assert shift > 0.1


def test_an_absent_modality_gets_nothing_and_gives_nothing():
    criterion = build(Attention())
    features, target = data()
    present = mask()
    criterion.eval()
    out = criterion(features, target, present)
    out.loss.backward()
    assert (features["video"].grad[~present["video"]] == 0).all()
    changed = {"audio": features["audio"], "video": features["video"].detach().clone()}
    changed["video"][~present["video"]] = 7.0
    torch.testing.assert_close(criterion(changed, target, present).joint_logits, out.joint_logits, rtol=0, atol=0)


def test_presence_reaches_a_module_that_asks_for_it_flat():
    seen = []

    class Curious(Sum):
        def forward(self, features, present):
            seen.append(present)
            return super().forward(features)

    criterion = build(Curious())
    features = {name: torch.randn(2, 3, K) for name in NAMES}
    seen.clear()
    criterion(features, torch.randint(C, (2, 3)), {"video": torch.tensor([True, False])})
    [present] = seen
    assert present["audio"].tolist() == [True] * 6
    assert present["video"].tolist() == [True] * 3 + [False] * 3


def test_a_module_that_ignores_a_modality_gives_it_the_unimodal_gradient_alone():
    class Deaf(Sum):
        def forward(self, features):
            return self.output(features["video"])

    criterion = build(Deaf(), weights="source")
    features, target = data()
    traces = criterion(features, target).diagnostics.traces
    assert (traces["audio"].joint_gradient == 0).all()
    cosine = F.cosine_similarity(traces["audio"].calibrated, traces["audio"].unimodal_gradient)
    assert (cosine > 0.9).all()


def test_building_a_criterion_leaves_the_module_as_it_was():
    """It is run on zeros to find its last layer: no running mean moves, no mode changes, no hook stays."""
    joint = Perceptron()
    joint.layers[3].eval()
    before = copy.deepcopy(joint.state_dict())
    modes = [module.training for module in joint.modules()]
    criterion = build(joint)
    torch.testing.assert_close(joint.state_dict(), before, rtol=0, atol=0)
    assert [module.training for module in joint.modules()] == modes
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in joint.modules())
    assert criterion.joint.output is joint.layers[-1]
    criterion(*data())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in joint.modules())


def test_a_module_may_overwrite_what_it_is_given():
    """An operation in place at its start changes neither the encoders' features nor what the heads see."""

    class InPlace(Sum):
        def forward(self, features):
            return self.output(sum(value.relu_() for value in features.values()))

    class OutOfPlace(Sum):
        def forward(self, features):
            return self.output(sum(value.relu() for value in features.values()))

    features, target = data()
    before = {name: value.detach().clone() for name, value in features.items()}
    joint, heads = InPlace(), {name: nn.Linear(K, C) for name in NAMES}
    twin = OutOfPlace()
    twin.load_state_dict(joint.state_dict())
    got = []
    for module in (joint, twin):
        leaves = {name: value.detach().clone().requires_grad_() for name, value in features.items()}
        CalibratedLoss(heads, joint=module, generator=torch.Generator())(leaves, target).loss.backward()
        torch.testing.assert_close({name: value.detach() for name, value in leaves.items()}, before, rtol=0, atol=0)
        got.append({name: value.grad for name, value in leaves.items()})
    torch.testing.assert_close(*got, rtol=0, atol=0)


def test_the_output_layer_may_be_named():
    class Warm(Sum):
        def forward(self, features):
            return self.output(sum(features.values())).clone()

    criterion = build(Warm(), joint_output="output")
    assert isinstance(criterion.joint, Fusion)
    assert criterion.joint.output is criterion.joint.module.output


def test_a_module_learns():
    """150 steps bring the joint loss to a tenth of what it was."""
    criterion = build(FiLM())
    encoders = nn.ModuleDict({name: nn.Linear(6, K) for name in NAMES})
    optimizer = torch.optim.Adam([*criterion.parameters(), *encoders.parameters()], lr=0.03)
    inputs = {name: torch.randn(60, 6) for name in NAMES}
    target = (inputs["audio"][:, 0] > 0).long() + (inputs["video"][:, 0] > 0).long()
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        out = criterion({name: encoders[name](value) for name, value in inputs.items()}, target)
        out.loss.backward()
        optimizer.step()
        losses.append(float(F.cross_entropy(out.joint_logits.detach(), target)))
    assert losses[-1] < 0.1 * losses[0]


def test_joint_head_is_the_concatenation_in_the_order_of_the_heads():
    heads = {"video": nn.Linear(2, C), "audio": nn.Linear(3, C)}
    output = nn.Linear(5, C)
    criterion = CalibratedLoss(heads, output)
    features = {"audio": torch.randn(B, 3), "video": torch.randn(B, 2)}
    out = criterion(features, torch.randint(C, (B,)))
    torch.testing.assert_close(out.joint_logits, concatenated(heads, output)(features))
    torch.testing.assert_close(out.joint_logits, output(torch.cat([features["video"], features["audio"]], 1)))


def test_a_sample_without_any_modality_has_a_loss_but_no_curvature():
    """Batch normalisation makes its loss a function of the others' features; a posterior has seen nothing of it."""
    features, target = data()
    here = torch.arange(B) < 3
    present = dict.fromkeys(NAMES, here)
    criterion = build(Perceptron(), evidence_power=0.0, scale=1.0, posterior="full")
    criterion.joint.module.layers[3].p = 0.0
    other = copy.deepcopy(criterion)
    hidden = []
    criterion.joint.output.register_forward_pre_hook(lambda _, args: hidden.append(args[0].detach()))
    criterion(features, target, present).loss.backward()
    got = {name: value.grad.clone() for name, value in features.items()}
    again = {name: value.detach().requires_grad_() for name, value in features.items()}
    plain_loss(other.heads, other.joint.module, again, target, present).backward()
    assert_same_gradients(got, {name: value.grad for name, value in again.items()}, 1e-5)  # float32
    seen = torch.cat([hidden[0], torch.ones(B, 1)], 1)[here]
    probabilities = (hidden[0] @ other.joint.output.weight.T + other.joint.output.bias).softmax(-1)[here]
    curvature = torch.diag_embed(probabilities) - probabilities[:, :, None] * probabilities[:, None, :]
    wanted = torch.einsum("bce,bd,bk->cdek", curvature, seen, seen)
    torch.testing.assert_close(criterion.calibration.joint.sum_curvature, wanted)
    assert criterion.calibration.joint.count == 3


@pytest.mark.parametrize("moments", ["monte_carlo", "exact"])
def test_draws_through_a_module_vary_about_their_own_mean(moments):
    """Twenty outputs of weight zero: their random weights shift the mean gradient by several standard deviations."""
    outputs, count = 20, 2000
    output, heads = nn.Linear(2 * K, outputs), {name: nn.Linear(K, outputs) for name in NAMES}
    nn.init.zeros_(output.weight)
    nn.init.zeros_(output.bias)
    features, target = data()[0], torch.zeros(B, outputs)
    options = {"loss": "square", "evidence_power": 1.0, "variance_floor": 0.0}
    closed = CalibratedLoss(heads, output, moments="exact", **options)
    drawn = CalibratedLoss(
        heads, joint=SecretConcatenation(output), moments=moments, draws=count,
        generator=torch.Generator().manual_seed(0), **options,
    )  # fmt: skip
    ratio = estimated_variance(drawn, features, target) / estimated_variance(closed, features, target)
    # The standard error of a variance is sqrt(2/n), 3.2 %, and somewhat more for products of normal variables.
    assert (ratio - 1).abs().max() < 0.25
    assert (ratio.mean() - 1).abs() < 0.05
