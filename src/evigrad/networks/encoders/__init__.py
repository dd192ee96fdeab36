"""Encoders: modules from ``[B, ...]`` to features ``[B, width]``, built from the shape of one sample."""

from evigrad.networks.encoders.cnn import SmallCNN
from evigrad.networks.encoders.mlp import MLP
from evigrad.networks.encoders.resnet import ResNet18
from evigrad.networks.encoders.sequence import SequenceEncoder, TextEncoder

__all__ = ["ENCODERS", "MLP", "ResNet18", "SequenceEncoder", "SmallCNN", "TextEncoder"]

ENCODERS: dict[str, type[MLP | ResNet18 | SequenceEncoder | SmallCNN | TextEncoder]] = {
    "mlp": MLP,
    "small_cnn": SmallCNN,
    "resnet18": ResNet18,
    "sequence": SequenceEncoder,
    "text": TextEncoder,
}
