"""The four shapes a head's posterior may have, by name."""

from evigrad.calibration.structures.base import Additive, Gaussian, Seen, Statistics, Structure, state
from evigrad.calibration.structures.diagonal import Diagonal
from evigrad.calibration.structures.full import Full
from evigrad.calibration.structures.kronecker import Kronecker
from evigrad.calibration.structures.lowrank import LowRank

ADDITIVE: dict[str, type[Additive]] = {"full": Full, "kronecker": Kronecker, "diagonal": Diagonal}
STRUCTURES: dict[str, type[Structure]] = {**ADDITIVE, "lowrank": LowRank}

__all__ = [
    "ADDITIVE",
    "STRUCTURES",
    "Additive",
    "Diagonal",
    "Full",
    "Gaussian",
    "Kronecker",
    "LowRank",
    "Seen",
    "Statistics",
    "Structure",
    "state",
]
