"""A small problem with two modalities that a small network learns in a second."""

import torch

from evigrad.data import Views
from evigrad.methods import build_method
from evigrad.networks import build_network
from evigrad.training import Optimizer, Selection, Training

CLASSES = ("x", "y", "z")


class Precise(Views):
    """Views that are read in 64 bits, for comparisons that must be tight."""

    def _read(self, name, index):
        return self.inputs[name][index].double()


def views(samples: int, seed: int = 0, missing: float = 0.0, kind: type[Views] = Views) -> Views:
    """Two noisy views of a label; with ``missing``, each sample may lack the second."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(3, (samples,), generator=generator)
    shift = target[:, None].float()
    inputs = {
        "sound": torch.randn(samples, 6, generator=generator) + shift,
        "image": torch.randn(samples, 4, generator=generator) - shift,
    }
    present = {"image": torch.rand(samples, generator=generator) >= missing}
    return kind(inputs, target, CLASSES, "toy", present=present)


def network(seed: int = 0, **options):
    """An untrained network for :func:`views`."""
    return build_network({"sound": (6,), "image": (4,)}, classes=3, seed=seed, **options)


def settings(**changes) -> Training:
    """Quick, silent training."""
    chosen = {"epochs": 2, "batch_size": 16, "progress": "none", "optimizer": Optimizer(learning_rate=0.05)}
    return Training(**{**chosen, **changes})


def last(**changes) -> Training:
    """Quick training that keeps the last epoch, for runs without validation data."""
    return settings(selection=Selection(keep="last"), **changes)


def method(name: str = "uniform", **options):
    """A method by name."""
    return build_method(name, **options)
