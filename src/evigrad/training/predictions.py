"""What a trained system says about every sample of a data set, as tensors and on disk."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from evigrad.training import ranks
from evigrad.training.files import write_atomically
from evigrad.training.loader import in_order, load
from evigrad.training.readings import READINGS, read

if TYPE_CHECKING:
    from evigrad.data import Batch, MultimodalDataset
    from evigrad.methods import Method


@dataclass(frozen=True)
class Predictions:
    """One row per sample, in the order of the data set, on the CPU.

    Args:
        index: ``[N]`` positions in the data set.
        target: ``[N]`` labels.
        probabilities: ``[N, C]`` of the whole system.
        present: name -> bool ``[N]``.
        readings: reading -> name -> ``[N, C]`` scores of single modalities; see :mod:`evigrad.training.readings`.
        features: name -> ``[N, K]``; empty unless asked for.
    """

    index: Tensor
    target: Tensor
    probabilities: Tensor
    present: dict[str, Tensor]
    readings: dict[str, dict[str, Tensor]]
    features: dict[str, Tensor]

    def save(self, path: Path, classes: Sequence[str]) -> None:
        """Write ``path`` (npz, everything but features) and beside it a CSV file with labels and probabilities."""
        arrays = {"index": self.index, "target": self.target, "probabilities": self.probabilities}
        arrays |= {f"present.{name}": value for name, value in self.present.items()}
        for reading, scores in self.readings.items():
            arrays |= {f"{reading}.{name}": value for name, value in scores.items()}
        write_atomically(path, lambda temporary: _save_npz(temporary, arrays))
        write_atomically(path.with_suffix(".csv"), lambda temporary: self._save_csv(temporary, classes))

    def _save_csv(self, path: Path, classes: Sequence[str]) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["index", "target", "predicted", *(f"p({name})" for name in classes)])
            predicted = self.probabilities.argmax(dim=1).tolist()
            rows = zip(self.index.tolist(), self.target.tolist(), predicted, self.probabilities.tolist(), strict=True)
            for index, target, guess, row in rows:
                writer.writerow([index, classes[target], classes[guess], *(f"{p:.6g}" for p in row)])


def predict(
    network: nn.Module,
    method: Method,
    dataset: MultimodalDataset,
    batch_size: int = 256,
    workers: int = 0,
    features: bool = False,
) -> Predictions:
    """Run a trained system over the whole of ``dataset`` without changing it: no sample dropped, no statistic updated.

    Args:
        network: A network, or what ``fit`` wrapped around it.
        method: The method it was trained by, which knows how to predict.
        dataset: Any data set; under several ranks each takes its part and all get the whole answer.
        batch_size: Samples per forward pass and rank. It doesn't change the result.
        workers: Processes that load data.
        features: Whether to keep the encoders' features.
    """
    device = next(network.parameters()).device
    rank, world_size = _place()
    if len(dataset) == 0:
        raise ValueError("there is nothing to predict: the data set has no samples.")
    # A rank beyond the last sample repeats the first one, which _assemble keeps once.
    batches = in_order(len(dataset), batch_size, rank, world_size) or [[0]]
    parts: list[dict[str, Tensor]] = []
    with evaluating(network, method):
        for positions, batch in zip(batches, load(dataset, batches, device, workers), strict=True):
            block = _row_block(network, method, batch, features)
            parts.append({"position": torch.tensor(positions, device=device), **block})
    return _assemble(parts)


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """No gradients, and every module in evaluation mode inside; each one's own mode is given back afterwards."""
    modes = {module: module.training for root in modules for module in root.modules()}
    for root in modules:
        root.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _place() -> tuple[int, int]:
    from torch import distributed

    return (distributed.get_rank(), distributed.get_world_size()) if ranks.together() else (0, 1)


def _row_block(network: nn.Module, method: Method, batch: Batch, features: bool) -> dict[str, Tensor]:
    output = network(batch.inputs, batch.present)
    block = {"index": batch.index, "target": batch.target}
    block["probabilities"] = method.predict(output, batch.present).float()
    block |= {f"present/{name}": value for name, value in batch.present.items()}
    for reading in READINGS:
        for name, scores in read(reading, network, method, output, batch.present).items():
            block[f"{reading}/{name}"] = scores.float()
    if features:
        block |= {f"features/{name}": value.float() for name, value in output.features.items()}
    return block


def _assemble(parts: list[dict[str, Tensor]]) -> Predictions:
    joined = {key: ranks.gather_rows(torch.cat([part[key] for part in parts])).cpu() for key in parts[0]}
    positions, order = joined.pop("position").sort(stable=True)
    order = order[torch.cat([positions.new_ones(1).bool(), positions.diff() > 0])]
    rows = {key: value[order] for key, value in joined.items()}

    def group(prefix: str) -> dict[str, Tensor]:
        return {key.split("/", 1)[1]: value for key, value in rows.items() if key.startswith(f"{prefix}/")}

    readings = {reading: found for reading in READINGS if (found := group(reading))}
    return Predictions(
        rows["index"], rows["target"], rows["probabilities"], group("present"), readings, group("features")
    )


def _save_npz(path: Path, arrays: dict[str, Tensor]) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: value.numpy() for name, value in arrays.items()})
