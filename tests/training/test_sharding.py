"""Sharded weights, on the CPU: PyTorch's own ``fully_shard``, since Fabric starts FSDP on GPUs only."""

import types

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from evigrad.training import sharding
from evigrad.training.checkpoint import load_checkpoint, save_checkpoint
from tests.training.processes import in_ranks

pytestmark = pytest.mark.distributed


def build(kind, seed):
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    inner = fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
    optimizer = kind(inner.parameters(), lr=0.1)
    return types.SimpleNamespace(inner=inner, module=module, plain_optimizer=optimizer, sharded=True)


def step(network):
    network.plain_optimizer.zero_grad()
    network.inner(torch.arange(8.0).view(2, 4)).square().sum().backward()
    network.plain_optimizer.step()


def roundtrip(rank, folder, kind):
    dist.init_process_group("gloo")
    trained, restored = build(kind, 0), build(kind, 1)
    step(trained)
    weights = sharding.network_state(trained)
    moments, numbers = sharding.optimizer_state(trained)
    if rank == 0:
        assert weights["network.0.weight"].shape == (8, 4)
        save_checkpoint(folder / "a", weights | moments, {"optimizer": numbers})
    dist.barrier()
    tensors, values = load_checkpoint(folder / "a")
    sharding.load_network(restored, tensors)
    sharding.load_optimizer(restored, tensors, values["optimizer"])
    step(trained)
    step(restored)
    expected, found = sharding.network_state(trained), sharding.network_state(restored)
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", [torch.optim.AdamW, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)])
def test_whole_weights_are_saved_and_go_back_into_shards(tmp_path, kind):
    assert in_ranks(2, lambda rank: roundtrip(rank, tmp_path, kind)) == [0, 0]
