"""Training methods, one file each, behind one interface.

A method gives a loss, may edit gradients, and says how to predict; it never contains a training loop.
``METHODS`` holds the classes by name, and each is documented, with its provenance, in its own module.
"""

from evigrad.methods.base import Method, OptimizerWarning, StepResult, Surgery, unwrap
from evigrad.methods.registry import METHODS, build_method

__all__ = ["METHODS", "Method", "OptimizerWarning", "StepResult", "Surgery", "build_method", "unwrap"]
