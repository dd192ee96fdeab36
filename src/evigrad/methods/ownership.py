"""Which parameter belongs to which encoder."""

from __future__ import annotations

from collections import Counter

from torch import nn

from evigrad.networks import MultimodalNetwork

__all__ = ["encoder_parameters"]


def encoder_parameters(network: MultimodalNetwork) -> dict[str, list[nn.Parameter]]:
    """θ_m: the trainable parameters that encoder m shares with no other encoder, head or fusion.

    Ownership is by module and not by a substring of the parameter's name, so wrappers and the modality's name
    do not matter. A parameter shared between owners belongs to none of them: no modality may edit its
    gradient.

    Example:
        >>> from evigrad.networks import build_network
        >>> network = build_network({"sound": (4,), "image": (6,)}, classes=3)
        >>> [tuple(p.shape) for p in encoder_parameters(network)["image"]]
        [(128, 6), (128,), (64, 128), (64,)]
    """
    owners = [*network.encoders.values(), *network.heads.values(), network.fusion]
    counts = Counter(id(parameter) for owner in owners for parameter in owner.parameters())
    return {
        name: [
            parameter for parameter in encoder.parameters() if parameter.requires_grad and counts[id(parameter)] == 1
        ]
        for name, encoder in network.encoders.items()
    }
