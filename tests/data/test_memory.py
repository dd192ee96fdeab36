import pytest
import torch

from evigrad.data import Affine, DataError, MultimodalDataset, Views, split_views, stream
from evigrad.data.digits import INFO
from evigrad.data.scaling import interval
from evigrad.data.splitting import stratified
from evigrad.data.wrapped import fetch


def views(count: int = 12) -> Views:
    rng = stream(0)
    inputs = {
        "vector": torch.randn(count, 3, generator=rng) * 5 + 2,
        "image": torch.randint(0, 256, (count, 1, 4, 4), generator=rng, dtype=torch.uint8),
        "text": torch.randint(0, 9, (count, 5), generator=rng),
    }
    present = {"vector": torch.arange(count) % 3 != 0}
    inputs["vector"][~present["vector"]] = torch.nan
    target = torch.arange(count) % 2
    return Views(inputs, target, ("even", "odd"), "all rows", present, {"image": interval(0, 255)})


def rows(count: int = 12) -> dict[str, torch.Tensor]:
    order = torch.arange(count)
    return {"train": order[:6], "validation": order[6:9], "test": order[9:]}


def test_is_a_dataset_with_shapes_and_kinds():
    data = views()
    assert isinstance(data, MultimodalDataset)
    assert data.modalities == {"vector": (3,), "image": (1, 4, 4), "text": (5,)}
    sample = data[1]
    assert sample.inputs["image"].dtype == sample.inputs["vector"].dtype == torch.float32
    assert sample.inputs["text"].dtype == torch.long
    assert torch.equal(sample.inputs["image"], data.inputs["image"][1] / 255)
    assert (sample.index, sample.present["vector"], data[0].present["vector"]) == (1, True, False)


def test_a_batch_equals_its_rows_and_absent_rows_are_zero():
    data = views()
    batch = data.__getitems__([4, 0, 7])
    for at, row in enumerate([4, 0, 7]):
        for name in data.modalities:
            assert torch.equal(batch.inputs[name][at], data[row].inputs[name])
    assert batch.inputs["vector"][1].tolist() == [0, 0, 0]
    assert batch.index.tolist() == [4, 0, 7]


def test_rows_outside_raise_so_that_iterating_ends():
    assert len(list(views())) == 12
    with pytest.raises(IndexError, match="row 12 of a data set with 12 rows"):
        views()[12]


def test_scaling_is_fitted_on_present_training_rows_only():
    splits = split_views(views(), rows(), INFO, "test", "standard", keep=("image",))
    there = splits.train.present["vector"]
    scaled = splits.train.values("vector")[there]
    assert torch.allclose(scaled.mean(0), torch.zeros(3), atol=1e-6)
    assert torch.allclose(scaled.std(0, correction=0), torch.ones(3), atol=1e-6)
    raw = views().inputs["vector"]
    train = raw[:6][there]
    expected = (raw[10] - train.mean(0)) / train.std(0, correction=0)
    assert torch.allclose(splits.test[1].inputs["vector"], expected, atol=1e-6)
    assert torch.equal(splits.test[1].inputs["image"], views()[10].inputs["image"])
    assert torch.equal(splits.test[1].inputs["text"], views().inputs["text"][10])


def test_index_is_the_position_in_the_part():
    splits = split_views(views(), rows(), INFO, "how", "none")
    assert [sample.index for sample in splits.test] == [0, 1, 2]
    assert splits.test.protocol == "digits, test: how"
    assert splits.info.samples == 12


def test_a_row_in_two_parts_is_refused():
    wrong = {**rows(), "test": torch.tensor([0, 11])}
    with pytest.raises(DataError, match="a row is in two parts of the split"):
        split_views(views(), wrong, INFO, "how")


def test_unequal_lengths_and_labels_outside_are_named():
    with pytest.raises(DataError, match="modality 'a' has 3 rows, the labels 4"):
        Views({"a": torch.zeros(3, 1)}, torch.zeros(4), ("x",), "p")
    with pytest.raises(DataError, match=r"row 2: label 5 is not in 0..1"):
        Views({"a": torch.zeros(3, 1)}, torch.tensor([0, 1, 5]), ("x", "y"), "p")


def test_fetch_reads_plain_datasets_sample_by_sample():
    class Plain:
        def __init__(self):
            self.inner = views()

        def __getitem__(self, row):
            return self.inner[row]

    assert torch.equal(fetch(Plain(), [3, 5]).inputs["image"], views().__getitems__([3, 5]).inputs["image"])


def test_selecting_keeps_the_scaler():
    data = views()
    data.affine["vector"] = Affine(torch.tensor(1.0), torch.tensor(2.0))
    kept, _ = stratified(data.target, 0.5, stream(1))
    assert torch.equal(data.select(kept)[1].inputs["vector"], data[int(kept[1])].inputs["vector"])
