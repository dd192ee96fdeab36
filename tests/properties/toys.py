"""Small networks, data and a plain training loop, for the properties that every method and fusion must have."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evigrad.methods import METHODS, Method, Surgery, build_method
from evigrad.networks import Concatenation, MultimodalNetwork, build_network

CLASSES = 4
SHAPES = {"sound": (1, 8, 8), "image": (12,), "words": (5, 3)}
VECTORS = {"sound": (6,), "image": (12,), "words": (5,)}
OPTIONS = {"words": {"width": 8, "heads": 2, "layers": 1}, "sound": {"width": 8}, "image": {"width": 8}}


@dataclass(frozen=True)
class ToyBatch:
    """The fields of evigrad.data.Batch."""

    inputs: dict[str, Tensor]
    target: Tensor
    present: dict[str, Tensor]
    index: Tensor

    def rows(self, rows: slice | Tensor) -> "ToyBatch":
        def of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: value[rows] for name, value in tensors.items()}

        return ToyBatch(of(self.inputs), self.target[rows], of(self.present), self.index[rows])


def toy_batch(
    shapes: Mapping[str, tuple[int, ...]] = SHAPES, size: int = 8, seed: int = 0, missing: float = 0.0
) -> ToyBatch:
    """Random inputs with a signal of the class in them; each sample keeps at least its first modality."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, CLASSES, (size,), generator=generator)
    inputs, present = {}, {}
    for position, (name, shape) in enumerate(shapes.items()):
        noise = torch.randn((size, *shape), generator=generator, dtype=torch.float64)
        inputs[name] = noise + 0.5 * target.view(-1, *[1] * len(shape))
        keep = torch.rand(size, generator=generator) >= missing
        present[name] = keep | torch.tensor(position == 0)
    return ToyBatch(inputs, target, present, torch.arange(size))


def toy_batches(count: int, **options: object) -> list[ToyBatch]:
    return [toy_batch(seed=seed, **options) for seed in range(count)]  # type: ignore[arg-type]


def toy_network(
    shapes: Mapping[str, tuple[int, ...]] = SHAPES, seed: int = 0, fusion: str = "concatenation"
) -> MultimodalNetwork:
    """In double precision, so that orders of summation don't blur equalities."""
    options = {name: OPTIONS[name] if len(shapes[name]) > 1 else {"width": 8} for name in shapes}
    return build_network(shapes, CLASSES, encoder_options=options, fusion=fusion, seed=seed).double()


def prepared(name: str, network: MultimodalNetwork, **options: object) -> Method:
    """The method called ``name``, ready to train ``network``."""
    method = build_method(name, **options)
    method.prepare(network, dataset_size=64, steps_per_epoch=4, epochs=5)
    return method.double()


def sgd(network: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


def train(
    method: Method,
    network: nn.Module,
    batches: Sequence[ToyBatch],
    micro: int = 1,
    surgery: Surgery | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    epoch: int | None = 0,
) -> None:
    """The plainest loop that keeps the contract of Method: each batch is one optimizer step of ``micro`` parts.

    Without an ``epoch`` it goes on in the middle of one.
    """
    surgery = surgery if surgery is not None else Dividing(micro)
    optimizer = optimizer if optimizer is not None else sgd(network)
    if epoch is not None:
        method.start_epoch(epoch)
    for batch in batches:
        optimizer.zero_grad()
        gradients(method, network, batch, micro, surgery)
        optimizer.step()


def gradients(method: Method, network: nn.Module, batch: ToyBatch, micro: int, surgery: Surgery) -> None:
    """One optimizer step's gradients, after surgery."""
    size = len(batch.target) // micro
    for part in range(micro):
        surgery.is_last_micro_batch = part == micro - 1
        rows = batch.rows(slice(part * size, (part + 1) * size))
        with sync_of(surgery):
            method.step(network, rows, surgery.backward, surgery)
    unscale_all(network, surgery)
    method.after_backward(network, surgery)


class Dividing(Surgery):
    """A loop that accumulates over micro-batches, with a loss scale as under AMP."""

    def __init__(self, micro: int = 1, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(torch.Generator().manual_seed(seed))
        self.micro = micro
        self.scale = scale

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        super().backward(loss / self.micro * self.scale, retain_graph)

    def unscale(self, tensors: object) -> None:
        for tensor in tensors:  # type: ignore[attr-defined]
            tensor.div_(self.scale)


@contextmanager
def sync_of(surgery: Surgery) -> Iterator[None]:
    """As a loop does: gradients of all but the last micro-batch stay on their rank."""
    if surgery.is_last_micro_batch:
        yield
    else:
        with surgery.no_sync():
            yield


def unscale_all(network: nn.Module, surgery: Surgery) -> None:
    surgery.unscale([p.grad for p in network.parameters() if p.grad is not None])


def reordered(network: MultimodalNetwork, order: Sequence[str]) -> MultimodalNetwork:
    """The same concatenating network with its modalities listed in another order."""
    fusion = network.fusion
    assert isinstance(fusion, Concatenation)
    other = Concatenation({name: fusion.widths[name] for name in order}, fusion.classes).double()
    with torch.no_grad():
        other.linear.weight.copy_(torch.cat([fusion.block(name) for name in order], dim=1))
        other.linear.bias.copy_(fusion.linear.bias)
    encoders = {name: deepcopy(network.encoders[name]) for name in order}
    return MultimodalNetwork(
        encoders, other, {name: deepcopy(network.heads[name]) for name in order if name in network.heads}
    )


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


__all__ = ["METHODS", "Dividing", "ToyBatch", "gradients", "prepared", "reordered", "toy_batch", "train"]
