"""The original files of the audio-visual digits: MNIST's four IDX files and FSDD's folder of wav files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .audio import fit_length, log_mel, mel_filter_bank, read_wav
from .errors import DataError, require
from .idx import read_idx

RATE, WINDOW, HOP, BINS, FRAMES, SPAN = 8000, 256, 125, 64, 64, (-14.0, 8.0)
IMAGES = {"train": "train-{}", "test": "t10k-{}"}
CLIP = re.compile(r"([0-9])_([a-z]+)_([0-9]+)\.wav")

Progress = Callable[[int, int, str], None]


def read_mnist(source: Path, problems: list[str]) -> tuple[dict[str, Any], list[Path]]:
    """x_train, y_train, x_test, y_test from the IDX files anywhere below ``source``, and the files used."""
    arrays, files = {}, []
    for part, stem in IMAGES.items():
        for key, kind in (("x", "images?idx3-ubyte*"), ("y", "labels?idx1-ubyte*")):
            pattern = stem.format(kind)
            found = sorted(
                path
                for path in source.rglob(pattern)
                # Some copies put each file into a folder of the same name.
                if path.suffix in (".gz", "", ".idx3-ubyte", ".idx1-ubyte") and path.is_file()
            )
            if not found:
                problems.append(f"{pattern}: not found; put MNIST's four IDX files (.gz or not) below {source}")
                continue
            files.append(found[0])
            try:
                arrays[f"{key}_{part}"] = _digits(found[0], key)
            except DataError as error:
                problems.append(str(error))
    for part in IMAGES:
        if f"x_{part}" in arrays and f"y_{part}" in arrays and len(arrays[f"x_{part}"]) != len(arrays[f"y_{part}"]):
            images, labels = len(arrays[f"x_{part}"]), len(arrays[f"y_{part}"])
            problems.append(f"MNIST {part}: {images} images but {labels} labels; the files are of different sets")
    return arrays, files


def _digits(path: Path, key: str) -> Any:
    values = read_idx(path)
    if key == "x" and values.shape[1:] != (28, 28):
        raise DataError(f"{path}: shape {tuple(values.shape)}, MNIST's images are [N, 28, 28]; fetch the original file")
    if key == "y" and (values.ndim != 1 or int(values.max()) > 9):
        what = f"shape {tuple(values.shape)} and labels up to {int(values.max())}"
        raise DataError(f"{path}: {what}, MNIST's labels are [N], 0 to 9; fetch the original file")
    return values.numpy()


def read_fsdd(source: Path, problems: list[str], progress: Progress) -> tuple[dict[str, Any], list[Path]]:
    """Log-mel bytes [clips, 64, 64], label, speaker, take of the wav files below ``source``, and the files used."""
    numpy = require("numpy", "train")
    files = sorted(path for path in source.rglob("*.wav") if path.is_file())
    if not files:
        problems.append(f"recordings/*.wav: not found; put the folder free-spoken-digit-dataset below {source}")
    bank = mel_filter_bank(BINS, WINDOW, RATE, low=50.0)
    clips: list[Tensor] = []
    names: list[tuple[int, str, int]] = []
    used = []
    seen: dict[str, Path] = {}
    for done, path in enumerate(files, 1):
        progress(done, len(files), path.name)
        try:
            names.append(_name(path))
            if path.name in seen:
                raise DataError(f"{path}: the same clip as {seen[path.name]}; remove one of them")
            seen[path.name] = path
            clips.append(quantise(clip_log_mel(path, bank)))
            used.append(path)
        except DataError as error:
            problems.append(str(error))
            del names[len(clips) :]
    speakers = sorted({speaker for _, speaker, _ in names})
    arrays = {
        "logmel_u8": torch.stack(clips).numpy() if clips else numpy.zeros((0, BINS, FRAMES), numpy.uint8),
        "logmel_range": numpy.array(SPAN),
        "label": numpy.array([digit for digit, _, _ in names]),
        "speaker": numpy.array([speakers.index(speaker) for _, speaker, _ in names]),
        "speaker_names": numpy.array(speakers, dtype="U"),
        "take": numpy.array([take for _, _, take in names]),
    }
    return arrays, used


def clip_log_mel(path: Path, bank: Tensor) -> Tensor:
    """Log-mel [64, 64] of about the first second of a clip, padded with silence."""
    samples, rate = read_wav(path)
    if rate != RATE:
        raise DataError(f"{path}: {rate} samples a second, FSDD has {RATE}; fetch the original file")
    return log_mel(fit_length(samples, WINDOW + (FRAMES - 1) * HOP), bank, HOP)


def quantise(values: Tensor) -> Tensor:
    """Values as bytes over the span -14..8."""
    low, high = SPAN
    return ((values - low) / (high - low) * 255).round().clamp(0, 255).to(torch.uint8)


def _name(path: Path) -> tuple[int, str, int]:
    match = CLIP.fullmatch(path.name)
    if not match:
        raise DataError(f"{path}: the name is not <digit>_<speaker>_<take>.wav")
    return int(match[1]), match[2], int(match[3])
