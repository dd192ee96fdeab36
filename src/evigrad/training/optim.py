"""Optimizers and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from evigrad.training.config import Optimizer, Schedule


def build_optimizer(config: Optimizer, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The PyTorch optimizer that ``config`` describes, over those ``parameters`` that want gradients."""
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    if not trainable:
        raise ValueError("no parameter of the network or the method requires a gradient: there is nothing to train.")
    if config.name == "adamw":
        return torch.optim.AdamW(
            trainable, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
        )
    return torch.optim.SGD(
        trainable, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )


def learning_rate_factor(config: Schedule, step: int, steps_per_epoch: int, epochs: int) -> float:
    """What the learning rate is multiplied by at optimizer step ``step`` (the first is 0).

    Warm-up is linear and reaches 1 on its last step; ``cosine`` spans what is left after it:
    ``final + (1 - final) * (1 + cos(pi * t)) / 2`` with ``t`` from 0 towards 1.

    Example:
        >>> learning_rate_factor(Schedule("step", every=2), step=5, steps_per_epoch=2, epochs=4)
        0.1
    """
    warmup = round(config.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return (step + 1) / warmup
    if config.name == "cosine":
        time = (step - warmup) / max(1, steps_per_epoch * epochs - warmup)
        return config.final + (1 - config.final) * (1 + math.cos(math.pi * time)) / 2
    if config.name == "step":
        return float(config.factor ** (step // steps_per_epoch // config.every))
    return 1.0


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter group the same learning ``rate``."""
    for group in optimizer.param_groups:
        group["lr"] = rate
