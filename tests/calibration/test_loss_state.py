"""State lives in buffers: saved, loaded, copied, moved; a run that resumes equals one that never stopped."""

import copy
import io
import pickle

import pytest
import safetensors.torch
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from evigrad import CalibratedLoss
from tests.zoo import Model, TiedHeads

READINGS = [
    {},
    {"refresh": 3},
    {"refresh": 1, "posterior": "diagonal"},
    {"refresh": 4, "posterior": "full", "dataset_size": 500},
    {"refresh": 3, "rank": 2},
    {"curvature": "batch"},
    {"refresh": 3, "moments": "monte_carlo", "draws": 8, "reference": "power"},
]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


class Run:
    """A training run with momentum, and a generator if the readings draw."""

    def __init__(self, seed=0, **readings):
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.model = Model(generator=self.generator, **readings)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def steps(self, start, stop):
        for number in range(start, stop):
            inputs, target = self.model.batch(seed=number)
            present = {"video": torch.arange(len(target)) != number % 7}
            self.optimizer.zero_grad()
            self.model(inputs, target, present).loss.backward()
            self.optimizer.step()

    def load(self, other, through):
        self.model.load_state_dict(through(other.model.state_dict()))
        self.optimizer.load_state_dict(copy.deepcopy(other.optimizer.state_dict()))
        self.generator.set_state(other.generator.get_state())


def torch_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def safetensors_file(state):
    return safetensors.torch.load(safetensors.torch.save(state))  # refuses tensors that share memory


@pytest.mark.parametrize("through", [torch_file, safetensors_file])
@pytest.mark.parametrize("readings", READINGS, ids=str)
def test_a_resumed_run_equals_one_that_never_stopped(readings, through):
    """Ten steps, and five + save + load into a new process's objects + five: bit by bit, over a refresh or two."""
    whole = Run(**readings)
    whole.steps(0, 10)
    first = Run(**readings)
    first.steps(0, 5)
    second = Run(seed=1, **readings)
    second.steps(0, 2)  # a past of its own, which the checkpoint must replace
    second.load(first, through)
    second.steps(5, 10)
    torch.testing.assert_close(second.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


def test_state_is_buffers_and_nothing_else():
    """The optimizer sees the heads; a checkpoint holds the sums, the posterior and the number of steps."""
    criterion = Model().criterion
    assert {name.split(".")[0] for name, _ in criterion.named_parameters()} == {"heads", "joint"}
    assert list(criterion.calibration.parameters()) == []
    names = {name.rsplit(".", 1)[-1] for name in criterion.calibration.state_dict()}
    assert names == {
        "steps", "count", "sum_outputs", "sum_trace", "sum_gram",
        "posterior_basis", "posterior_variance", "posterior_tail", "posterior_outputs",
    }  # fmt: skip
    assert set(criterion.calibration.state_dict()) == {name for name, _ in criterion.calibration.named_buffers()}


def test_a_batch_posterior_has_no_state():
    assert Model(curvature="batch").criterion.calibration.state_dict() == {}


def test_loading_by_assignment():
    first, second = Run(refresh=3), Run(seed=1, refresh=3)
    first.steps(0, 5)
    second.model.load_state_dict(copy.deepcopy(first.model.state_dict()), assign=True)
    second.optimizer = torch.optim.SGD(second.model.parameters(), lr=0.05, momentum=0.9)
    second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    for run in (first, second):
        run.steps(5, 8)
    torch.testing.assert_close(second.model.state_dict(), first.model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("readings", READINGS, ids=str)
def test_a_deepcopy_goes_on_the_same_and_apart(readings):
    run = Run(**readings)
    run.steps(0, 5)
    twin = copy.deepcopy(run)
    before = copy.deepcopy(run.model.state_dict())
    twin.steps(5, 8)
    torch.testing.assert_close(run.model.state_dict(), before, rtol=0, atol=0)
    run.steps(5, 8)
    torch.testing.assert_close(run.model.state_dict(), twin.model.state_dict(), rtol=0, atol=0)


def test_a_pickled_module_goes_on_the_same():
    """What launchers that spawn processes do with a module."""
    run = Run(refresh=3)
    run.steps(0, 4)
    criterion = pickle.loads(pickle.dumps(run.model.criterion))
    inputs, target = run.model.batch()
    features = {name: value.detach() for name, value in run.model.encode(inputs).items()}
    got = []
    for one in (run.model.criterion, criterion):
        leaves = {name: value.clone().requires_grad_() for name, value in features.items()}
        one(leaves, target).loss.backward()
        got.append({name: value.grad for name, value in leaves.items()})
    torch.testing.assert_close(*got, rtol=0, atol=0)


def test_a_checkpoint_of_other_modalities_is_refused():
    heads = {name: nn.Linear(4, 3) for name in ("audio", "video", "text")}
    other = CalibratedLoss(heads, nn.Linear(12, 3))
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*calibration\.unimodal\.text\.count.*size mismatch"):
        other.load_state_dict(Model().criterion.state_dict())


def test_tied_heads_are_saved_once_and_load():
    first, second = TiedHeads(), TiedHeads()
    first(*first.batch())
    second.load_state_dict(torch_file(first.state_dict()))
    assert second.heads["audio"] is second.heads["video"]
    torch.testing.assert_close(second.state_dict(), first.state_dict(), rtol=0, atol=0)


def test_an_average_of_weights_takes_the_criterion_along():
    model = Model()
    average = AveragedModel(model)
    for seed in range(3):
        model(*model.batch(seed=seed)).loss.backward()
        average.update_parameters(model)
    assert average.module.criterion.calibration.joint.count == model.criterion.calibration.joint.count
    assert average.module(*model.batch()).loss.isfinite()


def test_train_and_eval_reach_the_criterion():
    model = Model()
    model.eval()
    model(*model.batch())
    assert model.criterion.calibration.joint.steps == 0
    model.train()
    model(*model.batch())
    assert model.criterion.calibration.joint.steps == 1
