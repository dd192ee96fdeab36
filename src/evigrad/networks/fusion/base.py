"""What every fusion is."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evigrad.networks.names import check_names
from evigrad.networks.presence import mask_absent

__all__ = ["Fusion", "NoFusion"]


class Fusion(nn.Module):
    """Features of all modalities to joint logits, ending in one linear layer.

    Args:
        widths: name -> K_i, the number of features of each modality.
        classes: C.

    Attributes:
        linear: the last layer, an ``nn.Linear`` with C outputs.
    """

    linear: nn.Linear

    def __init__(self, widths: Mapping[str, int], classes: int) -> None:
        super().__init__()
        if not widths:
            raise ValueError("`widths` is empty; give {name: number of features} of at least one modality.")
        check_names(widths)
        self.widths = dict(widths)
        self.classes = classes

    def combine(self, features: dict[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
        """What the last layer reads, ``[B, K]``; absent rows of ``features`` are already zero."""
        raise NotImplementedError(f"{type(self).__name__} does not define `combine`; return [B, K] from it.")

    def forward(self, features: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None) -> Tensor:
        """Logits ``[B, C]`` of features ``[B, K_i]``; ``present`` (bool ``[B]``) masks absent samples."""
        missing = [name for name in self.widths if name not in features]
        if missing:
            raise ValueError(
                f"`features` lacks {missing}; give every modality of the fusion ({list(self.widths)}), with "
                "zeros and `present` False where it is absent."
            )
        ordered = mask_absent({name: features[name] for name in self.widths}, present)
        logits: Tensor = self.linear(self.combine(ordered, present))
        return logits


class NoFusion(nn.Module):
    """The place of a fusion in a network that has no joint head: logits that are all zero, no parameters."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, features: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None) -> Tensor:
        """Zeros ``[B, C]``."""
        first = next(iter(features.values()))
        return first.new_zeros(first.shape[0], self.classes)


def presence(features: Mapping[str, Tensor], present: Mapping[str, Tensor] | None) -> Tensor:
    """The masks of ``present`` as one bool tensor ``[B, M]``, in the order of ``features``."""
    columns = []
    for name, value in features.items():
        mask = None if present is None else present.get(name)
        columns.append(value.new_ones(len(value)).bool() if mask is None else mask)
    return torch.stack(columns, dim=1)
