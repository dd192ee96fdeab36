"""Whether loading keeps a training step of two ResNet-18 fed: epochs over files against epochs over ready batches.

The files are a table's: a wav of three seconds and a png a row, decoded each time to a log-mel and 224 x 224 pixels.
The ready batches are the same ones, decoded before the clock starts.
"""

import csv
import random
import tempfile
import wave
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import alternate, seconds
from evigrad.data import Batch, MultimodalDataset, load
from evigrad.methods import build_method
from evigrad.networks import build_network
from evigrad.training.loader import in_order
from evigrad.training.loader import load as batches_of

ROWS, BATCH, RATE, SECONDS = 32, 8, 16000, 3
REPETITIONS = 6
WORKERS = (0, 1)


def measure(quick: bool) -> list[dict[str, Any]]:
    """One case: seconds of an epoch with ready batches and with each number of workers, and of loading alone."""
    rows, size, repetitions = (4, 32, 1) if quick else (ROWS, 224, REPETITIONS)
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder), rows, size)
        data = load("table", path=table, image_size=(size, size)).train
        return [_case(data, 2 if quick else BATCH, repetitions)]


def _case(data: MultimodalDataset, size: int, repetitions: int) -> dict[str, Any]:
    train, rng = trainer(data), random.Random(0)
    parts = in_order(len(data), size)
    ready = list(fetched(data, parts, 0))
    arms: dict[str, Callable[[], object]] = {"ready": lambda: train(ready)}
    for workers in WORKERS:
        arms[f"workers {workers}"] = lambda workers=workers: train(fetched(data, parts, workers))
    train(ready)
    times: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repetitions):
        turn = alternate([lambda arm=arm: seconds(arm) for arm in arms.values()], rng)
        for name, one in zip(arms, turn, strict=True):
            times[name].append(one)
    alone = [seconds(lambda: list(fetched(data, parts, 0))) for _ in range(repetitions)]
    return {"samples": size, "batches": len(parts), "epochs": times, "loading": alone}


def fetched(data: MultimodalDataset, parts: list[list[int]], workers: int) -> Iterable[Batch]:
    """The batches as the training loop gets them."""
    return batches_of(data, parts, torch.device("cpu"), workers)


def trainer(data: MultimodalDataset) -> Callable[[Iterable[Batch]], None]:
    """A loop of plain training steps over whatever batches it is given."""
    network, method = build_network(data.modalities, len(data.classes), "resnet18"), build_method("uniform")
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)

    def train(batches: Iterable[Batch]) -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss: Any = method.loss(network(batch.inputs, batch.present), batch)
            loss.backward()
            optimizer.step()

    return train


def write_table(folder: Path, rows: int, size: int) -> Path:
    """A table of sounds and images of noise; of each other part it has a row, since a data set needs all three."""
    path = folder / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sound", "image", "label", "split"])
        for row, part in enumerate([*["train"] * rows, "validation", "test"]):
            _write_wav(folder / f"{row}.wav")
            _write_png(folder / f"{row}.png", torch.randint(256, (size, size, 3), dtype=torch.uint8))
            writer.writerow([f"{row}.wav", f"{row}.png", "ab"[row % 2], part])
    return path


def _write_wav(path: Path) -> None:
    samples = (3000 * torch.randn(SECONDS * RATE)).clamp(-32768, 32767).to(torch.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.numpy().tobytes())


def _write_png(path: Path, pixels: Tensor) -> None:
    from PIL import Image

    height, width, _ = pixels.shape
    Image.frombytes("RGB", (width, height), pixels.numpy().tobytes()).save(path)
