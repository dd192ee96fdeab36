"""What a caller hands in, checked and flattened to samples."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from evigrad.calibration.errors import NonFiniteError, nearest


@dataclass(frozen=True)
class Inputs:
    """B samples: features [B, K] (zero where absent), target and presence; ``shape`` is what B was flattened from."""

    features: dict[str, Tensor]
    target: Tensor
    present: dict[str, Tensor]
    shape: torch.Size


def read(
    features: Mapping[str, Tensor],
    target: Tensor,
    present: Mapping[str, Tensor] | None,
    widths: Mapping[str, int],
    loss: str,
    classes: int,
) -> Inputs:
    """Check shapes and names, flatten every leading dimension, and blank what is absent.

    A modality may be left out of ``features`` altogether: it is then absent for every sample.
    """
    present = {} if present is None else present
    _check_names(features, present, widths)
    shape = _leading_shape(features, widths)
    some = next(iter(features.values()))
    masks = {name: _mask(name, features, present, shape, some.device) for name in widths}
    flat = {}
    for name, width in widths.items():
        value = features[name].reshape(-1, width) if name in features else some.new_zeros(shape.numel(), width)
        missing = name in present or name not in features
        flat[name] = torch.where(masks[name][:, None], value, 0) if missing else value
    return Inputs(flat, _target(target, shape, loss, classes), masks, shape)


def check_values(inputs: Inputs, loss: str, classes: int) -> None:
    """An error that says which modality holds NaN or infinite features, or which labels are out of range.

    Reads one small tensor back from the device.
    """
    counts = [(~value.isfinite()).any(-1).sum() for value in inputs.features.values()]
    counts += _target_counts(inputs.target, loss, classes)
    *broken, wrong, unnormalised = torch.stack(counts).tolist()
    for name, count in zip(inputs.features, broken, strict=True):
        if count:
            raise NonFiniteError(
                f"`features['{name}']` holds NaN or infinite values in {count} of {len(inputs.features[name])} "
                "samples. Look for a diverged encoder (lower the learning rate, clip gradients) or for bad input data; "
                "a sample without this modality belongs into `present`."
            )
    _check_target(inputs.target, loss, classes, wrong, unnormalised)


def _target_counts(target: Tensor, loss: str, classes: int) -> list[Tensor]:
    """How many entries are out of range, and how many rows should sum to one and do not."""
    if not target.is_floating_point():
        wrong = ((target < 0) | (target >= classes)).sum()
    elif loss == "square":
        wrong = (~target.isfinite()).sum()
    else:
        wrong = (~((target >= 0) & (target <= 1))).sum()  # NaN is neither
    if not target.is_floating_point() or loss != "cross_entropy":
        return [wrong, torch.zeros_like(wrong)]
    # Rounding of bfloat16 leaves a sum off by 2^-9 at most.
    return [wrong, ((target.float().sum(-1) - 1).abs() > 0.01).sum()]


def _check_target(target: Tensor, loss: str, classes: int, wrong: int, unnormalised: int) -> None:
    if wrong and not target.is_floating_point():
        raise ValueError(
            f"`target` has {wrong} of {len(target)} labels outside 0..{classes - 1}: they run from {int(target.min())} "
            f"to {int(target.max())}, the heads have {classes} outputs. Renumber the classes from 0 or widen the heads."
        )
    if wrong and loss == "square":
        raise ValueError(f"`target` holds NaN or infinite values at {wrong} places. Check how the targets are made.")
    if wrong:
        raise ValueError(
            f"`target` holds {wrong} values outside 0..1 (or NaN), but with loss='{loss}' they are probabilities. "
            "Scale them to 0..1, or use loss='square' for values without bounds."
        )
    if unnormalised:
        raise ValueError(
            f"`target` has {unnormalised} of {len(target)} rows that do not sum to 1, but with loss='cross_entropy' "
            "each is a distribution over the classes. Divide each row by its sum, or use loss='binary' for several "
            "labels at once."
        )


def _check_names(features: Mapping[str, Tensor], present: Mapping[str, Tensor], widths: Mapping[str, int]) -> None:
    for argument, given in (("features", features), ("present", present)):
        if not isinstance(given, Mapping):
            raise ValueError(
                f"`{argument}` is a {type(given).__name__}, but it must name its modalities: {{name: tensor}} with the "
                f"names of the heads, {', '.join(widths)}."
            )
        for name, value in given.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"`{argument}['{name}']` is a {type(value).__name__}. Make it a torch.Tensor.")
            if name not in widths:
                raise ValueError(
                    f"`{argument}` names a modality without a head: {name!r}.{nearest(name, widths)} "
                    f"The heads are: {', '.join(widths)}."
                )
    if not features:
        raise ValueError(f"`features` is empty. Pass at least one of: {', '.join(widths)}.")


def _leading_shape(features: Mapping[str, Tensor], widths: Mapping[str, int]) -> torch.Size:
    shapes = {name: tuple(value.shape) for name, value in features.items()}
    for name, shape in shapes.items():
        if len(shape) < 2 or shape[-1] != widths[name]:
            raise ValueError(
                f"`features['{name}']` has shape {shape}, but its head takes [B, ..., {widths[name]}]. "
                "Pass the encoder's output before the head, samples first and features last."
            )
        if not features[name].is_floating_point():
            raise ValueError(
                f"`features['{name}']` holds {features[name].dtype}, but features are floating-point numbers. "
                "Pass the encoder's output, not its input."
            )
    # No sets of shapes: to hash a size that varies from batch to batch would make the compiler take it for a constant.
    shape = next(iter(features.values())).shape[:-1]
    if any(value.shape[:-1] != shape for value in features.values()):
        raise ValueError(
            f"`features` disagree on the number of samples: {shapes}. All but the last dimension must be the same; "
            "a sample without some modality still needs a row (its `present` says that it is absent)."
        )
    if shape.numel() == 0:
        raise ValueError(f"`features` hold no samples: {shapes}. Skip empty batches.")
    return shape


def _mask(
    name: str,
    features: Mapping[str, Tensor],
    present: Mapping[str, Tensor],
    shape: torch.Size,
    device: torch.device,
) -> Tensor:
    if name not in present:
        return torch.full((shape.numel(),), name in features, dtype=torch.bool, device=device)
    mask = present[name]
    if mask.dtype != torch.bool or (mask.shape != shape and mask.shape != shape[:1]):
        raise ValueError(
            f"`present['{name}']` is {mask.dtype} with shape {tuple(mask.shape)}; it must be a torch.bool tensor with "
            f"shape {tuple(shape[:1])}, True where the sample has this modality."
        )
    if name not in features:
        return torch.zeros(shape.numel(), dtype=torch.bool, device=device)
    mask = mask.to(device)
    return mask.reshape(mask.shape + (1,) * (len(shape) - mask.dim())).expand(shape).reshape(-1)


def _target(target: Tensor, shape: torch.Size, loss: str, classes: int) -> Tensor:
    if not isinstance(target, Tensor):
        raise ValueError(f"`target` is a {type(target).__name__}. Make it a torch.Tensor.")
    if loss == "cross_entropy" and target.shape == shape and not target.is_floating_point():
        return target.reshape(-1).long()
    if target.shape == (*shape, classes) and (target.is_floating_point() or loss != "cross_entropy"):
        return target.reshape(-1, classes).float() if not target.is_floating_point() else target.reshape(-1, classes)
    if loss != "cross_entropy" and classes == 1 and target.shape == shape:
        return target.reshape(-1, 1).float() if not target.is_floating_point() else target.reshape(-1, 1)
    wanted = f"{(*shape, classes)}"
    if loss == "cross_entropy":
        wanted = f"integers of shape {tuple(shape)} (class indices) or floats of shape {wanted} (probabilities)"
    raise ValueError(
        f"`target` has shape {tuple(target.shape)} and dtype {target.dtype}; with loss='{loss}' it must be {wanted}."
    )
