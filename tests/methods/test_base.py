import pytest
import torch
from torch import nn

from evigrad.methods import Method, OptimizerWarning, Surgery, build_method, unwrap
from tests.properties.toys import toy_network

ADAPTIVE = [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]


@pytest.mark.parametrize("name", ["ogm_ge", "mmpareto"])
@pytest.mark.parametrize("kind", ADAPTIVE)
def test_rescaling_methods_warn_of_adaptive_optimizers(name, kind):
    with pytest.warns(
        OptimizerWarning, match=f"acts by rescaling gradients, but {kind.__name__} divides .* Use torch.optim.SGD"
    ):
        build_method(name).check_optimizer(kind(nn.Linear(1, 1).parameters(), lr=0.1))


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
