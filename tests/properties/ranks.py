"""Training in two processes with plain DistributedDataParallel, to compare with one process."""

from contextlib import AbstractContextManager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from evigrad.methods import METHODS
from tests.properties.toys import VECTORS, Dividing, ToyBatch, prepared, toy_batches, toy_network, train, weights

RANKS = 2
MICRO = (1, 2)


class Shared(Dividing):
    """What a loop under DistributedDataParallel lends."""

    world_size = RANKS

    def __init__(self, network: DistributedDataParallel, micro: int) -> None:
        super().__init__(micro)
        self.network = network

    def all_reduce(self, tensor: Tensor, operation: str = "mean") -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total / RANKS if operation == "mean" else total

    def no_sync(self) -> AbstractContextManager[None]:
        return self.network.no_sync()


def batches() -> list[ToyBatch]:
    """Modalities are missing here and there; in the second batch one is missing from all of the second rank."""
    drawn = toy_batches(4, shapes=VECTORS, missing=0.3)
    drawn[1].present["words"][4:] = False
    return drawn


def as_seen(batch: ToyBatch, micro: int) -> ToyBatch:
    """The rows in the order in which one process sees the micro-batches that the ranks see together."""
    return batch.rows(torch.arange(8).view(RANKS, micro, -1).transpose(0, 1).flatten())


def alone(name: str, micro: int) -> dict[str, Tensor]:
    """The weights after training in one process."""
    network = toy_network(VECTORS)
    train(prepared(name, network), network, [as_seen(batch, micro) for batch in batches()], micro=micro)
    return weights(network)


def together(name: str, micro: int, rank: int) -> nn.Module:
    """The network after training on this rank's half of every batch."""
    network = toy_network(VECTORS)
    method = prepared(name, network)
    wrapped = DistributedDataParallel(network, gradient_as_bucket_view=micro > 1)
    mine = [batch.rows(slice(4 * rank, 4 * rank + 4)) for batch in batches()]
    train(method, wrapped, mine, micro=micro, surgery=Shared(wrapped, micro))
    return network


def work(rank: int, folder: str) -> None:
    """One process of the group: every method, results to a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    results = {f"{name}/{micro}": weights(together(name, micro, rank)) for name in METHODS for micro in MICRO}
    torch.save(results, Path(folder) / f"rank{rank}.pt")
    dist.destroy_process_group()
