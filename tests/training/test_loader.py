import os
import signal

import pytest
import torch

from evigrad.data import Sample
from evigrad.training import Hardware
from evigrad.training.environment import environment, peak_memory_mb
from evigrad.training.launch import launch
from evigrad.training.loader import in_order, load
from tests.training.toy import views


class Noisy:
    """A user's data set that draws from the global generator, row by row."""

    modalities, classes, protocol = {"x": (1,)}, ("a",), "noise"

    def __len__(self):
        return 8

    def __getitem__(self, row):
        return Sample({"x": torch.rand(1)}, torch.tensor(0), row)


def rows(batches, workers, seed=(0, 1)):
    return torch.cat([b.inputs["x"] for b in load(Noisy(), batches, torch.device("cpu"), workers, seed)])


def test_augmentation_depends_on_neither_the_number_of_workers_nor_the_start():
    batches = [[3, 1], [0, 2], [4, 5]]
    one, two = rows(batches, workers=1), rows(batches, workers=2)
    assert torch.equal(one, two)
    assert torch.equal(rows(batches[1:], workers=2), one[2:])
    assert not torch.equal(rows(batches, workers=1, seed=(0, 2)), one)


def test_loading_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    list(load(views(6), [[0, 1], [2]], torch.device("cpu")))
    assert torch.equal(torch.rand(1), expected)


def test_evaluation_batches_cover_everything_once():
    parts = [in_order(10, 3, rank, 3) for rank in range(3)]
    assert sorted(i for rank in parts for batch in rank for i in batch) == list(range(10))
    assert max(len(batch) for rank in parts for batch in rank) <= 3


def test_hardware_that_is_not_here_is_explained():
    with pytest.raises(ValueError, match=r"this machine can't run hardware=.*tpu.* Use accelerator='auto'"):
        launch(Hardware(accelerator="tpu"))


def test_the_environment_is_plain_and_complete():
    found = environment()
    assert found["packages"]["torch"] == torch.__version__
    assert found["cores"] >= 1
    assert peak_memory_mb() > 10


class Besieged(Noisy):
    """Its worker gets every signal that a terminal or a scheduler sends to all processes of a run."""

    def __getitem__(self, row):
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        return super().__getitem__(row)


def test_workers_outlive_the_signals_that_ask_a_run_to_stop():
    batches = load(Besieged(), [[0, 1], [2]], torch.device("cpu"), workers=1)
    assert [len(batch) for batch in batches] == [2, 1]
