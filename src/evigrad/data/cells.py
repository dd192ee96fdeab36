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
from .errors import DataError, nearest, require
from .text import VOCABULARY, encode


@dataclass(frozen=True)
class Decoding:
    """How files become tensors of one shape.

    Images: [3, H, W] bytes; those of 16 bits are reduced to 8. Sound has to be PCM and becomes log-mel [1, bins,
    frames]. Text: ids. Arrays: float32 as they are, one shape in a column.

    Args:
        image_size: (H, W) that images are resized to; 224 is what ResNets are used with.
        rate: Sound is resampled to that many samples a second; speech has little above 8 kHz.
        seconds: The first so many of a sound; shorter ones are filled up with silence.
        mel_bins: Of a spectrogram.
        window: Samples in a window; 512 at 16 kHz are 32 ms.
        hop: Samples from one window to the next; 160 at 16 kHz are 10 ms.
        text_length: Token ids a text; longer ones are cut.
        text: "words" or "characters".
    """

    image_size: tuple[int, int] = (224, 224)
    rate: int = 16000
    seconds: float = 3.0
    mel_bins: int = 64
    window: int = 512
    hop: int = 160
    text_length: int = 64
    text: str = "words"

    def __post_init__(self) -> None:
        for name in ("rate", "mel_bins", "window", "hop", "text_length"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise DataError(f"{name}={value!r}: give a whole number from 1")
        # They come from configuration files, where the annotations bind nobody.
        size: object = self.image_size
        seconds: object = self.seconds
        if not isinstance(size, (tuple, list)) or len(size) != 2 or not all(isinstance(n, int) and n > 0 for n in size):
            raise DataError(f"image_size={size!r}: give (height, width), two whole numbers from 1")
        if self.window % 2:
            raise DataError(f"window={self.window}: an even number of samples is needed; try {self.window + 1}")
        if not isinstance(seconds, (int, float)) or not round(seconds * self.rate) >= self.window:
            raise DataError(
                f"seconds={self.seconds!r}: at rate={self.rate} that is shorter than one window of {self.window} "
                f"samples; give at least {self.window / self.rate:g}"
            )
        if self.text not in VOCABULARY:
            raise nearest("unit of text", self.text, VOCABULARY)


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
            eight = opened.point(lambda value: value / 256, "L") if opened.mode.startswith("I;16") else opened
            pixels = eight.convert("RGB").resize(tuple(how.image_size)[::-1], pillow.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise DataError(f"{path}: not a readable image ({error})") from error
    return torch.frombuffer(bytearray(pixels.tobytes()), dtype=torch.uint8).view(*how.image_size, 3).permute(2, 0, 1)


def array(path: Path, how: Decoding) -> Tensor:
    """Numbers of an npy file, float32; objects (pickles) are refused."""
    numpy = require("numpy", "train")
    try:
        values = numpy.load(path, allow_pickle=False)
    except DAMAGED as error:
        raise DataError(f"{path}: not a readable npy file without objects ({error})") from error
    if getattr(values, "dtype", None) is None or values.dtype.kind not in "biuf" or not values.size:
        raise DataError(f"{path}: holds no array of numbers; save one with numpy.save")
    with numpy.errstate(over="ignore"):  # what does not fit becomes infinite, and is reported below
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
