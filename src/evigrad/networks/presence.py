"""Encoding only what is there: absent samples must not touch features, statistics or gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["encode_present", "mask_absent", "zero_touching"]


def encode_present(encoder: nn.Module, inputs: Tensor, present: Tensor | None) -> Tensor:
    """Features ``[B, K]`` of the present rows of ``inputs``, zero in the other rows.

    While training only the present rows are run, so that BatchNorm never sees an absent one; where a single
    value is left to normalise, which has no spread, its running statistics are used and kept. In evaluation
    all rows are run with absent ones blanked: rows do not interact there, and static shapes keep the network
    exportable.
    """
    if present is None:
        return _run(encoder, inputs)
    if not encoder.training:
        shaped = present.view(-1, *[1] * (inputs.dim() - 1))
        features = _run(encoder, torch.where(shaped, inputs, torch.zeros_like(inputs)))
        return torch.where(present[:, None], features, torch.zeros_like(features))
    if bool(present.all()):
        return _run(encoder, inputs)
    rows = present.nonzero().squeeze(1)
    if len(rows) == 0:
        return zero_touching(encoder, len(inputs), inputs.device)
    features = _run(encoder, inputs[rows])
    return features.new_zeros(len(inputs), features.shape[1]).index_copy(0, rows, features)


def zero_touching(encoder: nn.Module, batch: int, device: torch.device) -> Tensor:
    """Zero features ``[B, width]`` whose backward gives every parameter of ``encoder`` a zero gradient.

    A rank of a DDP group whose batch lacks a modality must still report its parameters, or the others wait
    for ever.
    """
    dtype = next((p.dtype for p in encoder.parameters() if p.is_floating_point()), None)
    zero = torch.zeros(batch, int(encoder.width), device=device, dtype=dtype)  # type: ignore[arg-type]
    for parameter in encoder.parameters():
        if parameter.requires_grad:
            # an empty slice: its sum is 0 even where a weight is infinite
            zero = zero + parameter.reshape(-1)[:0].sum()
    return zero


def mask_absent(features: Mapping[str, Tensor], present: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """``features`` with the rows of absent samples set to zero, without a gradient into them.

    Example:
        >>> z = torch.tensor([[1.0, 2.0], [float("nan"), 3.0]])
        >>> mask_absent({"sound": z}, {"sound": torch.tensor([True, False])})["sound"]
        tensor([[1., 2.],
                [0., 0.]])
    """
    if present is None:
        return dict(features)
    return {
        name: torch.where(present[name][:, None], value, torch.zeros_like(value)) if name in present else value
        for name, value in features.items()
    }


def _run(encoder: nn.Module, inputs: Tensor) -> Tensor:
    if encoder.training and len(inputs) == 1:
        with _lone_values_normalised(encoder):
            lone: Tensor = encoder(inputs)
        return lone
    features: Tensor = encoder(inputs)
    return features


@contextmanager
def _lone_values_normalised(encoder: nn.Module) -> Iterator[None]:
    """In here a BatchNorm that gets one value per channel, which has no spread, uses its running statistics.

    Where modalities are missing, a batch with one sample of some modality is a matter of time, and PyTorch's
    error would end the run.
    """
    # SyncBatchNorm is no such class: its statistics are those of all ranks, which wait for each other
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    norms = [layer for layer in encoder.modules() if isinstance(layer, kinds) and layer.training]
    handles = [layer.register_forward_pre_hook(_evaluate_if_lone) for layer in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer in norms:
            layer.training = True


def _evaluate_if_lone(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    layer.training = inputs[0].numel() > inputs[0].shape[1]
