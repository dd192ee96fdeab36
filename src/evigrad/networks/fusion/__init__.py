"""Fusions: ``({name: features}, present)`` to joint logits, ending in a linear layer called ``linear``."""

from evigrad.networks.fusion.attention import Attention
from evigrad.networks.fusion.base import Fusion, NoFusion
from evigrad.networks.fusion.concatenation import Concatenation
from evigrad.networks.fusion.film import FiLM
from evigrad.networks.fusion.gated import Gated
from evigrad.networks.fusion.low_rank import LowRankTensor
from evigrad.networks.fusion.summation import Sum

__all__ = [
    "FUSIONS",
    "Attention",
    "Concatenation",
    "FiLM",
    "Fusion",
    "Gated",
    "LowRankTensor",
    "NoFusion",
    "Sum",
]

FUSIONS: dict[str, type[Fusion]] = {
    "concatenation": Concatenation,
    "sum": Sum,
    "film": FiLM,
    "gated": Gated,
    "low_rank_tensor": LowRankTensor,
    "attention": Attention,
}
