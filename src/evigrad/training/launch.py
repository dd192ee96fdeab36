"""A launched Lightning Fabric from a :class:`~evigrad.training.Hardware`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evigrad.training.config import Hardware

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launch(hardware: Hardware) -> Fabric:
    """Start (or join, under torchrun and SLURM) the processes that ``hardware`` asks for.

    ``python -m torch.distributed.run --nproc-per-node 4 script.py`` and ``srun python script.py`` are recognised by
    their environment; ``devices`` and ``nodes`` must then say the same numbers.
    """
    fabric = _fabric(hardware)
    fabric.launch()
    return fabric


def _fabric(hardware: Hardware) -> Fabric:
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise ImportError(
            "training needs Lightning Fabric, which isn't installed. Run: pip install 'evigrad[train]'"
        ) from error
    settings: Any = {
        "accelerator": _accelerator(hardware.accelerator),
        "devices": hardware.devices,
        "num_nodes": hardware.nodes,
        "strategy": hardware.strategy,
        "precision": hardware.precision,
    }
    try:
        return Fabric(**settings)
    except (ValueError, RuntimeError, ModuleNotFoundError) as error:
        raise ValueError(
            f"this machine can't run hardware={hardware}: {error} "
            "Use accelerator='auto', devices=1, strategy='auto' for whatever is here."
        ) from error


def _accelerator(name: str) -> str:
    """What ``auto`` stands for, which is never one of Apple's GPUs: sums and decompositions here have 64 bits."""
    import torch

    if name == "mps":
        raise ValueError("accelerator='mps' has no 64-bit numbers, which training needs. Use accelerator='cpu' here.")
    if name == "auto" and torch.backends.mps.is_available():
        return "cpu"
    return name
