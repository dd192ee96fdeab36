import pytest
import torch
from torch.testing import assert_close

from evigrad.calibration.inputs import check_values, read

WIDTHS = {"audio": 3, "video": 2}
AUDIO, VIDEO, LABELS = torch.randn(4, 3), torch.randn(4, 2), torch.tensor([0, 1, 2, 0])


def reading(features=None, target=LABELS, present=None, loss="cross_entropy", classes=3):
    return read(features or {"audio": AUDIO, "video": VIDEO}, target, present, WIDTHS, loss, classes)


def test_two_dimensional_features_pass_as_they_are():
    inputs = reading()
    assert_close(inputs.features["audio"], AUDIO)
    assert_close(inputs.target, LABELS)
    assert inputs.shape == (4,)
    assert all(mask.all() and mask.shape == (4,) for mask in inputs.present.values())


def test_order_is_that_of_the_heads():
    assert list(reading({"video": VIDEO, "audio": AUDIO}).features) == ["audio", "video"]


def test_leading_dimensions_become_samples():
    features = {"audio": torch.randn(2, 5, 3), "video": torch.randn(2, 5, 2)}
    target = torch.randint(3, (2, 5))
    inputs = reading(features, target)
    assert_close(inputs.features["video"][7], features["video"][1, 2])
    assert inputs.target[7] == target[1, 2]
    assert inputs.shape == (2, 5)


def test_a_mask_of_samples_holds_for_all_their_positions():
    features = {"audio": torch.ones(2, 3, 3), "video": torch.ones(2, 3, 2)}
    each = torch.tensor([[True, False, True], [False, False, True]])
    inputs = reading(features, torch.zeros(2, 3).long(), {"audio": torch.tensor([True, False]), "video": each})
    assert inputs.present["audio"].tolist() == [True] * 3 + [False] * 3
    assert inputs.present["video"].tolist() == each.flatten().tolist()


def test_absent_rows_are_blanked_whatever_stands_there():
    audio = AUDIO.clone()
    audio[1] = torch.nan
    inputs = reading({"audio": audio, "video": VIDEO}, present={"audio": torch.tensor([True, False, True, True])})
    assert (inputs.features["audio"][1] == 0).all()
    assert_close(inputs.features["audio"][[0, 2, 3]], AUDIO[[0, 2, 3]])
    assert_close(inputs.features["video"], VIDEO)
    check_values(inputs, "cross_entropy", 3)


def test_a_modality_left_out_is_absent_everywhere():
    for present in (None, {"video": torch.ones(4, dtype=torch.bool)}):  # a mask can't bring it back
        inputs = reading({"audio": AUDIO.double()}, present=present)
        assert not inputs.present["video"].any()
        assert_close(inputs.features["video"], torch.zeros(4, 2).double())


@pytest.mark.parametrize(
    ("loss", "classes", "target", "wanted"),
    [
        ("cross_entropy", 3, LABELS.int(), LABELS),
        ("cross_entropy", 3, torch.eye(4, 3), torch.eye(4, 3)),
        ("binary", 3, torch.eye(4, 3).long(), torch.eye(4, 3)),
        ("binary", 3, torch.eye(4, 3).bool(), torch.eye(4, 3)),
        ("square", 1, torch.arange(4), torch.arange(4.0)[:, None]),
        ("square", 1, torch.arange(4.0).double(), torch.arange(4.0).double()[:, None]),
        ("binary", 1, torch.ones(4, 1), torch.ones(4, 1)),
    ],
    ids=["labels", "probabilities", "whole numbers", "booleans", "one output", "in double", "with its dimension"],
)
def test_targets_of_every_kind(loss, classes, target, wanted):
    assert_close(reading(target=target, loss=loss, classes=classes).target, wanted)


@pytest.mark.parametrize(
    ("loss", "target"),
    [
        ("cross_entropy", torch.zeros(4)),  # floats without a class dimension
        ("cross_entropy", torch.zeros(4, 3).long()),
        ("cross_entropy", torch.zeros(4, 1).long()),
        ("cross_entropy", torch.zeros(3).long()),
        ("binary", torch.zeros(4)),
        ("square", torch.zeros(4, 2)),
    ],
)
def test_targets_of_no_kind(loss, target):
    with pytest.raises(ValueError, match=r"`target` has shape .* and dtype .*; with loss='.*' it must be"):
        reading(target=target, loss=loss)


def test_sound_values_pass():
    check_values(reading(), "cross_entropy", 3)
    check_values(reading(target=torch.tensor([[0.0, 1, 0.5]] * 4), loss="binary"), "binary", 3)
    check_values(reading(target=torch.full((4, 3), -7.0), loss="square"), "square", 3)


def test_the_first_broken_modality_is_named_with_its_count():
    video = VIDEO.clone()
    video[[0, 3], 1] = torch.tensor([torch.nan, torch.inf])
    video[0, 0] = torch.nan  # the same sample twice is one
    with pytest.raises(ValueError, match=r"`features\['video'\]` holds NaN or infinite values in 2 of 4 samples"):
        check_values(reading({"audio": AUDIO, "video": video}), "cross_entropy", 3)


def test_the_range_of_wrong_labels_is_shown():
    with pytest.raises(ValueError, match=r"`target` has 2 of 4 labels outside 0..2: they run from -1 to 3"):
        check_values(reading(target=torch.tensor([-1, 0, 3, 2])), "cross_entropy", 3)
