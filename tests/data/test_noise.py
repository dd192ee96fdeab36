import pytest
import torch

from evigrad.data import NOISE, DataError, Views, apply_noise, encode, stream, synthetic, whole

SIZE = 2000


def pairs(value: int = 128, size: int = SIZE) -> Views:
    image = torch.full((size, 3, 4, 4), value, dtype=torch.uint8)
    return Views(
        {"rgb": image, "depth": image},
        torch.zeros(size),
        ("x",),
        "pairs",
        affine={n: Bytes() for n in ("rgb", "depth")},
    )


class Bytes:
    """Bytes to [0, 1]."""

    def __call__(self, values):
        return values / 255


def tweets(size: int = 1000) -> Views:
    image = torch.full((size, 3, 4, 4), 128, dtype=torch.uint8)
    text = encode("one two three four five", 8).expand(size, 8)
    return Views({"image": image, "text": text}, torch.zeros(size), ("x",), "tweets", affine={"image": Bytes()})


def views(size: int = SIZE, count: int = 4, missing: float = 0.0):
    signal = {f"v{i}": 1.0 for i in range(count)}
    return synthetic(signal=signal, sizes=(size, 2, 2), missing=missing).train


def table(noisy) -> torch.Tensor:
    return torch.stack(list(noisy.hit.values()), 1)


def test_qmf_hits_each_modality_half_of_the_time_independently():
    hit = table(apply_noise("qmf_rgbd", pairs(), 10, stream(0)))
    counts = torch.bincount(hit.sum(1), minlength=3).double() / SIZE
    assert counts.tolist() == pytest.approx([0.25, 0.5, 0.25], abs=0.04)


def test_qmf_level_is_a_deviation_on_the_scale_of_bytes():
    noisy = apply_noise("qmf_rgbd", pairs(), 10, stream(0))
    values = whole(noisy).inputs["depth"][noisy.hit["depth"]] * 255 - 128
    assert values.std().item() == pytest.approx(10, rel=0.02)
    assert "qmf_rgbd gaussian level 10" in noisy.protocol


def test_qmf_quirks_are_behind_flags():
    plain = whole(apply_noise("qmf_rgbd", pairs(0, 50), 10, stream(0))).inputs["rgb"]
    wrapped = apply_noise("qmf_rgbd", pairs(0, 50), 10, stream(0), lower="wrap", fixed_field=True)
    values = whole(wrapped).inputs
    assert plain.max() < 0.3
    assert values["rgb"].max() > 0.9
    fields = [values[name][wrapped.hit[name]] for name in ("rgb", "depth")]
    assert all(torch.equal(field, fields[0][0]) for name in fields for field in name)
    assert (
        len(
            {
                tuple(row.flatten().tolist())
                for row in plain[apply_noise("qmf_rgbd", pairs(0, 50), 10, stream(0)).hit["rgb"]]
            }
        )
        > 10
    )


def test_qmf_salt_and_pepper_hits_by_level():
    noisy = apply_noise("qmf_rgbd", pairs(), 50, stream(0), kind="salt_and_pepper")
    assert table(noisy).double().mean().item() == pytest.approx(0.25, abs=0.02)
    values = whole(noisy).inputs["rgb"][noisy.hit["rgb"]][:, 0]
    assert ((values == 0) | (values == 1)).double().mean().item() == pytest.approx(0.1, abs=0.02)


def test_qmf_image_and_text():
    noisy = apply_noise("qmf_imagetext", tweets(), 2, stream(0))
    batch = whole(noisy)
    image = batch.inputs["image"][noisy.hit["image"]] * 255 - 128
    assert image.std().item() == pytest.approx(20, rel=0.03)  # ten times the level
    words = batch.inputs["text"][noisy.hit["text"]][:, :5]
    assert (words == 1).double().mean().item() == pytest.approx(0.2, abs=0.03)
    everything = apply_noise("qmf_imagetext", tweets(), 10, stream(0))
    text = whole(everything).inputs["text"]
    assert (text[everything.hit["text"]][:, :5] == 1).all()
    assert torch.equal(text[~everything.hit["text"]], tweets().inputs["text"][~everything.hit["text"]])


def test_the_caption_taken_literally():
    noisy = apply_noise("seed_literal", pairs(), 100, stream(0))
    assert noisy.hit["rgb"].sum() == SIZE / 2
    assert torch.equal(noisy.hit["rgb"], noisy.hit["depth"])
    values = whole(noisy).inputs["rgb"][noisy.hit["rgb"]] * 255 - 128
    assert values.std().item() == pytest.approx(10, rel=0.02)  # level is a variance


def test_ecml_hits_a_tenth_of_the_rows_on_zero_to_all_but_one_views():
    noisy = apply_noise("ecml_noise", views(20_000), 0.5, stream(0))
    count = torch.bincount(table(noisy).sum(1), minlength=5).double()
    assert count[4] == 0
    assert (count[1:4] / 20_000).tolist() == pytest.approx([0.025] * 3, abs=0.004)
    clean = views(20_000)
    noise = (whole(noisy).inputs["v2"] - whole(clean).inputs["v2"])[noisy.hit["v2"]]
    assert noise.std().item() == pytest.approx(0.5, rel=0.02)


def test_fuml_hits_half_of_the_views_of_half_of_the_rows():
    count = table(apply_noise("fuml_noise", views(), 5, stream(0))).sum(1)
    assert torch.bincount(count).tolist() == [SIZE // 2, 0, SIZE // 2]


def test_views_are_chosen_among_those_present():
    data = views(missing=0.5)
    noisy = apply_noise("fuml_noise", data, 1, stream(0), share=1.0)
    present = torch.stack(list(data.present.values()), 1).sum(1)
    assert torch.equal(table(noisy).sum(1), present.clamp(max=2))


def test_level_zero_changes_nothing():
    data = views(50)
    for name in ("ecml_noise", "fuml_noise"):
        assert torch.equal(whole(apply_noise(name, data, 0, stream(0))).inputs["v0"], whole(data).inputs["v0"])


def test_errors():
    assert set(NOISE) == {"qmf_rgbd", "qmf_imagetext", "seed_literal", "ecml_noise", "fuml_noise"}
    with pytest.raises(DataError, match=r"unknown noise protocol 'qmf_rgb'. Did you mean 'qmf_rgbd'\?"):
        apply_noise("qmf_rgb", pairs(), 1, stream(0))
    with pytest.raises(DataError, match=r"unknown kind of noise 'gausian'. Did you mean 'gaussian'\?"):
        apply_noise("qmf_rgbd", pairs(), 1, stream(0), kind="gausian")
    with pytest.raises(DataError, match="share=2: the share of rows must lie between 0 and 1"):
        apply_noise("fuml_noise", views(10), 1, stream(0), share=2)


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("level", [-1, float("nan")])
def test_levels_below_zero_are_named(name, level):
    with pytest.raises(DataError, match=f"noise protocol '{name}': level={level}: give a number from 0"):
        apply_noise(name, views(10), level, stream(0))


def test_unknown_flags_are_named():
    with pytest.raises(DataError, match=r"unknown flag of noise protocol 'qmf_rgbd': 'lowre'. Did you mean 'lower'\?"):
        apply_noise("qmf_rgbd", pairs(), 1, stream(0), lowre="wrap")
