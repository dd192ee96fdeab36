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


def png(folder, image):
    image.save(folder / "p.png")
    return decode(folder / "p.png", Decoding(image_size=(4, 4)))


def test_sixteen_bits_are_reduced_not_cut_off(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for value in (0, 255, 256, 30000, 65535):
        assert png(tmp_path, image.fromarray(np.full((6, 5), value, np.uint16))).unique().tolist() == [value // 256]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA"])
def test_every_mode_of_an_image_becomes_three_channels_of_bytes(tmp_path, mode):
    image = pytest.importorskip("PIL.Image")
    pixels = png(tmp_path, image.fromarray(np.full((6, 5, 3), 255, np.uint8)).convert(mode))
    assert pixels.shape == (3, 4, 4)
    assert pixels.eq(255).all()


def test_printers_colours_and_the_first_of_several_frames(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((8, 8, 3), 100, np.uint8)).convert("CMYK").save(tmp_path / "c.jpg")
    assert (decode(tmp_path / "c.jpg", Decoding(image_size=(4, 4))).float() - 100).abs().max() <= 3  # jpeg is lossy
    first, second = (image.fromarray(np.full((6, 5, 3), value, np.uint8)) for value in (10, 200))
    first.save(tmp_path / "a.png", save_all=True, append_images=[second])
    assert decode(tmp_path / "a.png", Decoding(image_size=(4, 4))).unique().tolist() == [10]


def test_an_image_that_claims_to_be_huge_is_named(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (20, 20)).save(tmp_path / "huge.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"huge.png: not a readable image \(Image size \(400 pixels\) exceeds limit"):
        decode(tmp_path / "huge.png", Decoding())


def test_arrays_without_a_value_or_too_large_for_float32(tmp_path):
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    with pytest.raises(DataError, match=r"none.npy: holds no array of numbers; save one with numpy.save"):
        decode(tmp_path / "none.npy", Decoding())
    np.save(tmp_path / "large.npy", np.array([1.0, 1e300]))
    with pytest.raises(DataError, match=r"large.npy: has 1 values that are NaN or infinite"):
        decode(tmp_path / "large.npy", Decoding())


def test_a_folder_named_like_a_file_and_an_empty_text(tmp_path):
    (tmp_path / "d.wav").mkdir()
    with pytest.raises(DataError, match=r"d.wav: not readable \(.*Is a directory"):
        decode(tmp_path / "d.wav", Decoding())
    (tmp_path / "t.txt").write_bytes(b"")
    assert decode(tmp_path / "t.txt", Decoding(text_length=3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": 0}, "rate=0: give a whole number from 1"),
        ({"rate": "8000"}, "rate='8000': give a whole number from 1"),
        ({"hop": 0}, "hop=0: give a whole number from 1"),
        ({"text_length": -1}, "text_length=-1: give a whole number from 1"),
        ({"image_size": 4}, r"image_size=4: give \(height, width\), two whole numbers from 1"),
        ({"image_size": (4, 0)}, r"image_size=\(4, 0\): give \(height, width\)"),
        ({"window": 401}, "window=401: an even number of samples is needed; try 402"),
        (
            {"seconds": 0.01},
            "seconds=0.01: at rate=16000 that is shorter than one window of 512 samples; give",
        ),
        ({"text": "wrods"}, r"unknown unit of text 'wrods'. Did you mean 'words'\?"),
    ],
)
def test_options_that_cannot_be_are_named_before_any_file_is_opened(options, text):
    with pytest.raises(DataError, match=text):
        Decoding(**options)


def test_the_shortest_sound_is_one_window(tmp_path):
    path = write_wav(tmp_path / "a.wav", [0.1] * 10)
    assert decode(path, Decoding(rate=8000, seconds=0.008, window=64, mel_bins=4)).shape == (1, 4, 1)
