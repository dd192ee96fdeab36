"""Writers of small files in the official layouts."""

import gzip
import struct
import wave
from pathlib import Path

import numpy as np


def write_wav(path: Path, samples, rate: int = 8000, width: int = 2, channels: int = 1) -> Path:
    """PCM wav from floats in [-1, 1), interleaved where there are several channels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = np.clip(
        np.round(np.asarray(samples) * (1 << 8 * width - 1)), -(1 << 8 * width - 1), (1 << 8 * width - 1) - 1
    )
    if width == 1:
        raw = (whole + 128).astype(np.uint8).tobytes()
    else:
        raw = b"".join(int(value).to_bytes(width, "little", signed=True) for value in whole)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw)
    return path


def write_idx(path: Path, array: np.ndarray) -> Path:
    """MNIST's format, gzipped if the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = b"\x00\x00\x08" + bytes([array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    raw += array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def write_png(path: Path, pixels: np.ndarray) -> Path:
    """A png from [H, W, 3] bytes."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def write_originals(folder: Path, images: int = 12, takes: int = 12, speakers=("ann", "bob", "cat")) -> Path:
    """MNIST and FSDD in their official layouts: ``images`` images of each digit and part, ``takes`` clips."""
    random = np.random.default_rng(0)
    for stem in ("train", "t10k"):
        labels = np.repeat(np.arange(10), images)
        ending = ".gz" if stem == "train" else ""
        write_idx(folder / f"{stem}-labels-idx1-ubyte{ending}", labels)
        write_idx(folder / f"{stem}-images-idx3-ubyte{ending}", random.integers(0, 256, (len(labels), 28, 28)))
    for digit in range(10):
        for speaker in speakers:
            for take in range(takes):
                length = 400 + 10 * take
                tone = 0.5 * np.sin(2 * np.pi * (200 + 100 * digit) * np.arange(length) / 8000)
                tone += 0.1 * random.normal(size=length)
                write_wav(folder / "recordings" / f"{digit}_{speaker}_{take}.wav", tone)
    return folder
