"""Taking gradients out of ``.grad``, putting them back, and averaging them over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evigrad.methods.base import Surgery

__all__ = ["Gradients", "put", "reduce_gradients", "take"]

Gradients = dict[nn.Parameter, Tensor]


def take(parameters: Sequence[nn.Parameter]) -> Gradients:
    """The gradients of ``parameters`` that have one; all are left without."""
    taken = {parameter: parameter.grad for parameter in parameters if parameter.grad is not None}
    put(parameters, {})
    return taken


def put(parameters: Sequence[nn.Parameter], gradients: Mapping[nn.Parameter, Tensor]) -> None:
    """Make ``gradients`` the gradients of ``parameters``; those it does not hold are left without."""
    for parameter in parameters:
        parameter.grad = gradients.get(parameter)


def reduce_gradients(parameters: Sequence[nn.Parameter], gradients: Gradients, surgery: Surgery) -> Gradients:
    """The mean over ranks, in one exchange; a rank without a gradient counts as zero.

    Every rank sends every parameter: were the list to depend on which gradients a rank happens to have, the
    ranks would add up different things. A parameter that no rank has a gradient for keeps none.
    """
    if surgery.world_size == 1 or not parameters:
        return gradients
    pieces = [gradients.get(parameter, torch.zeros_like(parameter)).reshape(-1) for parameter in parameters]
    has = pieces[0].new_tensor([parameter in gradients for parameter in parameters])
    mean = surgery.all_reduce(torch.cat([has, *pieces]), "mean")
    has, *means = torch.split(mean, [len(parameters), *(parameter.numel() for parameter in parameters)])
    return {
        parameter: piece.view_as(parameter).to(parameter.dtype)
        for parameter, piece, anyone in zip(parameters, means, (has > 0).tolist(), strict=True)
        if anyone
    }
