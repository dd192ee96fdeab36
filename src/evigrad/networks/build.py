"""A network from names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from evigrad.calibration.errors import choose
from evigrad.networks.encoders import ENCODERS
from evigrad.networks.fusion import FUSIONS
from evigrad.networks.initialisation import Scheme, initialise
from evigrad.networks.network import MultimodalNetwork
from evigrad.networks.options import check_options

__all__ = ["build_encoder", "build_network"]

_BY_RANK = {1: "mlp", 2: "sequence", 3: "small_cnn", 4: "small_cnn"}


def build_encoder(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The encoder called ``name`` for samples of ``shape``.

    ``"auto"`` goes by the number of axes: ``(features,)`` an MLP, ``(length, features)`` a transformer,
    ``(channels, height, width)`` and ``(channels, frames, height, width)`` the small CNN. Text must be asked
    for.
    """
    shape = tuple(int(size) for size in shape)
    if name == "auto":
        name = _BY_RANK.get(len(shape), "mlp")
    kind = ENCODERS[choose("encoder", name, ENCODERS)]
    check_options(kind, name, options, own=1)
    return kind(shape, **options)


def build_network(
    shapes: Mapping[str, tuple[int, ...]],
    classes: int,
    encoders: str | Mapping[str, str] = "auto",
    fusion: str = "concatenation",
    encoder_options: Mapping[str, Mapping[str, Any]] | None = None,
    fusion_options: Mapping[str, Any] | None = None,
    initialisation: Scheme | None = None,
    seed: int = 0,
) -> MultimodalNetwork:
    """A network with an encoder and a head for every modality, and a fusion.

    Args:
        shapes: name -> shape of one sample, such as a data set's ``modalities``.
        classes: C.
        encoders: one name for all (``"auto"``, ``"mlp"``, ``"small_cnn"``, ``"resnet18"``, ``"sequence"``,
            ``"text"``), or name of modality -> name of encoder; a modality left out is ``"auto"``.
        fusion: ``"concatenation"``, ``"sum"``, ``"film"``, ``"gated"``, ``"low_rank_tensor"`` or
            ``"attention"``.
        encoder_options: name of modality -> keywords of its encoder.
        fusion_options: keywords of the fusion.
        initialisation: draw all weights by :func:`initialise`; None keeps each layer's own start.
        seed: of the weights, which depend on nothing else; torch's global generator is left as it was.

    Example:
        >>> network = build_network({"sound": (1, 28, 28), "words": (16,)}, classes=3, encoders={"words": "text"})
        >>> type(network.encoders["sound"]).__name__, type(network.encoders["words"]).__name__
        ('SmallCNN', 'TextEncoder')
    """
    options = encoder_options or {}
    chosen = {name: encoders if isinstance(encoders, str) else encoders.get(name, "auto") for name in shapes}
    _check_names(shapes, {} if isinstance(encoders, str) else encoders, "encoders")
    _check_names(shapes, options, "encoder_options")
    joining = FUSIONS[choose("fusion", fusion, FUSIONS)]
    check_options(joining, fusion, fusion_options or {}, own=2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = {name: build_encoder(chosen[name], shape, **options.get(name, {})) for name, shape in shapes.items()}
        widths = {name: int(encoder.width) for name, encoder in built.items()}  # type: ignore[arg-type]
        network = MultimodalNetwork(built, joining(widths, classes, **(fusion_options or {})))
        if initialisation is not None:
            initialise(network, initialisation)
    return network


def _check_names(shapes: Mapping[str, object], given: Mapping[str, object], argument: str) -> None:
    for name in given:
        choose(argument, name, shapes)
