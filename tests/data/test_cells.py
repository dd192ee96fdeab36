import numpy as np
import pytest
import torch

from evigrad.data import DataError, Decoding, encode
from evigrad.data.audio import log_mel, mel_filter_bank
from evigrad.data.cells import decode
from tests.data.files import write_png, write_wav


def test_sound_is_resampled_cut_and_transformed(tmp_path):
    tone = 0.5 * np.sin(2 * np.pi * 500 * np.arange(8000) / 8000)
    how = Decoding(rate=16000, seconds=0.5, mel_bins=20)
    from_8k = decode(write_wav(tmp_path / "a.wav", tone), how)
    finer = 0.5 * np.sin(2 * np.pi * 500 * np.arange(16000) / 16000)
    expected = log_mel(torch.from_numpy(finer[:8000]).float(), mel_filter_bank(20, 512, 16000), 160)
    assert from_8k.shape == (1, *expected.shape) == (1, 20, 1 + (8000 - 512) // 160)
    loud = expected > -5
    assert torch.allclose(from_8k[0][loud], expected[loud], atol=0.05)


def test_images_become_rgb_of_one_size(tmp_path):
    pixels = np.zeros((4, 6, 3))
    pixels[:, 3:] = [255, 128, 0]
    image = decode(write_png(tmp_path / "a.PNG", pixels), Decoding(image_size=(4, 6)))
    assert image.dtype == torch.uint8
    assert torch.equal(image, torch.from_numpy(pixels).byte().permute(2, 0, 1))
    grey = write_png(tmp_path / "grey.png", np.full((5, 5), 7))
    assert torch.equal(decode(grey, Decoding(image_size=(2, 3))), torch.full((3, 2, 3), 7, dtype=torch.uint8))


def test_arrays_and_texts(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    np.save(tmp_path / "one.npy", np.float64(4))
    assert decode(tmp_path / "a.npy", Decoding()).tolist() == [0.0, 1.0, 2.0]
    assert decode(tmp_path / "one.npy", Decoding()).tolist() == [4.0]
    (tmp_path / "a.txt").write_bytes("café ok".encode("latin-1"))
    assert torch.equal(decode(tmp_path / "a.txt", Decoding(text_length=4)), encode("café ok", 4))


def test_broken_files_are_named(tmp_path):
    for name in ("a.png", "a.npy", "a.wav"):
        (tmp_path / name).write_bytes(b"\x89PNG junk")
        with pytest.raises(DataError, match=f"{name}: not a readable"):
            decode(tmp_path / name, Decoding())
    image = write_png(tmp_path / "cut.png", np.random.default_rng(0).integers(0, 256, (40, 40, 3)))
    image.write_bytes(image.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"cut.png: not a readable image"):
        decode(image, Decoding())
    np.save(tmp_path / "nan.npy", np.array([1.0, np.nan]))
    with pytest.raises(DataError, match=r"nan.npy: has 1 values that are NaN or infinite"):
        decode(tmp_path / "nan.npy", Decoding())
    np.save(tmp_path / "object.npy", np.array([None], dtype=object))
    with pytest.raises(DataError, match=r"object.npy: not a readable npy file without objects"):
        decode(tmp_path / "object.npy", Decoding())
    np.save(tmp_path / "text.npy", np.array(["a"]))
    with pytest.raises(DataError, match=r"text.npy: holds no array of numbers"):
        decode(tmp_path / "text.npy", Decoding())
    with pytest.raises(DataError, match=r"gone.txt: not readable"):
        decode(tmp_path / "gone.txt", Decoding())


def test_an_array_with_one_damaged_byte_of_its_head_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    good = (tmp_path / "a.npy").read_bytes()
    refused = 0
    for at in range(128):
        for flip in (0xFF, 0x01, 0x80):
            damaged = bytearray(good)
            damaged[at] ^= flip
            (tmp_path / "a.npy").write_bytes(damaged)
            try:
                decode(tmp_path / "a.npy", Decoding())
            except DataError:  # anything else that it raises fails the test
                refused += 1
    assert refused > 100
