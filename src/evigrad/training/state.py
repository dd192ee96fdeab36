"""Everything a run must remember, taken apart into named tensors and plain JSON values, and put together again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]
Values = dict[str, Any]


def module_state(module: nn.Module, prefix: str) -> Tensors:
    """The parameters and buffers of ``module`` under ``prefix``."""
    return {f"{prefix}.{name}": value.detach() for name, value in module.state_dict().items()}


def load_module(module: nn.Module, tensors: Tensors, prefix: str) -> None:
    """Put back what :func:`module_state` took; names or shapes that differ are an error that lists them."""
    held = under(tensors, prefix)
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in held.items()}
    if expected != found:
        different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        shown = ", ".join(
            f"{name} (saved {found.get(name, 'nothing')}, needed {expected.get(name, 'nothing')})"
            for name in different[:5]
        )
        raise ValueError(
            f"the saved {prefix} doesn't fit this one: {shown}"
            f"{' and more' if len(different) > 5 else ''}. Rebuild it with the configuration the run was started with."
        )
    module.load_state_dict(held)


def optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[Tensors, Values]:
    """Tensors and numbers per parameter, by its position among the optimizer's parameters."""
    return flat(optimizer.state_dict()["state"])


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, values: Values) -> None:
    """Put back what :func:`optimizer_state` took; the settings stay those of ``optimizer``."""
    entries = {int(key): value for key, value in nested(tensors, values).items()}
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def flat(entries: Mapping[Any, Mapping[str, Any]]) -> tuple[Tensors, Values]:
    """``{parameter: {name: value}}`` as tensors called ``optimizer.PARAMETER.NAME`` and plain values."""
    tensors: Tensors = {}
    values: Values = {}
    for parameter, named in entries.items():
        for name, value in named.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{parameter}.{name}"] = value
            elif value is not None:
                values[f"{parameter}.{name}"] = value
    return tensors, values


def nested(tensors: Tensors, values: Values) -> dict[str, dict[str, Any]]:
    """The inverse of :func:`flat`, with parameters named by text."""
    entries: dict[str, dict[str, Any]] = {}
    for key, value in {**under(tensors, "optimizer"), **values}.items():
        parameter, name = key.rsplit(".", 1)
        entries.setdefault(parameter, {})[name] = value
    return entries


def random_state(generator: torch.Generator) -> tuple[Tensors, Values]:
    """The state of this process's generators: ``generator``, torch's (CPU and GPU), numpy's and Python's."""
    version, words, gauss = random.getstate()
    _, key, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    tensors = {
        "loop": generator.get_state(),
        "torch": torch.get_rng_state(),
        "numpy": torch.from_numpy(np.asarray(key).astype(np.int64)),
        "python": torch.tensor(words, dtype=torch.int64),
    }
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    values = {
        "python": {"version": version, "gauss": gauss},
        "numpy": {"position": int(position), "has_gauss": int(has_gauss), "cached": float(cached)},
    }
    return tensors, values


def load_random_state(generator: torch.Generator, tensors: Tensors, values: Values) -> None:
    """Put back what :func:`random_state` took."""
    generator.set_state(tensors["loop"])
    torch.set_rng_state(tensors["torch"])
    if "cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["cuda"])
    python, numpy = values["python"], values["numpy"]
    random.setstate((python["version"], tuple(tensors["python"].tolist()), python["gauss"]))
    np.random.set_state(  # noqa: NPY002
        (
            "MT19937",
            tensors["numpy"].numpy().astype(np.uint32),
            numpy["position"],
            numpy["has_gauss"],
            numpy["cached"],
        )
    )


def under(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The entries below ``prefix``, without it."""
    return {name[len(prefix) + 1 :]: value for name, value in tensors.items() if name.startswith(f"{prefix}.")}


def prefixed(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The same entries below ``prefix``."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}
