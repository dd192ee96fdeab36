"""Two processes that share each batch train as one process does: every method, with and without accumulation."""

import pytest
import torch

from evigrad.methods import METHODS
from tests.properties.methods import assert_close, assert_same
from tests.properties.ranks import MICRO, RANKS, alone, work

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(work, (str(folder),), nprocs=RANKS)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(RANKS)]


@pytest.mark.parametrize("micro", MICRO)
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_equal_one(trained, name, micro):
    first, second = (results[f"{name}/{micro}"] for results in trained)
    assert_same(second, first)
    assert_close(first, alone(name, micro))
