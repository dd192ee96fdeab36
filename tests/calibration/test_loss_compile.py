"""torch.compile around encoders and criterion: one graph, the same numbers, no new graph as training goes on."""

import copy
import shutil

import pytest
import torch
from torch import _dynamo as dynamo
from torch import nn
from torch._dynamo.utils import counters

from evigrad import CalibratedLoss
from tests.properties.criterion import assert_same_gradients
from tests.zoo import ManyPositions, Model, SharedEncoder, SixModalities, TiedHeads, ViewFeatures, gradients

pytestmark = [  # what the compiler does while it traces a Function and looks at tensors
    pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]
STEPS = 25  # the default posterior is renewed at steps 1 to 10 and at 20


@pytest.fixture(autouse=True)
def _fresh_compiler():
    dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    yield
    dynamo.reset()


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.output = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, features):
        return self.output(features["audio"] * self.gate(features["video"]).sigmoid())


class WithJointModule(Model):
    def __init__(self, **readings):
        super().__init__()
        self.criterion = CalibratedLoss(self.heads, joint=Gated(), **readings)


def assert_same_training(compiled, eager, steps, tolerance=0.0, size=6):
    """The same gradients and the same state after each step."""
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (compiled, eager)]
    for number in range(steps):
        results = []
        for model, optimizer in zip((compiled, eager), optimizers, strict=True):
            inputs, target = eager.batch(size, number)
            optimizer.zero_grad()
            model(inputs, target).loss.backward()
            results.append({name.removeprefix("_orig_mod."): value for name, value in gradients(model).items()})
            optimizer.step()
        assert_same_gradients(*results, tolerance or 1e-30)
    ours, theirs = (model.state_dict() for model in (compiled, eager))
    if tolerance:  # signs of eigenvectors are arbitrary
        ours = {name: value for name, value in ours.items() if not name.endswith(("_basis", "posterior_outputs"))}
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name.removeprefix("_orig_mod.")], rtol=tolerance, atol=tolerance)


def test_encoders_and_criterion_are_one_graph_that_serves_every_step():
    """Nothing recompiles when the posterior is renewed, nor when it is not; every number is that of eager mode."""
    model = Model()
    explanation = dynamo.explain(copy.deepcopy(model))(*model.batch())
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)
    dynamo.reset()
    counters.clear()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_same_training(compiled, eager, STEPS)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
def test_batches_of_any_size_share_two_graphs():
    """One for the first size, one for all others; a presence makes another pair."""
    model = Model()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for number, size in enumerate((6, 6, 4, 5, 7, 3)):
        for present in (False, True):
            inputs, target = model.batch(size, number)
            mask = {"audio": torch.arange(size) % 2 == 0} if present else None
            model.zero_grad()
            eager.zero_grad()
            compiled(inputs, target, mask).loss.backward()
            eager(inputs, target, mask).loss.backward()
            assert_same_gradients(gradients(model), gradients(eager), 1e-6)
    assert counters["stats"]["unique_graphs"] == 4


WHOLE = [
    {"posterior": "diagonal"},
    {"curvature": "batch"},
    {"posterior": "lowrank", "curvature": "batch"},
    {"moments": "monte_carlo", "draws": 4},
    {"loss": "square", "moments": "exact"},
    {"centre": "newton", "fusion": "average"},
    {"reference": "power", "weights": "source", "rescale": "sample"},
    {"rank": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize("readings", WHOLE, ids=str)
def test_readings_that_are_one_graph(readings):
    model = Model(**readings)
    inputs, target = model.batch()
    if readings.get("loss") == "square":
        target = nn.functional.one_hot(target, 3).float()
    explanation = dynamo.explain(model)(inputs, target)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


BROKEN = [
    (Model, {"posterior": "full", "refresh": 3}),
    (Model, {"moments": "monte_carlo", "draws": 4, "generator": 0}),
    (WithJointModule, {"probes": 4, "generator": 0}),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Graph break")  # which is what the test is about
@pytest.mark.parametrize(("kind", "readings"), BROKEN, ids=str)
def test_readings_that_break_the_graph_train_all_the_same(kind, readings):
    """A Cholesky factor that looks whether it worked, a generator, a Jacobian by autograd: slower, not wrong."""

    def build():
        torch.manual_seed(0)
        given = {"generator": torch.Generator().manual_seed(0)} if "generator" in readings else {}
        return kind(**readings | given)

    assert_same_training(torch.compile(build(), backend="aot_eager"), build(), 12)
    assert sum(counters["graph_break"].values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SharedEncoder, SixModalities, ManyPositions, TiedHeads, ViewFeatures])
def test_awkward_models_are_one_graph(kind):
    model = kind()
    explanation = dynamo.explain(model)(*model.batch())
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


@pytest.mark.slow
def test_autocast_inside_a_compiled_step():
    model = Model()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for number in range(3):
        model.zero_grad()
        eager.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ours, theirs = compiled(*model.batch(6, number)), eager(*model.batch(6, number))
        ours.loss.backward()
        theirs.loss.backward()
        assert_same_gradients(gradients(model), gradients(eager), 1e-6)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
def test_a_compiled_run_is_saved_and_goes_on_in_eager_mode():
    """The number of steps is in the checkpoint, so the posterior is renewed at the same steps."""
    model = Model(refresh=3)
    eager = copy.deepcopy(model)
    assert_same_training(torch.compile(model, backend="aot_eager", fullgraph=True), eager, 5)
    resumed = Model(refresh=3)
    resumed.load_state_dict(model.state_dict())
    assert_same_training(resumed, eager, 5)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from inductor's own imports
def test_inductor(monkeypatch, tmp_path):
    """Real code generation; sums run in another order, so numbers agree up to rounding."""
    monkeypatch.setenv("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR", "")  # it leaves this one behind
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # an earlier run's code would not be compiled again
    monkeypatch.setattr("torch._inductor.config.compile_threads", 1)  # a pool of threads would outlive the test
    model = Model()
    eager = copy.deepcopy(model)
    assert_same_training(torch.compile(model, fullgraph=True), eager, STEPS, tolerance=1e-3)
    assert counters["stats"]["unique_graphs"] == 1
