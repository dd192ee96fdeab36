"""Section 8 of the method sheet as asserts on `CalibratedLoss`; every problem is a float64 `Batch`."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evigrad.calibration import CalibratedLoss
from tests.oracles.problems import calibrated, criterion_for, masks
from tests.oracles.update import Batch, Head, spans

Gradients = dict[str, Tensor]


def plain_loss(criterion: CalibratedLoss, batch: Batch, features: Gradients, loss: str, weight: float) -> Tensor:
    """The ordinary criterion, L_fusion + φ Σ L_uni, on the same heads; absent features are zero."""
    shown = {}
    for name, value in features.items():
        shown[name] = torch.where(torch.tensor(batch.present[name])[:, None], value, torch.zeros_like(value))
    total = per_sample(loss, criterion.joint.output(torch.cat([shown[name] for name in batch.heads], 1)), batch.target)
    for name, value in shown.items():
        own = per_sample(loss, criterion.heads[name](value), batch.target)
        total = total + weight * own * torch.tensor(batch.present[name])
    return total.mean()


def per_sample(loss: str, logits: Tensor, target: Tensor) -> Tensor:
    if loss == "cross_entropy":
        return F.cross_entropy(logits, target, reduction="none")
    if loss == "binary":
        return F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(1)
    return F.mse_loss(logits, target, reduction="none").mean(1)


def uniform_gradients(criterion: CalibratedLoss, batch: Batch, loss: str, weight: float) -> Gradients:
    leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
    total = plain_loss(criterion, batch, leaves, loss, weight)
    return dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))


def assert_same_gradients(got: Gradients, wanted: Gradients, tolerance: float = 1e-9) -> None:
    """Equal up to ``tolerance`` times the largest entry of each modality's gradient."""
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        assert got[name].isfinite().all(), f"the gradient of {name} is not finite: {got[name]}"
        scale = max(float(value.abs().max()), 1e-300)
        error = float((got[name] - value).abs().max()) / scale
        assert error < tolerance, f"{name}: relative error {error:.2e}\ngot {got[name]}\nwanted {value}"


def assert_equal_evidence_is_uniform_training(batch: Batch, loss: str = "cross_entropy", **readings: Any) -> None:
    """1. With s = 0, the batch's norm restored, γ = 1 and the mean at the weights nothing is changed."""
    weight = readings.get("unimodal_weight", 1.0)
    settings = {"loss": loss, "evidence_power": 0.0, "rescale": "batch", "scale": 1.0, "centre": "weights"}
    criterion = criterion_for(batch, **(readings | settings))
    assert_same_gradients(calibrated(criterion, batch), uniform_gradients(criterion, batch, loss, weight))


def assert_heads_train_as_usual(batch: Batch, loss: str = "cross_entropy", **readings: Any) -> None:
    """3. The loss has the ordinary value and the heads' gradients are the ordinary ones."""
    weight = readings.get("unimodal_weight", 1.0)
    criterion = criterion_for(batch, loss=loss, **readings)
    leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
    out = criterion(leaves, batch.target, masks(batch))
    ours = torch.autograd.grad(out.loss, list(criterion.parameters()))
    plain = plain_loss(criterion, batch, batch.features, loss, weight)
    theirs = torch.autograd.grad(plain, list(criterion.parameters()))
    torch.testing.assert_close(out.loss, plain)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def assert_samples_permute(batch: Batch, order: list[int], **readings: Any) -> None:
    """5. Another order of the samples gives the same gradients in that order."""
    moved = replace(
        batch,
        features={name: value[order] for name, value in batch.features.items()},
        target=batch.target[order],
        present={name: [mask[t] for t in order] for name, mask in batch.present.items()},
    )
    before = calibrated(criterion_for(batch, **readings), batch)
    after = calibrated(criterion_for(moved, **readings), moved)
    assert_same_gradients(after, {name: value[order] for name, value in before.items()})


def assert_dimensions_permute(batch: Batch, **readings: Any) -> None:
    """5. Reversing the feature dimensions, and the heads' columns with them, reverses the gradients."""

    def flip(head: Head) -> Head:
        return head[0].flip(1), head[1]

    weight, bias = batch.joint
    columns = torch.cat([torch.arange(*span).flip(0) for span in spans(batch).values()])
    moved = replace(
        batch,
        heads={name: flip(head) for name, head in batch.heads.items()},
        joint=(weight[:, columns], bias),
        features={name: value.flip(1) for name, value in batch.features.items()},
    )
    before = calibrated(criterion_for(batch, **readings), batch)
    after = calibrated(criterion_for(moved, **readings), moved)
    assert_same_gradients(after, {name: value.flip(1) for name, value in before.items()})


def assert_modalities_permute(batch: Batch, **readings: Any) -> None:
    """5. The order of the modalities, and of the joint head's blocks with them, does not matter."""
    names = list(reversed(batch.heads))
    weight, bias = batch.joint
    blocks = spans(batch)
    moved = replace(
        batch,
        heads={name: batch.heads[name] for name in names},
        joint=(torch.cat([weight[:, slice(*blocks[name])] for name in names], 1), bias),
        features={name: batch.features[name] for name in names if name in batch.features},
    )
    before = calibrated(criterion_for(batch, **readings), batch)
    after = calibrated(criterion_for(moved, **readings), moved)
    assert_same_gradients(after, {name: before[name] for name in moved.features})


def assert_outer_factor_passes_through(batch: Batch, factor: float, **readings: Any) -> None:
    """6. ``loss * factor`` multiplies the encoders' gradients by exactly that, through a real encoder too."""
    whole, scaled = {}, {}
    for result, by in ((whole, 1.0), (scaled, factor)):
        criterion = criterion_for(batch, **readings)
        encoders = identity_encoders(batch)
        features = {name: encoders[name](value) for name, value in batch.features.items()}
        (criterion(features, batch.target, masks(batch)).loss * by).backward()
        result.update({name: encoder.weight.grad for name, encoder in encoders.items()})
    assert_same_gradients(scaled, {name: factor * value for name, value in whole.items()}, tolerance=1e-12)


def identity_encoders(batch: Batch) -> dict[str, nn.Linear]:
    encoders = {}
    for name, value in batch.features.items():
        encoder = nn.Linear(value.shape[1], value.shape[1], bias=False).double()
        nn.init.eye_(encoder.weight)
        encoders[name] = encoder
    return encoders


def assert_finite(batch: Batch, **readings: Any) -> None:
    """4 and 9. Gradients are finite, and zero exactly where a modality is absent."""
    criterion = criterion_for(batch, **readings)
    for name, value in calibrated(criterion, batch).items():
        assert value.isfinite().all(), f"the gradient of {name} is not finite: {value}"
        absent = [not here for here in batch.present[name]]
        assert (value[absent] == 0).all()
