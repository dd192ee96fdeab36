"""Encoders, fusions, and :class:`MultimodalNetwork`, which joins them and returns a typed :class:`Output`."""

from evigrad.networks.build import build_encoder, build_network
from evigrad.networks.encoders import ENCODERS, MLP, ResNet18, SequenceEncoder, SmallCNN, TextEncoder
from evigrad.networks.fusion import (
    FUSIONS,
    Attention,
    Concatenation,
    FiLM,
    Fusion,
    Gated,
    LowRankTensor,
    NoFusion,
    Sum,
)
from evigrad.networks.initialisation import initialise
from evigrad.networks.network import MultimodalNetwork
from evigrad.networks.output import Output

__all__ = [
    "ENCODERS",
    "FUSIONS",
    "MLP",
    "Attention",
    "Concatenation",
    "FiLM",
    "Fusion",
    "Gated",
    "LowRankTensor",
    "MultimodalNetwork",
    "NoFusion",
    "Output",
    "ResNet18",
    "SequenceEncoder",
    "SmallCNN",
    "Sum",
    "TextEncoder",
    "build_encoder",
    "build_network",
    "initialise",
]
