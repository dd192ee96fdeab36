"""Methods by name. A new method adds one line here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from evigrad.calibration.errors import choose
from evigrad.methods.base import Method
from evigrad.networks.options import check_options

__all__ = ["METHODS", "build_method"]


def _class(path: str) -> type[Method]:
    module, name = path.rsplit(".", 1)
    found: type[Method] = getattr(import_module(f"evigrad.methods.{module}"), name)
    return found


METHODS: dict[str, type[Method]] = {
    "unimodal": _class("unimodal.Unimodal"),
    "joint": _class("joint.Joint"),
    "uniform": _class("uniform.Uniform"),
    "ogm_ge": _class("ogm_ge.OGMGE"),
    "mmpareto": _class("mmpareto.MMPareto"),
    "tmc": _class("tmc.TMC"),
    "bogc": _class("bogc.BOGC"),
}


def build_method(name: str, **options: Any) -> Method:
    """The method called ``name`` with its hyper-parameters.

    Example:
        >>> build_method("uniform", unimodal_weight=0.5).unimodal_weight
        0.5
    """
    kind = METHODS[choose("method", name, METHODS)]
    check_options(kind, name, options)
    return kind(**options)
