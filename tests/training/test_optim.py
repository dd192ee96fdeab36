import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from evigrad.training import Optimizer, Schedule
from evigrad.training.optim import build_optimizer, learning_rate_factor


def torch_rates(build, steps):
    """What PyTorch's own scheduler gives, step by step."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, rates = build(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def factors(schedule, steps_per_epoch, epochs):
    return [learning_rate_factor(schedule, step, steps_per_epoch, epochs) for step in range(steps_per_epoch * epochs)]


def test_cosine_equals_pytorch():
    expected = torch_rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=20, eta_min=0.1), 20)
    assert factors(Schedule("cosine", final=0.1), 5, 4) == pytest.approx(expected)


def test_step_equals_pytorch():
    expected = torch_rates(lambda o: lr_scheduler.StepLR(o, step_size=10, gamma=0.5), 30)
    assert factors(Schedule("step", every=2, factor=0.5), 5, 6) == pytest.approx(expected)


def test_warm_up_then_cosine_equals_pytorch():
    def build(optimizer):
        warm = lr_scheduler.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
        rest = lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)
        return lr_scheduler.SequentialLR(optimizer, [warm, rest], milestones=[5])

    expected = torch_rates(build, 20)
    assert factors(Schedule("cosine", warmup_epochs=1), 5, 4) == pytest.approx(expected)


def test_constant_with_warm_up_of_half_an_epoch():
    assert factors(Schedule(warmup_epochs=0.5), 4, 1) == [0.5, 1.0, 1.0, 1.0]


def test_optimizers_get_their_settings_and_only_what_trains():
    frozen, free = nn.Parameter(torch.zeros(1), requires_grad=False), nn.Parameter(torch.zeros(1))
    adamw = build_optimizer(Optimizer("adamw", 0.3, weight_decay=0.2, betas=(0.5, 0.6)), [frozen, free])
    assert isinstance(adamw, torch.optim.AdamW)
    group = adamw.param_groups[0]
    assert (group["params"], group["lr"], group["betas"], group["weight_decay"]) == ([free], 0.3, (0.5, 0.6), 0.2)
    assert build_optimizer(Optimizer(momentum=0.7), [free]).param_groups[0]["momentum"] == 0.7


def test_nothing_to_train_is_an_error():
    with pytest.raises(ValueError, match=r"no parameter .* requires a gradient: there is nothing to train"):
        build_optimizer(Optimizer(), [nn.Parameter(torch.zeros(1), requires_grad=False)])
