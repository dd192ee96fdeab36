import pytest
import torch
from torch import nn

from evigrad.methods import Method, OptimizerWarning, Surgery, build_method, unwrap
from tests.properties.toys import toy_network

ADAPTIVE = [
    getattr(torch.optim, name)
    for name in ("Adam", "AdamW", "RMSprop", "Adagrad", "Rprop", "SparseAdam", "Adafactor", "Muon")
    if hasattr(torch.optim, name)
]


@pytest.mark.parametrize("name", ["ogm_ge", "mmpareto"])
@pytest.mark.parametrize("kind", ADAPTIVE)
def test_rescaling_methods_warn_of_adaptive_optimizers(name, kind):
    with pytest.warns(
        OptimizerWarning, match=f"acts by rescaling gradients, but {kind.__name__} divides .* Use torch.optim.SGD"
    ):
        build_method(name).check_optimizer(kind([nn.Parameter(torch.zeros(1, 1))], lr=0.1))


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_they_do_divide_the_scale_out(kind):
    """The first step is the same for a gradient a thousand times as large, up to the optimizer's epsilon."""
    moved = []
    for scale in (1.0, 1000.0):
        parameter = nn.Parameter(torch.ones(2, 2))
        gradient = scale * torch.tensor([[3.0, -2.0], [1.0, 5.0]])
        parameter.grad = gradient.to_sparse() if kind is torch.optim.SparseAdam else gradient
        kind([parameter], lr=0.1).step()
        moved.append(parameter.detach() - 1)
    torch.testing.assert_close(moved[1], moved[0], rtol=1e-3, atol=1e-5)
    assert (moved[0] != 0).all()


@pytest.mark.parametrize("name", ["ogm_ge", "mmpareto", "joint", "uniform", "tmc", "bogc", "unimodal"])
def test_nothing_is_said_of_sgd(name):
    build_method(name).check_optimizer(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))


@pytest.mark.parametrize("name", ["joint", "uniform", "tmc", "bogc", "unimodal"])
def test_other_methods_take_any_optimizer(name):
    build_method(name).check_optimizer(torch.optim.Adam(nn.Linear(1, 1).parameters(), lr=0.1))


def test_unwraps_what_loops_put_around_a_network():
    network = toy_network()
    assert unwrap(network) is network
    assert unwrap(torch.compile(network, backend="eager")) is network
    assert unwrap(nn.DataParallel(torch.compile(network, backend="eager"))) is network


def test_other_modules_are_an_error():
    with pytest.raises(TypeError, match="`network` is a Linear around a Linear, not a MultimodalNetwork; build one"):
        unwrap(nn.Linear(1, 1))


def test_a_method_must_define_its_loss():
    with pytest.raises(NotImplementedError, match="Method does not define `loss`; return a scalar"):
        Method().loss(None, None)


def test_the_plain_surgery_is_one_process_without_scale():
    surgery, value = Surgery(), torch.ones(2)
    surgery.unscale([value])
    with surgery.no_sync():
        assert surgery.all_reduce(value, "sum") is value
    assert surgery.world_size == 1
    assert (value == 1).all()
