import pytest
import torch
from torch.testing import assert_close

from evigrad.calibration.head import HeadPosterior
from evigrad.calibration.likelihood import likelihood
from evigrad.calibration.structures import ADDITIVE, Seen
from tests.oracles.curvature import log_posterior_gradient, look, newton_centre, precision
from tests.oracles.problems import make_batch
from tests.oracles.update import View, views
from tests.properties.gaussian import draw_matrix

LOSSES = ["cross_entropy", "binary", "square"]


def head(structure="full", loss="cross_entropy", running=True, **options) -> HeadPosterior:
    given = {"prior_precision": 0.8, "dataset_size": None, "decay": 0.75, "refresh": 3, "rank": 100} | options
    return HeadPosterior(3, 3, likelihood(loss), structure, running, **given).double()


def shown(seed=0, loss="cross_entropy", absent=(), size=4) -> tuple[View, Seen, torch.Tensor]:
    """A batch as an oracle sees it, as the package does, and its target."""
    batch = make_batch({"audio": 2}, loss, seed=seed, size=size, absent={"audio": list(absent)})
    view = views(batch)["audio"]
    present = torch.tensor(view.present).double()
    inputs = view.inputs * present[:, None]
    return view, Seen(inputs, likelihood(loss).mean(inputs @ view.theta.T), present), batch.target


def covariance(posterior: HeadPosterior, seen: Seen) -> torch.Tensor:
    root = draw_matrix(posterior.gaussian(seen, False), 9, 3)
    return root @ root.T


def naive(steps, structure="full", loss="cross_entropy", size=None, decay=0.75) -> torch.Tensor:
    """The covariance after these batches, from the definition of the exponential average."""
    samples = []
    for seed, absent in steps:
        view, _, target = shown(seed, loss, absent)
        new = look(loss, view.theta, view.inputs, target, view.present)
        for old in samples if new else []:
            old.weight *= decay
        samples += new
    count = sum(one.weight for one in samples)
    return torch.linalg.inv(precision(structure, samples, 1.0 if size is None else size / count, (3, 3), 0.8))


@pytest.mark.parametrize("size", [None, 40])
@pytest.mark.parametrize("structure", list(ADDITIVE))
@pytest.mark.parametrize("loss", LOSSES)
def test_running_average_is_the_definition(loss, structure, size):
    posterior = head(structure, loss, dataset_size=size)
    steps = [(0, ()), (1, (0, 2)), (2, (1,))]
    for seed, absent in steps:
        posterior.see(shown(seed, loss, absent)[1], False)
    assert_close(covariance(posterior, shown()[1]), naive(steps, structure, loss, size), rtol=1e-9, atol=1e-12)


def test_a_batch_without_the_modality_does_not_fade_the_memory():
    posterior, steps = head(), [(0, ()), (1, (0, 1, 2, 3)), (2, ())]
    for seed, absent in steps:
        posterior.see(shown(seed, absent=absent)[1], False)
    assert_close(covariance(posterior, shown()[1]), naive(steps))
    assert_close(posterior.count, torch.tensor(4 * 0.75 + 4).double())
    assert posterior.steps == 3


def test_before_anything_was_seen_there_is_the_prior():
    assert_close(covariance(head(dataset_size=1000), shown()[1]), torch.eye(9).double() / 0.8)


def test_batch_curvature_knows_this_batch_alone():
    posterior = head(running=False)
    posterior.see(shown(1)[1], False)
    assert_close(covariance(posterior, shown(0)[1]), naive([(0, ())]))
    assert not list(posterior.buffers())


def test_renewals_come_at_each_of_the_first_steps_and_then_every_few():
    posterior, renewed, last = head(refresh=3), [], None
    for step in range(1, 14):
        posterior.see(shown(step)[1], False)
        now = posterior.posterior_covariance.clone()
        if last is None or not torch.equal(now, last):
            renewed.append(step)
        last = now
    assert renewed == [1, 2, 3, 6, 9, 12]


def test_a_loaded_state_goes_on_where_it_was():
    """The posterior in use, the sums behind it and the clock."""
    posterior, resumed = head(), head()
    for step in range(4):
        posterior.see(shown(step)[1], False)
    resumed.load_state_dict(posterior.state_dict())
    assert_close(covariance(resumed, shown()[1]), covariance(posterior, shown()[1]), rtol=0, atol=0)
    for step in range(4, 8):
        for one in (posterior, resumed):
            one.see(shown(step)[1], False)
        for name, value in posterior.state_dict().items():
            assert torch.equal(value, resumed.state_dict()[name]), f"{name} differs after step {step + 1}"


def test_an_overflow_is_passed_over():
    posterior, steps = head(), [(0, ()), (2, ())]
    view, seen, _ = shown(1)
    posterior.see(shown(0)[1], False)
    posterior.see(Seen(seen.inputs * 1e200, seen.mean, seen.present), False)
    posterior.see(shown(2)[1], False)
    assert_close(covariance(posterior, shown()[1]), naive(steps))
    assert view.inputs.isfinite().all()


def test_half_precision_leaves_the_memory_alone():
    for narrow in (head().float().half(), head().float().to(torch.bfloat16)):
        assert {value.dtype for name, value in narrow.named_buffers() if name != "steps"} == {torch.float32}
    assert head().count.dtype == torch.float64


@pytest.mark.parametrize("structure", list(ADDITIVE))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_default_dtype_of_half_precision_leaves_the_memory_alone(dtype, structure):
    """Loaders of large models set it while they build modules."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        built = HeadPosterior(3, 9, likelihood("cross_entropy"), structure, True, 0.8, None, 0.9, 1, 4)
    finally:
        torch.set_default_dtype(before)
    usual = HeadPosterior(3, 9, likelihood("cross_entropy"), structure, True, 0.8, None, 0.9, 1, 4)
    assert_close(dict(built.named_buffers()), dict(usual.named_buffers()))


def test_the_posterior_comes_in_the_precision_of_what_is_seen():
    posterior = head("kronecker").float()
    _, seen, _ = shown()
    posterior.see(Seen(seen.inputs.float(), seen.mean.float(), seen.present.float()), False)
    assert posterior.gaussian(seen, False).variance.dtype == torch.float64


@pytest.mark.parametrize(
    ("structure", "running"), [(name, running) for name in ADDITIVE for running in (True, False)] + [("lowrank", False)]
)
@pytest.mark.parametrize("loss", LOSSES)
def test_newton_step_is_the_printed_one(loss, structure, running):
    """Θ̂ − H⁻¹q with q autograd's gradient of the negative log-posterior, each sample standing for N/B of them."""
    posterior = head(structure, loss, running, dataset_size=30 if running else None)
    view, seen, target = shown(0, loss, absent=(1,))
    posterior.see(seen, False)
    belief = posterior.gaussian(seen, False)
    residual = likelihood(loss).residual(seen.mean, target)
    step = posterior.newton_step(view.theta, seen, residual, belief, False)

    copies = 10.0 if running else 1.0
    samples = look(loss, view.theta, view.inputs, target, view.present)
    dense = precision("full" if structure == "lowrank" else structure, samples, copies, (3, 3), 0.8)
    q = log_posterior_gradient(loss, view.theta, view.inputs, target, view.present, copies, 0.8)
    assert_close(view.theta + step, newton_centre(view.theta, dense, q), rtol=1e-9, atol=1e-11)


def test_a_newton_step_of_a_square_loss_lands_on_the_ridge_solution():
    """From anywhere: the log-posterior is quadratic, so the full posterior's centre is its maximum."""
    view, seen, target = shown(0, "square")
    posterior = head("full", "square", False)
    residual = likelihood("square").residual(seen.mean, target)
    centre = view.theta + posterior.newton_step(view.theta, seen, residual, posterior.gaussian(seen, False), False)
    ridge = torch.linalg.solve(2 * view.inputs.T @ view.inputs + 0.8 * torch.eye(3), 2 * view.inputs.T @ target)
    assert_close(centre, ridge.T)


def test_without_samples_the_step_leads_to_the_prior():
    view, seen, target = shown(absent=(0, 1, 2, 3))
    posterior = head(running=False)
    residual = likelihood("cross_entropy").residual(seen.mean, target)
    step = posterior.newton_step(view.theta, seen, residual, posterior.gaussian(seen, False), False)
    assert_close(view.theta + step, torch.zeros(3, 3).double())


def test_a_sketch_is_kept_above_rank_features_only():
    names = dict(
        HeadPosterior(3, 9, likelihood("cross_entropy"), "kronecker", True, 1.0, None, 0.9, 1, 4).named_buffers()
    )
    assert names["sum_gram"].shape == (9, 4)
    assert "sum_fixed_probe" in names
    assert "sum_fixed_probe" not in dict(head("kronecker", rank=2).named_buffers())


def test_the_probe_of_a_sketch_never_changes():
    posterior = HeadPosterior(3, 9, likelihood("cross_entropy"), "kronecker", True, 1.0, None, 0.9, 1, 4)
    before = posterior.sum_fixed_probe.clone()
    draw = torch.Generator().manual_seed(0)
    for _ in range(3):
        inputs, mean = torch.randn(5, 9, generator=draw), torch.rand(5, 3, generator=draw).softmax(1)
        posterior.see(Seen(inputs, mean, torch.ones(5)), False)
    assert torch.equal(posterior.sum_fixed_probe, before)
