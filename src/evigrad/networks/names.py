"""Names of modalities that PyTorch can use for modules and parameters."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

__all__ = ["check_names"]


def check_names(names: Iterable[str]) -> None:
    """Raise a ValueError at the first name that cannot be a key of a module's or parameter's dictionary."""
    for name in names:
        # of instances: "training" is an attribute of none of the classes
        if not name or "." in name or hasattr(nn.ModuleDict(), name) or hasattr(nn.ParameterDict(), name):
            raise ValueError(
                f"{name!r} cannot be a modality's name: it must hold no dot and must not be an attribute of "
                "torch.nn.ModuleDict or torch.nn.ParameterDict; rename it, to "
                f"{(name.replace('.', '_') or 'some') + '_input'!r} say."
            )
