"""One checkpoint, one file: tensors as safetensors, everything else as JSON in its header. Nothing is pickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evigrad.training.files import write_atomically

FORMAT = 1


def save_checkpoint(path: Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Write a checkpoint atomically; equal content gives equal bytes."""
    from safetensors.torch import save_file

    header = {"evigrad": json.dumps({"format": FORMAT, **values}, sort_keys=True)}
    separate = _separate(tensors)
    write_atomically(path, lambda temporary: save_file(separate, temporary, metadata=header))


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint onto the CPU; a missing or damaged one is an error that names the file."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint at {path}. Start the run first, or name another folder.")
    try:
        with safe_open(path, framework="pt") as stored:
            values = json.loads((stored.metadata() or {}).get("evigrad", "null"))
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged or not a checkpoint ({error}). Restore it from a copy.") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise ValueError(f"{path} has checkpoint format {found}; this version reads format {FORMAT}.")
    return tensors, values


def _separate(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU tensors that share no memory, which safetensors asks for (tied weights are stored twice)."""
    seen: set[int] = set()
    separate = {}
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        if value.numel() and (address := value.untyped_storage().data_ptr()) in seen:
            value = value.clone(memory_format=torch.contiguous_format)
        elif value.numel():
            seen.add(address)
        separate[name] = value
    return separate
