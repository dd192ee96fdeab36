"""One trained system under many conditions: modalities missing, noise rising."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from evigrad.training.config import at_least
from evigrad.training.metrics import classification_metrics
from evigrad.training.predictions import predict

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset
    from evigrad.methods import Method

ALL_SUBSETS_UP_TO = 4


def missing_grid(
    network: nn.Module,
    method: Method,
    dataset: MultimodalDataset,
    kept: Iterable[Collection[str]] | None = None,
    batch_size: int = 256,
) -> list[dict[str, Any]]:
    """The numbers on ``dataset`` when only some modalities are kept, the same ones for every sample.

    Args:
        network: The trained network.
        method: The method that trained it.
        dataset: What to measure on.
        kept: The subsets to keep. By default all of them up to four modalities, and beyond that each alone, all
            but each, and all.
        batch_size: Samples per forward pass.

    Returns:
        A row per subset: ``kept``, ``samples`` (those that have any of it), the metrics, and ``protocol``.
    """
    from evigrad.data import remove

    rows = []
    for names in kept if kept is not None else _subsets(tuple(dataset.modalities)):
        gone = [name for name in dataset.modalities if name not in names]
        thinned = remove(dataset, gone) if gone else dataset
        rows.append({"kept": list(names), **_numbers(network, method, thinned, batch_size)})
    return rows


def noise_grid(
    network: nn.Module,
    method: Method,
    dataset: MultimodalDataset,
    protocol: str,
    levels: Sequence[float],
    draws: int = 1,
    seed: int = 0,
    batch_size: int = 256,
    **flags: object,
) -> list[dict[str, Any]]:
    """The numbers on ``dataset`` under a noise protocol of :mod:`evigrad.data`, at rising levels.

    Args:
        network: The trained network.
        method: The method that trained it.
        dataset: What to measure on.
        protocol: A name in ``evigrad.data.NOISE``.
        levels: Its levels; 0 is the clean data set itself.
        draws: Independent draws of who is hit and how; a row for each.
        seed: Of the draws. Systems compared under one seed meet the same noise.
        batch_size: Samples per forward pass. It doesn't change the noise.
        flags: Of the protocol.
    """
    from evigrad.data import apply_noise, stream

    for level in levels:
        at_least("levels", level, 0.0)
    rows = []
    for level in levels:
        for draw in range(draws if level else 1):
            generator = stream(seed, "noise grid", draw)
            noisy = apply_noise(protocol, dataset, level, generator, **flags) if level else dataset
            rows.append({"level": level, "draw": draw, **_numbers(network, method, noisy, batch_size)})
    return rows


def _subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    from evigrad.data import subsets

    if len(names) <= ALL_SUBSETS_UP_TO:
        return subsets(names)
    alone = [(name,) for name in names]
    without = [tuple(other for other in names if other != name) for name in names]
    return [*alone, *without, names]


def _numbers(network: nn.Module, method: Method, dataset: MultimodalDataset, batch_size: int) -> dict[str, Any]:
    """The metrics over the samples that have any modality left."""
    found = predict(network, method, dataset, batch_size)
    some = torch.stack(list(found.present.values())).any(dim=0)
    if not some.any():
        return {"samples": 0, "protocol": dataset.protocol}
    metrics = classification_metrics(found.probabilities[some], found.target[some])
    return {"samples": int(some.sum()), **metrics, "protocol": dataset.protocol}
