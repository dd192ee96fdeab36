"""evigrad: evidence-weighted gradients for multi-modal learning."""

from evigrad.calibration import CalibratedLoss, CalibratedOutput

__version__ = "0.1.0"

__all__ = ["CalibratedLoss", "CalibratedOutput", "__version__"]
