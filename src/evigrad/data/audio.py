"""Sound: reading wav files, changing the sampling rate, and log-mel spectrograms in plain torch."""

from __future__ import annotations

import math
import wave
from pathlib import Path

import torch
from torch import Tensor

from .errors import DataError


def read_wav(path: str | Path) -> tuple[Tensor, int]:
    """Samples [T] in [-1, 1) and the rate of a PCM wav file (8, 16, 24 or 32 bits); channels are averaged."""
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw, frames = bytearray(file.readframes(file.getnframes())), file.getnframes()
    except (wave.Error, EOFError, RuntimeError) as error:
        why = str(error) or "cut off in its header"
        raise DataError(f"{path}: not a readable PCM wav file ({why}); convert it to 16-bit PCM") from error
    if width > 4 or rate < 1:
        raise DataError(f"{path}: {8 * width} bits at {rate} samples a second; convert it to 16-bit PCM")
    if len(raw) != frames * width * channels:
        raise DataError(f"{path}: cut off, {len(raw)} of {frames * width * channels} bytes of sound; fetch it again")
    if not raw:
        raise DataError(f"{path}: there is no sound in it; remove its row or give another file")
    planes = torch.frombuffer(raw, dtype=torch.uint8).view(-1, width).long()
    whole = (planes << torch.arange(0, 8 * width, 8)).sum(1)
    half = 1 << 8 * width - 1
    # 8-bit samples are unsigned with silence at 128, wider ones are two's complement.
    signed = whole - half if width == 1 else (whole ^ half) - half
    return (signed / half).float().view(-1, channels).mean(1), rate


def resample(samples: Tensor, rate: int, wanted: int) -> Tensor:
    """Samples [T] at another rate, by cutting or extending the spectrum (exact for periodic band-limited sound)."""
    if rate == wanted:
        return samples
    length = max(1, round(len(samples) * wanted / rate))
    spectrum = torch.fft.rfft(samples)
    kept = min(length, len(samples)) // 2 + 1
    spectrum = spectrum[:kept].clone()
    if min(length, len(samples)) % 2 == 0:
        # The highest kept frequency stands for two mirrored ones; it is shared between them.
        spectrum[-1] *= 2.0 if length < len(samples) else 0.5
    resampled: Tensor = torch.fft.irfft(spectrum, length) * (length / len(samples))
    return resampled


def fit_length(samples: Tensor, length: int) -> Tensor:
    """The first ``length`` samples, with silence appended where there are fewer."""
    return torch.nn.functional.pad(samples[:length], (0, max(0, length - len(samples))))


def mel_filter_bank(bins: int, n_fft: int, rate: int, low: float = 0.0, high: float | None = None) -> Tensor:
    r"""Triangular filters [bins, n_fft // 2 + 1], equally wide on the mel scale 2595 log10(1 + f / 700).

    Neighbouring triangles add up to one between the first and the last peak.
    """
    high = rate / 2 if high is None else high
    if not 0 <= low < high <= rate / 2:
        raise DataError(f"low={low}, high={high}: they need 0 <= low < high <= {rate / 2} at {rate} samples a second")
    mels = torch.linspace(_mel(low), _mel(high), bins + 2, dtype=torch.float64)
    edges = 700 * (10 ** (mels / 2595) - 1)
    frequency = torch.arange(n_fft // 2 + 1, dtype=torch.float64) * rate / n_fft
    left, peak, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequency - left) / (peak - left), (right - frequency) / (right - peak)
    return torch.minimum(rising, falling).clamp(min=0).float()


def log_mel(samples: Tensor, bank: Tensor, hop: int, floor: float = 1e-6) -> Tensor:
    """log(floor + mel power) [bins, 1 + (T - n_fft) // hop] of samples [T], Hann windows as long as the bank's FFT."""
    n_fft = 2 * (bank.shape[1] - 1)
    window = torch.hann_window(n_fft, dtype=samples.dtype)
    spectrum = torch.stft(samples, n_fft, hop, window=window, center=False, return_complex=True)
    return (bank @ spectrum.abs().square() + floor).log()


def _mel(frequency: float) -> float:
    return 2595 * math.log10(1 + frequency / 700)
