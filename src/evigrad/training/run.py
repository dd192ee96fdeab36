"""One run in memory: the objects that train, where they are, and how that is saved and restored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from evigrad.training import ranks, sharding, state
from evigrad.training.checkpoint import load_checkpoint, save_checkpoint
from evigrad.training.config import Training
from evigrad.training.ema import WeightAverage
from evigrad.training.lent import LentSurgery
from evigrad.training.optim import build_optimizer
from evigrad.training.order import EpochPlan, derived_seed
from evigrad.training.run_folder import RunFolder
from evigrad.training.totals import Totals
from evigrad.training.wrapped import WrappedNetwork

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from evigrad.methods import Method
    from evigrad.networks import MultimodalNetwork


@dataclass
class Position:
    """Where a run is. ``step`` counts optimizer steps from the start, ``step_in_epoch`` those of this epoch."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    best: float | None = None
    best_epoch: int | None = None
    stale_epochs: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Prepared:
    """What ``Method.prepare`` was told, kept with the weights so that they can be loaded without the data."""

    dataset_size: int
    steps_per_epoch: int
    epochs: int


@dataclass
class Run:
    """Everything the loop works with; built by :func:`assemble`."""

    fabric: Fabric
    network: WrappedNetwork
    method: Method
    surgery: LentSurgery
    plan: EpochPlan
    training: Training
    folder: RunFolder
    prepared: Prepared
    average: WeightAverage | None
    position: Position = field(default_factory=Position)
    totals: Totals | None = None
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files."""
        return bool(self.fabric.is_global_zero)

    @property
    def evaluation_batch(self) -> int:
        """Samples per forward pass and rank where nothing is trained: as many as a micro-batch has."""
        return max(1, self.training.batch_size // self.fabric.world_size // self.training.accumulate)

    @contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """The network holds the weights that are evaluated and reported: the average, where there is one."""
        if self.average is None:
            yield
            return
        with self.average.in_place_of(self.network.module):
            yield

    def save_last(self) -> None:
        """Write everything needed to go on as if nothing had happened. Collective."""
        tensors, values = self._snapshot()
        if self.main:
            save_checkpoint(self.folder.last, tensors, {**values, "lengths": self.folder.lengths()})
        ranks.barrier()

    def load_last(self) -> None:
        """Go back to what :meth:`save_last` wrote. Every rank reads the file."""
        tensors, values = load_checkpoint(self.folder.last)
        if values["world_size"] != self.fabric.world_size:
            raise ValueError(
                f"the run in {self.folder.path} used {values['world_size']} process(es) and this one has "
                f"{self.fabric.world_size}: each has random numbers of its own. Resume with the same number."
            )
        self._require_same_run(values)
        self._restore(tensors, values)
        if self.main:
            self.folder.cut(values["lengths"])
        ranks.barrier()

    def _require_same_run(self, values: dict[str, Any]) -> None:
        """Refuse settings or data that changed under a run; the first checkpoints ever written don't tell."""
        if "config" in values:
            self.folder.require_started_with(values["config"], self.config)
        before = values.get("prepared", {}).get("dataset_size", self.prepared.dataset_size)
        if before != self.prepared.dataset_size:
            raise ValueError(
                f"the training set has {self.prepared.dataset_size} samples and had {before} when the run in "
                f"{self.folder.path} was started: resuming would mix two runs. Put the data back as they were, or "
                "start a new run in another folder."
            )

    def save_best(self, numbers: dict[str, Any]) -> None:
        """Write the evaluated weights with what was measured on validation data. Collective."""
        values = {"epoch": self.position.epoch, "validation": numbers, "prepared": asdict(self.prepared)}
        with self.evaluated_weights():
            tensors = sharding.network_state(self.network) | state.module_state(self.method, "method")
            if self.main:  # inside: the tensors are the weights themselves, not copies
                save_checkpoint(self.folder.best, tensors, values)
        ranks.barrier()

    def load_best(self) -> None:
        """Put the selected epoch's weights into the network."""
        tensors, _ = load_checkpoint(self.folder.best)
        sharding.load_network(self.network, tensors)
        state.load_module(self.method, tensors, "method")

    def _snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        optimizer, numbers = sharding.optimizer_state(self.network)
        tensors = sharding.network_state(self.network) | state.module_state(self.method, "method") | optimizer
        if self.average is not None:
            tensors |= state.prefixed(self.average.weights, "average")
        values: dict[str, Any] = {
            "position": asdict(self.position),
            "optimizer": numbers,
            "scaler": self.fabric.strategy.precision.state_dict(),
            "average_steps": self.average.steps if self.average else 0,
            "world_size": self.fabric.world_size,
            "config": self.config,
            "prepared": asdict(self.prepared),
            "totals": None if self.totals is None else list(self.totals.names),
            "random": [],
        }
        if self.totals is not None:
            tensors["totals"] = ranks.all_reduce(self.totals.sums, "sum")
        for rank, (streams, rest) in enumerate(ranks.gather_objects(state.random_state(self.surgery.generator))):
            tensors |= state.prefixed(streams, f"random.{rank}")
            values["random"].append(rest)
        return tensors, values

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        sharding.load_network(self.network, tensors)
        state.load_module(self.method, tensors, "method")
        sharding.load_optimizer(self.network, tensors, values["optimizer"])
        if self.average is not None:
            for name, value in state.under(tensors, "average").items():
                self.average.weights[name].copy_(value)
            self.average.steps = values["average_steps"]
        self.fabric.strategy.precision.load_state_dict(values["scaler"])
        self.position = Position(**values["position"])
        if values["totals"] is not None:
            self.totals = Totals(tuple(values["totals"]), self.fabric.device)
            if self.fabric.global_rank == 0:
                self.totals.sums.copy_(tensors["totals"])
        rank = self.fabric.global_rank
        state.load_random_state(self.surgery.generator, state.under(tensors, f"random.{rank}"), values["random"][rank])


def assemble(
    fabric: Fabric,
    network: MultimodalNetwork,
    method: Method,
    size: int,
    training: Training,
    folder: RunFolder,
) -> Run:
    """Prepare the method, build the optimizer, and put everything on its device."""
    plan = EpochPlan(size, training.batch_size, training.accumulate, fabric.world_size, training.drop_last)
    prepared = Prepared(size, len(plan), training.epochs)
    seed_everything(training.seed)
    method.prepare(network, **asdict(prepared))
    network.to(fabric.device)
    method.to(fabric.device)
    parameters = {id(p): p for p in (*network.parameters(), *method.parameters())}
    optimizer = build_optimizer(training.optimizer, parameters.values())
    method.check_optimizer(optimizer)
    wrapped = WrappedNetwork(fabric, network, optimizer)
    # From here on ranks differ: each drops out its own units. The generator lent to methods stays the same on all.
    seed_everything(derived_seed(training.seed, fabric.global_rank) if fabric.world_size > 1 else training.seed)
    surgery = LentSurgery(fabric, wrapped, torch.Generator().manual_seed(training.seed))
    if training.ema_decay and wrapped.sharded:
        raise ValueError(
            f"ema_decay={training.ema_decay} needs whole weights on every device, and "
            f"strategy={training.hardware.strategy!r} shards them. Use strategy='ddp', or ema_decay=None."
        )
    average = WeightAverage(network, training.ema_decay) if training.ema_decay else None
    return Run(fabric, wrapped, method, surgery, plan, training, folder, prepared, average)


def seed_everything(seed: int) -> None:
    """Seed the global generators of torch, numpy and Python, which layers and data sets of users draw from."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (users' data sets draw from it)
    random.seed(seed)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Give the caller's global generators back as they were."""
    generator = torch.Generator()
    kept = state.random_state(generator)
    try:
        yield
    finally:
        state.load_random_state(generator, *kept)
