"""Finds the linear layer whose output a joint module returns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from evigrad.calibration.errors import nearest


def find_output_layer(module: nn.Module, run: Callable[[], Tensor], classes: int, name: str | None) -> str:
    """Name of the layer that gives the module's logits; ``run`` calls the module on some input.

    A ``name`` that is given is checked as far as the module can be run.
    """
    layers = {key: layer for key, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    name = _found(module, run, layers) if name is None else _checked(module, run, layers, name)
    if layers[name].out_features != classes:
        raise ValueError(
            f"The joint module gives {layers[name].out_features} logits, but the heads give {classes}. "
            "Make all heads and the joint module agree on the number of classes."
        )
    return name


def _found(module: nn.Module, run: Callable[[], Tensor], layers: dict[str, nn.Linear]) -> str:
    try:
        logits, outputs = _outputs(module, run, layers)
    except Exception as error:
        raise ValueError(
            f"`joint` ({type(module).__name__}) could not be run on a trial batch to find its last layer: {error!r}. "
            f"Make it take {{name: [B, K]}}, or name that layer in `joint_output`, one of: {_listed(layers)}."
        ) from error
    for key, out in outputs.items():
        if out is logits:
            return key
    raise ValueError(
        f"`joint` ({type(module).__name__}) must return the output of an nn.Linear unchanged: the posterior of that "
        f"layer is what gives the joint gradient its variance. Its linear layers: {_listed(layers)}. End the module "
        "with an nn.Linear, or name the layer in `joint_output` if what follows it changes no value."
    )


def _checked(module: nn.Module, run: Callable[[], Tensor], layers: dict[str, nn.Linear], name: str) -> str:
    if name not in layers:
        raise ValueError(
            f"`joint_output` names no nn.Linear of the joint module: {name!r}.{nearest(name, layers)} "
            f"Its linear layers: {_listed(layers)}."
        )
    try:
        logits, outputs = _outputs(module, run, layers)
    except Exception:  # a module that does not run on a trial batch is what the argument is for
        return name
    out = outputs.get(name)
    if out is None or out.shape != logits.shape or not torch.allclose(out.to(logits.dtype), logits):
        raise ValueError(
            f"`joint_output` names {name!r}, but what `joint` ({type(module).__name__}) returns is not that layer's "
            f"output. Name the last one of: {_listed(layers)}; return logits, without softmax or scaling."
        )
    return name


def _outputs(
    module: nn.Module, run: Callable[[], Tensor], layers: dict[str, nn.Linear]
) -> tuple[Tensor, dict[str, Tensor]]:
    """What the module returns, and what each linear layer gave on the way."""
    outputs: dict[str, Tensor] = {}
    handles = [
        layer.register_forward_hook(lambda _, __, out, key=key: outputs.update({key: out}))
        for key, layer in layers.items()
    ]
    try:
        with torch.no_grad(), _evaluating(module):
            return run(), outputs
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _listed(layers: dict[str, nn.Linear]) -> str:
    return ", ".join(layers) or "none"
