"""The three losses of one sample, spelled out; every derivative is autograd's."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.oracles.memo import remembered


def negative_log_likelihood(loss: str, logits: Tensor, target: Tensor) -> Tensor:
    """Of one sample: logits [C]; target a class index or [C]."""
    total = logits.new_zeros(())
    for c in range(len(logits)):
        if loss == "cross_entropy":
            share = target[c] if target.dim() else float(int(target) == c)
            total = total - share * (logits[c] - logits.exp().sum().log())
        elif loss == "binary":
            chance = 1 / (1 + (-logits[c]).exp())
            total = total - target[c] * chance.log() - (1 - target[c]) * (1 - chance).log()
        elif loss == "square":
            total = total + (logits[c] - target[c]) ** 2
    return total


def value(loss: str, logits: Tensor, target: Tensor) -> Tensor:
    """What is trained with: PyTorch's own reduction takes the mean over the outputs of `binary` and `square`."""
    total = negative_log_likelihood(loss, logits, target)
    return total if loss == "cross_entropy" else total / len(logits)


@remembered
def output_hessian(loss: str, logits: Tensor, target: Tensor) -> Tensor:
    """B_j, the Hessian of the negative log-likelihood at the logits, [C, C]."""
    hessian = torch.autograd.functional.hessian(lambda f: negative_log_likelihood(loss, f, target), logits)
    return torch.as_tensor(hessian)


def residual(loss: str, logits: Sequence[float], target: Tensor) -> list[float]:
    """∂value/∂logits in plain Python, for loops over draws (a test holds it against autograd)."""
    count = len(logits)
    if loss == "cross_entropy":
        total = sum(math.exp(f) for f in logits)
        wanted = target.tolist() if target.dim() else [float(int(target) == c) for c in range(count)]
        return [math.exp(f) / total - y for f, y in zip(logits, wanted, strict=True)]
    if loss == "binary":
        return [(1 / (1 + math.exp(-f)) - y) / count for f, y in zip(logits, target.tolist(), strict=True)]
    return [2 * (f - y) / count for f, y in zip(logits, target.tolist(), strict=True)]
