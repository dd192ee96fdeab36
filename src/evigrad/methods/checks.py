"""What several methods ask of a network."""

from __future__ import annotations

from evigrad.networks import MultimodalNetwork

__all__ = ["needs_heads"]


def needs_heads(network: MultimodalNetwork, method: str) -> None:
    """Raise a ValueError unless every modality of ``network`` has a unimodal head."""
    lacking = [name for name in network.modalities if name not in network.heads]
    if lacking:
        raise ValueError(
            f"{method} trains a head for every modality, and `network` has none for {lacking}; "
            "build the MultimodalNetwork with its heads (the default of `heads`)."
        )
