import contextlib
import math
import wave

import numpy as np
import pytest
import torch

from evigrad.data import DataError, stream
from evigrad.data.audio import fit_length, log_mel, mel_filter_bank, read_wav, resample
from tests.data.files import write_wav


def noise(length: int) -> torch.Tensor:
    return torch.rand(length, generator=stream(0), dtype=torch.float64) * 1.8 - 0.9


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_reads_every_width_of_pcm(tmp_path, width):
    samples = noise(200)
    read, rate = read_wav(write_wav(tmp_path / "a.wav", samples, rate=11025, width=width))
    assert rate == 11025
    assert read.tolist() == pytest.approx(samples.tolist(), abs=0.51 / (1 << 8 * width - 1) + 1e-7)


def test_extremes_and_signs(tmp_path):
    read, _ = read_wav(write_wav(tmp_path / "a.wav", [-1.0, 0.0, 1.0, -0.5]))
    assert read.tolist() == [-1.0, 0.0, 32767 / 32768, -0.5]


def test_channels_are_averaged(tmp_path):
    read, _ = read_wav(write_wav(tmp_path / "a.wav", [0.5, 0.25, -0.5, 0.5], channels=2))
    assert read.tolist() == [0.375, 0.0]


def test_soundfile_reads_the_same(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(300).numpy(), 8000, subtype="PCM_24")
    assert torch.equal(read_wav(path)[0], torch.from_numpy(soundfile.read(path, dtype="float32")[0]))


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "bad.wav"
    path.write_bytes(b"RIFF nothing")
    with pytest.raises(DataError, match=r"bad.wav: not a readable PCM wav file .* convert it to 16-bit PCM"):
        read_wav(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"bad.wav: not a readable PCM wav file"):
        read_wav(path)
    whole = write_wav(tmp_path / "cut.wav", noise(500)).read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:600])
    with pytest.raises(DataError, match=r"cut.wav: cut off, 556 of 1000 bytes of sound; fetch it again"):
        read_wav(tmp_path / "cut.wav")
    with wave.open(str(tmp_path / "empty.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
    with pytest.raises(DataError, match=r"empty.wav: there is no sound in it"):
        read_wav(tmp_path / "empty.wav")


@pytest.mark.parametrize(
    ("length", "wanted"), [(100, 37), (37, 100), (100, 50), (50, 100), (101, 50), (50, 101), (64, 64)]
)
def test_resampling_equals_scipy(length, wanted):
    signal = pytest.importorskip("scipy.signal")
    samples = noise(length)
    assert resample(samples, length, wanted).numpy() == pytest.approx(
        signal.resample(samples.numpy(), wanted), abs=1e-12
    )


def test_resampling_keeps_a_tone():
    times = torch.arange(8000, dtype=torch.float64) / 8000
    finer = torch.arange(16000, dtype=torch.float64) / 16000
    tone = resample((2 * math.pi * 440 * times).sin(), 8000, 16000)
    assert torch.allclose(tone, (2 * math.pi * 440 * finer).sin(), atol=1e-9)


def test_lengths():
    assert fit_length(torch.ones(3), 5).tolist() == [1, 1, 1, 0, 0]
    assert fit_length(torch.ones(7), 5).tolist() == [1] * 5


def naive_bank(bins: int, n_fft: int, rate: int, low: float, high: float) -> np.ndarray:
    """Each triangle drawn point by point by linear interpolation."""
    mel = lambda hertz: 2595 * math.log10(1 + hertz / 700)  # noqa: E731
    hertz = lambda m: 700 * (10 ** (m / 2595) - 1)  # noqa: E731
    points = [hertz(mel(low) + (mel(high) - mel(low)) * i / (bins + 1)) for i in range(bins + 2)]
    return np.array(
        [
            [np.interp(k * rate / n_fft, points[b : b + 3], [0, 1, 0]) for k in range(n_fft // 2 + 1)]
            for b in range(bins)
        ]
    )


@pytest.mark.parametrize(
    ("bins", "n_fft", "rate", "low", "high"),
    [(8, 64, 8000, 0.0, 4000.0), (64, 256, 8000, 50.0, 4000.0), (20, 512, 16000, 60.0, 7600.0)],
)
def test_filter_bank_equals_interpolated_triangles(bins, n_fft, rate, low, high):
    bank = mel_filter_bank(bins, n_fft, rate, low, high)
    assert bank.shape == (bins, n_fft // 2 + 1)
    assert bank.numpy() == pytest.approx(naive_bank(bins, n_fft, rate, low, high), abs=1e-6)


def test_filters_add_up_to_one_between_the_first_and_the_last_peak():
    bank = mel_filter_bank(10, 512, 8000)
    peaks = bank.argmax(1)
    assert bank.sum(0)[peaks[0] + 1 : peaks[-1]].tolist() == pytest.approx(
        [1] * int(peaks[-1] - peaks[0] - 1), abs=1e-5
    )


def test_log_mel_equals_a_discrete_fourier_transform_by_hand():
    n_fft, hop, rate = 32, 12, 8000
    samples, bank = noise(100), mel_filter_bank(6, 32, 8000)
    ours = log_mel(samples.float(), bank, hop)
    frames = [samples[start : start + n_fft].numpy() for start in range(0, 100 - n_fft + 1, hop)]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    basis = np.exp(-2j * np.pi * np.outer(np.arange(n_fft // 2 + 1), np.arange(n_fft)) / n_fft)
    power = np.stack([np.abs(basis @ (frame * window)) ** 2 for frame in frames], 1)
    expected = np.log(naive_bank(6, n_fft, rate, 0.0, 4000.0) @ power + 1e-6)
    assert ours.shape == (6, 6)
    assert ours.numpy() == pytest.approx(expected, abs=1e-4)


def test_silence_is_the_floor():
    assert torch.allclose(log_mel(torch.zeros(100), mel_filter_bank(6, 32, 8000), 8), torch.tensor(math.log(1e-6)))


def test_limits_of_the_bank():
    with pytest.raises(DataError, match=r"low=0.0, high=5000: they need 0 <= low < high <= 4000.0 at 8000 samples"):
        mel_filter_bank(8, 64, 8000, high=5000)


def test_equals_the_recorded_log_mel_of_real_clips(real_data):
    with np.load(real_data / "avdigits" / "fsdd.npz") as arrays:
        fsdd = {key: arrays[key] for key in ("wave", "offset", "logmel_u8", "logmel_range")}
    low, high = fsdd["logmel_range"]
    bank = mel_filter_bank(64, 256, 8000, low=50.0)
    for i in range(0, 3000, 100):
        clip = torch.from_numpy(fsdd["wave"][fsdd["offset"][i] : fsdd["offset"][i + 1]] / 32768).float()
        values = log_mel(fit_length(clip, 256 + 63 * 125), bank, 125)
        bytes_ = ((values - low) / (high - low) * 255).clamp(0, 255)
        assert (bytes_ - torch.from_numpy(fsdd["logmel_u8"][i])).abs().max() < 1.01


def test_headers_that_state_the_impossible_are_named(tmp_path):
    good = write_wav(tmp_path / "a.wav", [0.1] * 800).read_bytes()

    def refused(at: int, raw: bytes, text: str) -> None:
        (tmp_path / "b.wav").write_bytes(good[:at] + raw + good[at + len(raw) :])
        with pytest.raises(DataError, match=text):
            read_wav(tmp_path / "b.wav")

    refused(24, bytes(4), r"b.wav: 16 bits at 0 samples a second; convert it to 16-bit PCM")
    refused(32, b"\x08\x00\x40\x00", r"b.wav: 64 bits at 8000 samples a second; convert it to 16-bit PCM")
    refused(20, b"\x03\x00", r"b.wav: not a readable PCM wav file \(unknown format: 3\); convert it to 16-bit PCM")
    for at in range(44):
        for flip in (0xFF, 0x80, 0x01):
            damaged = bytearray(good)
            damaged[at] ^= flip
            (tmp_path / "b.wav").write_bytes(damaged)
            with contextlib.suppress(DataError):  # anything else that it raises fails the test
                read_wav(tmp_path / "b.wav")
