"""The numbers of a trained system on a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

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
        add_probes(numbers, fit_probes(trained, len(dataset.classes)), found)
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


def fit_probes(trained: Predictions, classes: int) -> dict[str, nn.Linear]:
    """Name -> a linear probe fitted on the features of the samples that have the modality, where any has."""
    masks = {name: trained.present[name] for name in trained.features}
    return {
        name: fit_probe(features[masks[name]], trained.target[masks[name]], classes)
        for name, features in trained.features.items()
        if masks[name].any()
    }


def add_probes(numbers: dict[str, Any], probes: Mapping[str, nn.Linear], found: Predictions) -> None:
    """Add to :func:`summary`'s ``numbers`` on ``found`` the accuracy of each probe, where there are samples for it."""
    for name, probe in probes.items():
        mask = found.present[name]
        if mask.any():
            scores = probe(found.features[name][mask]).detach()
            numbers["modalities"][name]["probe"] = accuracy(scores, found.target[mask])
