"""Checks of hyper-parameters and networks that several methods share."""

from __future__ import annotations

from evigrad.networks import MultimodalNetwork

__all__ = ["at_least", "needs_heads"]


def at_least(argument: str, value: float, lowest: float, exclusive: bool = False) -> float:
    """``value``, or a ValueError when it is below ``lowest`` (or equals it, if ``exclusive``) or is NaN."""
    if value > lowest or (value == lowest and not exclusive):
        return value
    bound = f"greater than {lowest:g}" if exclusive else f"at least {lowest:g}"
    raise ValueError(f"`{argument}` must be {bound} and is {value!r}; choose a value in that range.")


def needs_heads(network: MultimodalNetwork, method: str) -> None:
    """Raise a ValueError unless every modality of ``network`` has a unimodal head."""
    lacking = [name for name in network.modalities if name not in network.heads]
    if lacking:
        raise ValueError(
            f"{method} trains a head for every modality, and `network` has none for {lacking}; "
            "build the MultimodalNetwork with its heads (the default of `heads`)."
        )
