"""The numbers of a trained system on a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from evigrad.training.metrics import accuracy, classification_metrics, per_class
from evigrad.training.predictions import Predictions, predict
from evigrad.training.probes import fit_probe

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset
    from evigrad.methods import Method


def evaluate(
    network: nn.Module,
    method: Method,
    dataset: MultimodalDataset,
    probe_on: MultimodalDataset | None = None,
    batch_size: int = 256,
    workers: int = 0,
) -> dict[str, Any]:
    """Every number of a trained system on ``dataset``, as plain JSON values.

    Args:
        network: The trained network.
        method: The method that trained it.
        dataset: What to measure on; all of it, always.
        probe_on: The training set, on whose features the linear probes are fitted; without it there is no ``probe``.
        batch_size: Samples per forward pass.
        workers: Processes that load data.

    Returns:
        ``samples``, ``accuracy``, ``f1_macro``, ``f1_weighted``, ``nll``, ``ece``, ``brier``, ``aurc``, ``per_class``,
        ``protocol``, and ``modalities``: name -> reading -> accuracy over the samples that have the modality.
    """
    wants_features = probe_on is not None
    found = predict(network, method, dataset, batch_size, workers, features=wants_features)
    numbers = summary(found, dataset.classes)
    if probe_on is not None:
        trained = predict(network, method, probe_on, batch_size, workers, features=True)
        for name, value in probe_accuracies(trained, found, len(dataset.classes)).items():
            numbers["modalities"][name]["probe"] = value
    return {**numbers, "protocol": dataset.protocol}


def summary(found: Predictions, classes: tuple[str, ...]) -> dict[str, Any]:
    """The numbers that ``found`` holds, without any probe."""
    numbers: dict[str, Any] = {"samples": len(found.target)}
    numbers |= classification_metrics(found.probabilities, found.target)
    table = per_class(found.probabilities, found.target)
    numbers["per_class"] = dict(zip(classes, table, strict=True))
    numbers["modalities"] = modality_accuracies(found)
    return numbers


def modality_accuracies(found: Predictions) -> dict[str, dict[str, float]]:
    """Name -> reading -> accuracy over the samples in which the modality is present, with their number."""
    numbers: dict[str, dict[str, float]] = {}
    for name, mask in found.present.items():
        numbers[name] = {"samples": int(mask.sum())}
        for reading, scores in found.readings.items():
            if name in scores and mask.any():
                numbers[name][reading] = accuracy(scores[name][mask], found.target[mask])
    return numbers


def probe_accuracies(trained: Predictions, found: Predictions, classes: int) -> dict[str, float]:
    """Name -> accuracy on ``found`` of a linear probe fitted on the features of ``trained``."""
    numbers = {}
    for name, features in trained.features.items():
        mask = trained.present[name]
        if not mask.any() or not found.present[name].any():
            continue
        probe = fit_probe(features[mask], trained.target[mask], classes)
        numbers[name] = _probe_accuracy(probe, found, name)
    return numbers


def _probe_accuracy(probe: nn.Linear, found: Predictions, name: str) -> float:
    mask: Tensor = found.present[name]
    return accuracy(probe(found.features[name][mask]).detach(), found.target[mask])
