"""One file of a table as a tensor: wav, png/jpg, npy or txt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from .arrays import DAMAGED
from .audio import fit_length, log_mel, mel_filter_bank, read_wav, resample
from .errors import DataError, require
from .text import encode


@dataclass(frozen=True)
class Decoding:
    """How files become tensors of one shape.

    Images: [3, H, W] bytes, resized to ``image_size`` (H, W). Sound: the first ``seconds`` at ``rate``
    samples a second as log-mel [1, ``mel_bins``, frames], windows of ``window`` samples every ``hop``. Text:
    ids [``text_length``] of ``text`` "words" or "characters". Arrays: float32 as they are, one shape in a
    column.
    """

    image_size: tuple[int, int] = (224, 224)
    rate: int = 16000
    seconds: float = 3.0
    mel_bins: int = 64
    window: int = 512
    hop: int = 160
    text_length: int = 64
    text: str = "words"


def sound(path: Path, how: Decoding) -> Tensor:
    """Log-mel of a wav file, [1, bins, frames]."""
    samples, rate = read_wav(path)
    samples = fit_length(resample(samples, rate, how.rate), round(how.seconds * how.rate))
    return log_mel(samples, _bank(how.mel_bins, how.window, how.rate), how.hop)[None]


def image(path: Path, how: Decoding) -> Tensor:
    """Pixels of an image file in RGB, [3, H, W] bytes."""
    pillow = require("PIL.Image", "av")
    try:
        with pillow.open(path) as opened:
            pixels = opened.convert("RGB").resize(how.image_size[::-1], pillow.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path}: not a readable image ({error})") from error
    return torch.frombuffer(bytearray(pixels.tobytes()), dtype=torch.uint8).view(*how.image_size, 3).permute(2, 0, 1)


def array(path: Path, how: Decoding) -> Tensor:
    """Numbers of an npy file, float32; objects (pickles) are refused."""
    numpy = require("numpy", "train")
    try:
        values = numpy.load(path, allow_pickle=False)
    except DAMAGED as error:
        raise DataError(f"{path}: not a readable npy file without objects ({error})") from error
    if getattr(values, "dtype", None) is None or values.dtype.kind not in "biuf":
        raise DataError(f"{path}: holds no array of numbers; save one with numpy.save")
    tensor: Tensor = torch.from_numpy(numpy.atleast_1d(values.astype(numpy.float32)))
    if not tensor.isfinite().all():
        raise DataError(f"{path}: has {int((~tensor.isfinite()).sum())} values that are NaN or infinite")
    return tensor


def words(path: Path, how: Decoding) -> Tensor:
    """Token ids of a text file; bytes that are not UTF-8 are read as Latin-1."""
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return encode(text, how.text_length, how.text)


#: What reads a file, by its ending.
READERS: dict[str, Callable[[Path, Decoding], Tensor]] = {
    ".wav": sound,
    ".png": image,
    ".jpg": image,
    ".jpeg": image,
    ".npy": array,
    ".txt": words,
}


def decode(path: Path, how: Decoding) -> Tensor:
    """The content of one file."""
    try:
        return READERS[path.suffix.lower()](path, how)
    except OSError as error:
        raise DataError(f"{path}: not readable ({error})") from error


@cache
def _bank(bins: int, window: int, rate: int) -> Tensor:
    return mel_filter_bank(bins, window, rate)
