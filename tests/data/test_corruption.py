import math

import pytest
import torch

from evigrad.data import BlankWords, DataError, FeatureNoise, PixelNoise, SaltAndPepper, TimeMask, encode, stream


def test_feature_noise_has_its_deviation():
    noise = FeatureNoise(2.5)(torch.full((100_000,), 3.0), stream(0)) - 3
    assert noise.mean().item() == pytest.approx(0, abs=0.04)
    assert noise.std().item() == pytest.approx(2.5, rel=0.01)


def test_pixel_noise_is_shared_by_the_channels_and_has_its_deviation():
    grey = torch.full((3, 300, 300), 128, dtype=torch.uint8)
    noisy = PixelNoise(10)(grey, stream(0))
    assert noisy.dtype == torch.uint8
    assert torch.equal(noisy[0], noisy[1])
    difference = noisy[0].float() - 128
    assert difference.std().item() == pytest.approx(math.sqrt(100 + 1 / 12), rel=0.01)  # with rounding to bytes
    assert difference.mean().item() == pytest.approx(-0.5, abs=0.1)  # bytes are cut, not rounded


def test_bytes_and_floats_are_hit_alike():
    image = torch.randint(0, 256, (3, 20, 20), generator=stream(1), dtype=torch.uint8)
    for damage in (PixelNoise(30), PixelNoise(30, lower="wrap"), SaltAndPepper(0.2)):
        from_bytes, from_floats = damage(image, stream(2)), damage(image / 255, stream(2))
        assert torch.equal(from_bytes, (from_floats * 255).round().to(torch.uint8))
        assert torch.equal(image, torch.randint(0, 256, (3, 20, 20), generator=stream(1), dtype=torch.uint8))


def test_wrap_makes_black_areas_bright_and_clip_does_not():
    black = torch.zeros(3, 200, 200, dtype=torch.uint8)
    wrapped, clipped = PixelNoise(10, lower="wrap")(black, stream(0)), PixelNoise(10)(black, stream(0))
    # Below -1 the cast wraps: P(N(0, 100) <= -1) = 0.46.
    assert (wrapped > 200).double().mean().item() == pytest.approx(0.46, abs=0.01)
    assert (clipped > 200).sum() == 0
    assert torch.equal(wrapped[wrapped <= 200], clipped[wrapped <= 200])


def test_wrap_is_truncation_then_modulo():
    image = torch.randint(0, 30, (1, 50, 50), generator=stream(3)).to(torch.uint8)
    noise = 20 * torch.randn(50, 50, generator=stream(4))
    expected = [
        [min(255, int(p + n)) % 256 for p, n in zip(*rows, strict=True)] for rows in zip(image[0], noise, strict=True)
    ]
    assert PixelNoise(20, lower="wrap")(image, stream(4))[0].tolist() == expected


def test_salt_and_pepper_density():
    grey = torch.full((3, 300, 300), 0.5)
    hit = SaltAndPepper(0.1)(grey, stream(0))
    assert torch.equal(hit[0], hit[2])
    assert (hit[0] == 0).double().mean().item() == pytest.approx(0.05, abs=0.005)
    assert (hit[0] == 1).double().mean().item() == pytest.approx(0.05, abs=0.005)


def test_blank_words_equal_the_text_with_underscores():
    words = " ".join(f"word{i}" for i in range(2000))
    ids = encode(words, 2100)
    blanked = BlankWords(0.3)(ids, stream(0))
    hit = blanked != ids
    assert hit[:2000].double().mean().item() == pytest.approx(0.3, abs=0.03)
    assert not hit[2000:].any()
    text = " ".join("_" if h else word for h, word in zip(hit, words.split(), strict=False))
    assert torch.equal(encode(text, 2100), blanked)
    everything = BlankWords(1.0)(ids, stream(0))
    assert torch.equal(everything, encode("_ " * 2000, 2100))
    assert torch.equal(BlankWords(0.0)(ids, stream(0)), ids)


def test_time_mask_is_one_window_anywhere():
    sound = torch.randn(64, 50, generator=stream(0))
    starts = set()
    for seed in range(300):
        masked = TimeMask(0.2)(sound, stream(seed))
        silent = (masked == sound.min()).all(0)
        columns = silent.nonzero()[:, 0]
        assert len(columns) == 10
        assert columns[-1] - columns[0] == 9
        assert torch.equal(masked[:, ~silent], sound[:, ~silent])
        starts.add(int(columns[0]))
    assert starts == set(range(41))


def test_errors():
    with pytest.raises(DataError, match=r"unknown value of lower 'warp'. Did you mean 'wrap'\?"):
        PixelNoise(1, lower="warp")
    with pytest.raises(DataError, match=r"needs an image \[channels, H, W\]"):
        PixelNoise(1)(torch.zeros(5), stream(0))
    with pytest.raises(DataError, match=r"values from -1 to 1; apply it before normalising, in \[0, 1\]"):
        PixelNoise(1)(torch.tensor([[[-1.0, 1.0]]]), stream(0))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda: FeatureNoise(-1.0), "std=-1.0: a standard deviation is a number from 0"),
        (lambda: PixelNoise(math.nan), "std=nan: a standard deviation is a number from 0"),
        (lambda: SaltAndPepper(3), "density=3: it must lie between 0 and 1"),
        (lambda: BlankWords(-0.1), "probability=-0.1: it must lie between 0 and 1"),
        (lambda: TimeMask(1.5), "share=1.5: it must lie between 0 and 1"),
        (
            lambda: FeatureNoise(1.0)(torch.ones(3).long(), stream(0)),
            r"of type torch.int64; it needs floats, not tokens",
        ),
        (
            lambda: BlankWords(1.0)(torch.ones(3), stream(0)),
            r"of type torch.float32; it needs token ids, whole numbers",
        ),
    ],
)
def test_damage_that_cannot_be_is_named(damage, text):
    with pytest.raises(DataError, match=text):
        damage()
