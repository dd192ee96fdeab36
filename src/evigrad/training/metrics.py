"""Numbers from class probabilities: how often right, and how honest about it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BINS = 15


def classification_metrics(probabilities: Tensor, target: Tensor) -> dict[str, float]:
    """Accuracy, F1, and the calibration of ``probabilities`` ``[N, C]`` for labels ``target`` ``[N]``.

    Macro F1 is the mean over the classes that occur among labels or predictions, weighted F1 weighs classes by their
    number of labels. ``ece`` is the expected calibration error of the largest probability, in 15 bins of equal width.

    Example:
        >>> sure = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> classification_metrics(sure, torch.tensor([0, 1]))["accuracy"]
        1.0
    """
    from torchmetrics.functional.classification import multiclass_calibration_error

    classes = check(probabilities, target)
    options: dict[str, Any] = {"num_classes": classes, "validate_args": False}
    return {
        "accuracy": accuracy(probabilities, target),
        "f1_macro": _f1(probabilities, target, "macro"),
        "f1_weighted": _f1(probabilities, target, "weighted"),
        "nll": negative_log_likelihood(probabilities, target),
        "ece": float(multiclass_calibration_error(probabilities, target, n_bins=BINS, norm="l1", **options)),
        "brier": brier(probabilities, target),
        "aurc": aurc(probabilities, target),
    }


def per_class(probabilities: Tensor, target: Tensor) -> list[dict[str, float]]:
    """For each class its number of labels, the fraction of them found (accuracy within the class), and its F1."""
    from torchmetrics.functional.classification import multiclass_f1_score, multiclass_recall

    classes = check(probabilities, target)
    options: dict[str, Any] = {"num_classes": classes, "average": "none", "validate_args": False}
    support = target.bincount(minlength=classes)
    recall = multiclass_recall(probabilities, target, **options)
    f1 = multiclass_f1_score(probabilities, target, **options)
    return [{"samples": int(support[c]), "accuracy": float(recall[c]), "f1": float(f1[c])} for c in range(classes)]


def accuracy(probabilities: Tensor, target: Tensor) -> float:
    """The fraction of samples whose largest score is their label's; logits will do as well as probabilities."""
    from torchmetrics.functional.classification import multiclass_stat_scores

    options: dict[str, Any] = {
        "num_classes": probabilities.shape[1],
        "average": "micro",
        "validate_args": False,
    }
    right, _, _, _, samples = multiclass_stat_scores(probabilities, target, **options).tolist()
    return float(right / samples)


def negative_log_likelihood(probabilities: Tensor, target: Tensor) -> float:
    r""":math:`-\frac1N \sum_i \log p_{i, y_i}`; a probability of 0 counts as the smallest positive 32-bit number."""
    given = probabilities.double().gather(1, target[:, None]).clamp_min(torch.finfo(torch.float32).tiny)
    return -given.log().mean().item()


def brier(probabilities: Tensor, target: Tensor) -> float:
    r""":math:`\frac1N \sum_i \sum_c (p_{ic} - [c = y_i])^2`: between 0 and 2 (Brier 1950)."""
    label = torch.nn.functional.one_hot(target, probabilities.shape[1])
    return (probabilities.double() - label).square().sum(dim=1).mean().item()


def aurc(probabilities: Tensor, target: Tensor) -> float:
    """Area under the risk-coverage curve (Geifman, Uziel and El-Yaniv, ICLR 2019); smaller is better.

    The mean over n of the error rate among the n samples with the largest top probability. Samples that tie share
    the mean error of their group, so the order of the data set doesn't matter.
    """
    confidence, predicted = probabilities.double().max(dim=1)
    errors = (predicted != target).double()
    _, group = torch.unique(-confidence, return_inverse=True)
    groups = int(group.max()) + 1
    sizes = group.bincount(minlength=groups).double()
    mean_error = torch.zeros(groups, dtype=torch.float64).scatter_add_(0, group.cpu(), errors.cpu()) / sizes.cpu()
    ordered = mean_error[group.cpu().sort().values]
    return float((ordered.cumsum(0) / torch.arange(1, len(ordered) + 1)).mean())


def check(probabilities: Tensor, target: Tensor) -> int:
    """C, after refusing what no metric is defined for."""
    if probabilities.ndim != 2 or len(probabilities) != len(target) or len(target) == 0:
        raise ValueError(
            f"probabilities must be [N, C] with N > 0 and target [N]; got {list(probabilities.shape)} "
            f"and {list(target.shape)}."
        )
    if not torch.isfinite(probabilities).all():
        bad = int((~torch.isfinite(probabilities)).any(dim=1).sum())
        raise ValueError(
            f"probabilities of {bad} of {len(target)} samples are NaN or infinite: the weights have diverged or an "
            "input isn't finite. Lower the learning rate, or check the data."
        )
    return probabilities.shape[1]


def _f1(probabilities: Tensor, target: Tensor, average: str) -> float:
    from torchmetrics.functional.classification import multiclass_f1_score

    options: dict[str, Any] = {
        "num_classes": probabilities.shape[1],
        "average": average,
        "validate_args": False,
    }
    return float(multiclass_f1_score(probabilities, target, **options))
