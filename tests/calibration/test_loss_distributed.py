"""Two processes with half a batch each equal one process with the whole batch."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from evigrad import CalibratedLoss
from tests.properties.criterion import assert_same_gradients
from tests.zoo import FrozenEncoder, Model, gradients

pytestmark = pytest.mark.distributed
WORLD = 2
SIZE = 8  # samples of the whole batch
STEPS = 5
HALVES = (slice(0, SIZE // 2), slice(SIZE // 2, SIZE))


class WithJointModule(Model):
    """A joint module whose Jacobian is probed."""

    def __init__(self, **readings):
        super().__init__()
        self.criterion = CalibratedLoss(self.heads, joint=Gated(), probes=8, **readings)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.output = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, features):
        return self.output(features["audio"] * self.gate(features["video"]).sigmoid())


def same(kind=Model, **readings):
    return {"kind": kind, "readings": readings}


# Equal to one process, gradient by gradient, statistic by statistic.
EQUAL = {
    "defaults": same(),
    "data set": same(refresh=2, dataset_size=1000),
    "diagonal": same(posterior="diagonal", reference="power", weights="source"),
    "full": same(posterior="full", rescale="sample"),
    "no rescale": same(rescale="none", reference="power"),
    "average": same(fusion="average"),
    "sketch": same(refresh=2, rank=3),
    "newton": same(centre="newton", dataset_size=1000),
    "batch": same(curvature="batch"),
    "batch diagonal": same(curvature="batch", posterior="diagonal", reference="power"),
    "batch full": same(curvature="batch", posterior="full", weights="source", rescale="sample"),
    "batch newton": same(curvature="batch", centre="newton", rescale="none"),
    "batch average": same(curvature="batch", fusion="average", reference="power"),
    "monte carlo": same(moments="monte_carlo", draws=16),
    "square": same(loss="square", moments="exact"),
    "joint module": same(WithJointModule),
    "left out": same() | {"leave_out": True},
    "nothing to train here": same(FrozenEncoder) | {"leave_out": True},
    "accumulation": same(refresh=2) | {"micro": 2},
}
LOWRANK = same(curvature="batch", posterior="lowrank", rescale="batch")
# Each process by itself.
APART = {
    "lowrank": same(curvature="batch", posterior="lowrank", rescale="none"),
    "alone": same(curvature="batch", synchronize=False),
    "alone power": same(curvature="batch", synchronize=False, reference="power", posterior="full"),
    "alone running": same(synchronize=False, refresh=2),
}


def build(kind, readings, **_):
    torch.manual_seed(0)
    return kind(generator=torch.Generator().manual_seed(0), **readings).double()


def whole_batch(model, step):
    """Inputs, target and presence: in turn all are there, one process lacks video, some lack it, the other audio, both
    video."""
    inputs, target = model.batch(SIZE, seed=step)
    if model.criterion.calibration.readings.loss == "square":
        target = nn.functional.one_hot(target, model.classes).double()
    here = torch.arange(SIZE)
    present = [
        {},
        {"video": here >= SIZE // 2},
        {"video": here % 3 != 0},
        {"audio": here < SIZE // 2},
        {"video": here < 0},
    ][step % STEPS]
    return inputs, target, present


def part(batch, rows, leave_out=False):
    inputs, target, present = batch
    present = {name: mask[rows] for name, mask in present.items()}
    inputs = {name: value[rows] for name, value in inputs.items()}
    if leave_out:  # a modality that no sample here has is not even in the dictionary
        inputs = {name: value for name, value in inputs.items() if name not in present or present[name].any()}
        present = {name: mask for name, mask in present.items() if name in inputs}
    return inputs, target[rows], present


def train(model, wrapped, take, micro=1):
    """Gradients of each step and the criterion's state after it; ``take`` gives this process's part of a batch."""
    optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=0.1)
    history = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(micro):
            inputs, target, present = take(whole_batch(model, micro * step + number))
            if number < micro - 1 and wrapped is not model:
                with wrapped.no_sync():
                    (wrapped(inputs, target, present).loss / micro).backward()
            else:
                (wrapped(inputs, target, present).loss / micro).backward()
        history.append(({name: value.clone() for name, value in gradients(model).items()}, state(model)))
        optimizer.step()
    return history


def state(model):
    """All but the eigenvectors, whose signs are arbitrary."""
    values = model.criterion.calibration.state_dict()
    return {
        name: value.clone()
        for name, value in values.items()
        if not name.endswith(("posterior_basis", "posterior_outputs"))
    }


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    results = {}
    for name, case in (EQUAL | APART).items():
        model = build(**case)
        leave_out = case.get("leave_out", False)
        wrapped = DistributedDataParallel(
            model, find_unused_parameters=leave_out, broadcast_buffers=name != "alone running"
        )

        def take(batch, leave_out=leave_out):
            return part(batch, HALVES[rank], leave_out)

        results[name] = train(model, wrapped, take, case.get("micro", 1))
    results["lowrank features"] = at_features(build(**LOWRANK), HALVES[rank])
    results |= {layout: sharded(layout) for layout in SHARDED}
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def at_features(model, rows):
    """The gradients at the features of some samples of the first batch, and the plain ones that they replace."""
    inputs, target, _ = part(whole_batch(model, 0), rows)
    leaves = {name: value.detach().requires_grad_() for name, value in model.encode(inputs).items()}
    out = model.criterion(leaves, target)
    out.loss.backward()
    traces = out.diagnostics.traces
    plain = {name: (one.unimodal_gradient + one.joint_gradient) / len(target) for name, one in traces.items()}
    return {name: value.grad for name, value in leaves.items()}, plain


def sharded(layout):
    """The parameters after a few steps with fully_shard, put together again."""
    model = build(**same(refresh=2))
    mesh = init_device_mesh("cpu", (WORLD,))
    for module in SHARDED[layout](model):
        fully_shard(module, mesh=mesh)
    train(model, model, lambda batch: part(batch, HALVES[dist.get_rank()]))
    return {name: value.full_tensor().detach() for name, value in model.named_parameters()}


SHARDED = {
    "the model as one": lambda model: [model],
    "the criterion by itself": lambda model: [model.encoders["audio"], model.criterion, model],
    "every head by itself": lambda model: [*model.heads.values(), model.joint_head, model],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each of the processes got, for all cases: they are started once."""
    folder: Path = tmp_path_factory.mktemp("processes")
    mp.spawn(work, (str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]


@pytest.mark.parametrize("name", EQUAL)
def test_two_processes_equal_one(name, results):
    case = EQUAL[name]
    model = build(**case)
    wanted = train(model, model, lambda batch: batch, case.get("micro", 1))
    for rank in range(WORLD):
        for (got, kept), (gradient, statistics) in zip(results[rank][name], wanted, strict=True):
            # An encoder that no process used has no gradient there, and one of zeros in the process that used it.
            unused = gradient.keys() - got.keys()
            assert all(case.get("leave_out") and (gradient[key] == 0).all() for key in unused)
            # float64, but a posterior lies between: its decompositions lose digits
            assert_same_gradients(got, {key: value for key, value in gradient.items() if key not in unused}, 1e-8)
            torch.testing.assert_close(kept, statistics, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", APART)
def test_processes_that_calibrate_alone_are_averaged(name, results):
    """Each calibrates as if its half were all there is; DistributedDataParallel takes the mean."""
    alone = [build(**APART[name]) for _ in range(WORLD)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in alone]
    for step in range(STEPS):
        for model, rows in zip(alone, HALVES, strict=True):
            model.zero_grad()
            inputs, target, present = part(whole_batch(model, step), rows)
            model(inputs, target, present).loss.backward()
        mean = {key: (value + gradients(alone[1])[key]) / 2 for key, value in gradients(alone[0]).items()}
        for rank, model in enumerate(alone):
            got, kept = results[rank][name][step]
            assert_same_gradients(got, mean, 1e-8)
            torch.testing.assert_close(kept, state(model), rtol=1e-8, atol=1e-10)
            for key, value in model.named_parameters():
                value.grad = mean[key].clone()
            optimizers[rank].step()


def test_lowrank_processes_share_the_norm_and_nothing_else(results):
    """Directions are those of each process's own posterior; γ times the plain norm is restored over both batches."""
    alone = [at_features(build(**same(**LOWRANK["readings"] | {"rescale": "none"})), rows) for rows in HALVES]
    for name in ("audio", "video"):
        own, plain = ([both[which][name] for both in alone] for which in (0, 1))
        factor = 1.5 * torch.cat(plain).norm() / torch.cat(own).norm()
        for rank in range(WORLD):
            got, _ = results[rank]["lowrank features"]
            torch.testing.assert_close(got[name], factor * own[rank], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("layout", SHARDED)
def test_sharded_parameters_train_as_whole_ones(layout, results):
    model = build(**same(refresh=2))
    train(model, model, lambda batch: batch)
    for rank in range(WORLD):
        torch.testing.assert_close(results[rank][layout], dict(model.named_parameters()), rtol=1e-8, atol=1e-10)
