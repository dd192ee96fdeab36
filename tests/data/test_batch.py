import pickle

import pytest
import torch

from evigrad.data import Batch, DataError, Sample, collate


def sample(index: int, present: bool = True, width: int = 2) -> Sample:
    return Sample(
        {"a": torch.full((width,), float(index)), "b": torch.full((3,), torch.nan if not present else 1.0)},
        torch.tensor(index % 2),
        index,
        {"b": present},
    )


def test_stacks_in_order_and_fills_in_presence():
    batch = collate([sample(3), sample(0, present=False)])
    assert batch.inputs["a"].tolist() == [[3, 3], [0, 0]]
    assert batch.present["a"].tolist() == [True, True]
    assert batch.present["b"].tolist() == [True, False]
    assert batch.target.tolist() == [1, 0]
    assert batch.index.tolist() == [3, 0]
    assert batch.target.dtype == batch.index.dtype == torch.long


def test_absent_rows_are_zero_whatever_they_held():
    batch = collate([sample(1), sample(2, present=False)])
    assert batch.inputs["b"].tolist() == [[1, 1, 1], [0, 0, 0]]


def test_a_ready_batch_passes_through():
    batch = collate([sample(0)])
    assert collate(batch) is batch


def test_shapes_that_differ_are_named():
    with pytest.raises(
        DataError, match=r"modality 'a': sample 5 is \(4,\) torch.float32, sample 1 is \(2,\).*pad or crop"
    ):
        collate([sample(1), sample(5, width=4)])


def test_modalities_that_differ_are_named():
    other = Sample({"a": torch.zeros(2)}, torch.tensor(0), 7)
    with pytest.raises(DataError, match=r"sample 7 has modalities \['a'\].*present\[name\] = False"):
        collate([sample(1), other])


def test_moves_and_keeps_everything():
    batch = collate([sample(0), sample(1)])
    moved = batch.to("meta")
    assert isinstance(moved, Batch)
    tensors = [moved.target, moved.index, *moved.inputs.values(), *moved.present.values()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert len(moved) == 2


def test_survives_a_worker():
    batch = pickle.loads(pickle.dumps(collate([sample(0), sample(1, present=False)])))
    assert batch.present["b"].tolist() == [True, False]
