"""evigrad: evidence-weighted gradients for multi-modal learning."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evigrad.calibration import CalibratedLoss, CalibratedOutput

__version__ = "0.1.0"

__all__ = ["CalibratedLoss", "CalibratedOutput", "__version__"]


def __getattr__(name: str) -> Any:
    # PyTorch is imported with the first name that needs it, so that `evigrad --help` answers at once.
    if name not in ("CalibratedLoss", "CalibratedOutput"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evigrad import calibration

    return getattr(calibration, name)
