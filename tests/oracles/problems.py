"""Small random problems, and the package's own answer to them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from evigrad.calibration import CalibratedLoss
from evigrad.calibration.structures import STRUCTURES
from tests.oracles.update import JOINT, Batch, Head


def target_for(loss: str, size: int, classes: int, draw: torch.Generator) -> Tensor:
    if loss == "cross_entropy":
        return torch.randint(classes, (size,), generator=draw)
    if loss == "binary":
        return torch.randint(2, (size, classes), generator=draw).double()
    return torch.randn(size, classes, generator=draw, dtype=torch.float64)


def make_batch(
    widths: dict[str, int],
    loss: str = "cross_entropy",
    classes: int = 3,
    size: int = 4,
    bias: bool = True,
    seed: int = 0,
    absent: dict[str, list[int]] | None = None,
) -> Batch:
    """Heads of moderate weights and standard normal features; ``absent`` lists the samples without a modality."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    def head(width: int) -> Head:
        return 0.8 * normal(classes, width), 0.5 * normal(classes) if bias else None

    missing = absent or {}
    return Batch(
        heads={name: head(width) for name, width in widths.items()},
        joint=head(sum(widths.values())),
        features={name: normal(size, width) for name, width in widths.items()},
        target=target_for(loss, size, classes, draw),
        present={name: [t not in missing.get(name, []) for t in range(size)] for name in widths},
    )


def linear(head: Head) -> nn.Linear:
    weight, bias = head
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None).double()
    set_weights(layer, head)
    return layer


@torch.no_grad()
def set_weights(layer: nn.Linear, head: Head) -> None:
    layer.weight.copy_(head[0])
    if head[1] is not None:
        layer.bias.copy_(head[1])


def criterion_for(batch: Batch, **readings: object) -> CalibratedLoss:
    """The criterion in float64 with the batch's heads."""
    heads = {name: linear(head) for name, head in batch.heads.items()}
    return CalibratedLoss(heads, linear(batch.joint), **readings).double()


def show(criterion: CalibratedLoss, batch: Batch) -> None:
    """Give the criterion the weights of this batch's heads."""
    for name, head in batch.heads.items():
        set_weights(criterion.heads[name], head)
    set_weights(criterion.joint.output, batch.joint)


def masks(batch: Batch) -> dict[str, Tensor]:
    return {name: torch.tensor(mask) for name, mask in batch.present.items()}


def learn(criterion: CalibratedLoss, batch: Batch) -> None:
    """A step without encoders to train: the posteriors see it, nothing is calibrated."""
    show(criterion, batch)
    criterion(batch.features, batch.target, masks(batch))


def calibrated(criterion: CalibratedLoss, batch: Batch) -> dict[str, Tensor]:
    """The features' gradients after one step."""
    show(criterion, batch)
    leaves = {name: value.clone().requires_grad_() for name, value in batch.features.items()}
    out = criterion(leaves, batch.target, masks(batch))
    return dict(zip(leaves, torch.autograd.grad(out.loss, list(leaves.values())), strict=True))


@contextmanager
def recorded_roots(structure: str, names: list[str]) -> Iterator[dict[str, Tensor]]:
    """Fills a dictionary with the map from white noise to draws, [P, P], of each posterior that is drawn from.

    ``names`` says in which order the posteriors come. Which root of its covariance a posterior uses is its own affair;
    the oracle checks that it is one.
    """
    kind = STRUCTURES[structure]
    original, roots, known = kind.draw, {}, []

    def draw(self: object, noise: Tensor) -> Tensor:
        if not any(self is one for one in known):
            known.append(self)
            size = noise[0].numel()
            basis = torch.eye(size, dtype=noise.dtype).view(size, *noise.shape[1:])
            roots[names[len(known) - 1]] = original(self, basis).flatten(1).T
        return original(self, noise)

    kind.draw = draw
    try:
        yield roots
    finally:
        kind.draw = original


def root_names(batch: Batch, fusion: str) -> list[str]:
    return [*batch.heads, JOINT] if fusion == "head" else list(batch.heads)
