"""Every choice that the paper leaves open, by name."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from evigrad.calibration.errors import choose, is_number, positive
from evigrad.calibration.evidence import REFERENCES, RESCALES, WEIGHTS
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.moments import MOMENTS, check_exact
from evigrad.calibration.structures import ADDITIVE, STRUCTURES
from evigrad.calibration.synchronize import distributed

CURVATURES = ("batch", "running")
CENTRES = ("weights", "newton")
FUSIONS = ("head", "average")


@dataclass(frozen=True)
class Readings:
    """The arguments of `CalibratedLoss` that are no modules, checked."""

    loss: str
    unimodal_weight: float
    evidence_power: float
    scale: float
    posterior: str
    curvature: str
    centre: str
    moments: str
    fusion: str
    reference: str
    weights: str
    rescale: str
    dataset_size: int | None
    prior_precision: float
    variance_floor: float
    decay: float
    refresh: int
    rank: int
    draws: int
    probes: int
    synchronize: bool

    @property
    def running(self) -> bool:
        """Whether the curvature is an average over batches."""
        return self.curvature == "running"

    @property
    def shared(self) -> bool:
        """Whether statistics are summed over processes in this run."""
        return self.synchronize and distributed()

    def __post_init__(self) -> None:
        for argument, value, known in (
            ("posterior", self.posterior, STRUCTURES),
            ("curvature", self.curvature, CURVATURES),
            ("centre", self.centre, CENTRES),
            ("moments", self.moments, MOMENTS),
            ("fusion", self.fusion, FUSIONS),
            ("reference", self.reference, REFERENCES),
            ("weights", self.weights, WEIGHTS),
            ("rescale", self.rescale, RESCALES),
        ):
            choose(argument, value, known)
        loss = likelihood(self.loss)
        if self.moments == "exact":
            check_exact(loss)
        if self.running and self.posterior not in ADDITIVE:
            raise ValueError(
                f"posterior='{self.posterior}' is the exact posterior of one batch and has no running average. "
                "Use curvature='batch' with it, or posterior='kronecker' with curvature='running'."
            )
        self._check_numbers()

    def _check_numbers(self) -> None:
        for argument, number in (("scale", self.scale), ("prior_precision", self.prior_precision)):
            positive(argument, number)
        for argument, number in (
            ("unimodal_weight", self.unimodal_weight),
            ("evidence_power", self.evidence_power),
            ("variance_floor", self.variance_floor),
        ):
            positive(argument, number, allow_zero=True)
        counts: dict[str, Any] = {
            "refresh": self.refresh,
            "rank": self.rank,
            "draws": self.draws,
            "probes": self.probes,
        }
        if self.dataset_size is not None:
            counts["dataset_size"] = self.dataset_size
        for argument, count in counts.items():
            if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
                raise ValueError(f"`{argument}` must be a whole number of at least 1, got {count!r}.")
        if not is_number(self.decay) or not 0 <= self.decay < 1:
            raise ValueError(
                f"`decay` must be at least 0 and below 1, got {self.decay!r}; 0.99 remembers about 100 batches."
            )
