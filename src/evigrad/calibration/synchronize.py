"""Sums over the processes of a distributed run."""

import torch
from torch import Tensor
from torch import distributed as dist


def distributed() -> bool:
    """Whether this process is one of several."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def summed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor summed over all processes, in one message."""
    dtype = torch.promote_types(torch.float32, max((t.dtype for t in tensors.values()), key=lambda d: d.itemsize))
    flat = torch.cat([tensor.detach().to(dtype).flatten() for tensor in tensors.values()])
    dist.all_reduce(flat)
    parts = torch.split(flat, [tensor.numel() for tensor in tensors.values()])
    return {
        name: part.view_as(tensor).to(tensor.dtype) for (name, tensor), part in zip(tensors.items(), parts, strict=True)
    }
