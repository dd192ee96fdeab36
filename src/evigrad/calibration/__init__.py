"""The idea: gradients as random variables, their precision as evidence, one calibrated update.

`CalibratedLoss` is the criterion. The stages that it is made of are plain functions on small tensors, for those who
want to take one and plot it: `posterior`, `moments`, `opinion`, `combine`, `update`.
"""

from evigrad.calibration.diagnostics import Diagnostics, Trace
from evigrad.calibration.errors import NonFiniteError
from evigrad.calibration.evidence import Opinion, Update, combine, conflict_mass, opinion, update
from evigrad.calibration.loss import CalibratedLoss, CalibratedOutput
from evigrad.calibration.moments import Moments
from evigrad.calibration.stages import moments, posterior
from evigrad.calibration.structures import Gaussian

__all__ = [
    "CalibratedLoss",
    "CalibratedOutput",
    "Diagnostics",
    "Gaussian",
    "Moments",
    "NonFiniteError",
    "Opinion",
    "Trace",
    "Update",
    "combine",
    "conflict_mass",
    "moments",
    "opinion",
    "posterior",
    "update",
]
