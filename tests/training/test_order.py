import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evigrad.training.order import EpochPlan, derived_seed

PLANS = st.builds(
    EpochPlan,
    size=st.integers(1, 60),
    batch_size=st.integers(12, 20),
    accumulate=st.integers(1, 4),
    world_size=st.integers(1, 3),
)


@given(PLANS, st.integers(0, 5))
def test_every_sample_is_seen_once_an_epoch(plan, epoch):
    order = plan.order(seed=1, epoch=epoch)
    seen = []
    for rank in range(plan.world_size):
        for step, parts in enumerate(plan.steps(order, rank)):
            assert len(parts) <= plan.accumulate
            weights = [plan.weight(step, rank, len(part)) for part in parts]
            seen += [i for part, weight in zip(parts, weights, strict=True) for i in part if weight > 0]
    assert sorted(seen) == list(range(plan.size))


@given(PLANS)
def test_weighted_means_of_micro_batches_average_to_the_mean_of_the_step(plan):
    order, values = plan.order(0, 0), torch.rand(plan.size, dtype=torch.float64)
    ranks = [list(plan.steps(order, rank)) for rank in range(plan.world_size)]
    for step in range(len(plan)):
        shares = [
            sum(values[part].mean() * plan.weight(step, rank, len(part)) for part in steps[step])
            for rank, steps in enumerate(ranks)
        ]
        whole = values[order[step * plan.batch_size : (step + 1) * plan.batch_size]].mean()
        torch.testing.assert_close(torch.stack(shares).mean(), whole)


@given(PLANS, st.integers(0, 4))
def test_all_ranks_take_equally_many_micro_batches_and_none_is_empty(plan, epoch):
    order = plan.order(0, epoch)
    lengths = [[[len(p) for p in parts] for parts in plan.steps(order, rank)] for rank in range(plan.world_size)]
    assert len({tuple(len(parts) for parts in steps) for steps in lengths}) == 1
    assert min(length for steps in lengths for parts in steps for length in parts) >= 1


def test_the_order_depends_on_seed_and_epoch_alone():
    plan = EpochPlan(50, 16)
    assert torch.equal(plan.order(0, 1), EpochPlan(50, 25, accumulate=2).order(0, 1))
    assert not torch.equal(plan.order(0, 1), plan.order(0, 2))
    assert not torch.equal(plan.order(0, 1), plan.order(1, 1))


def test_a_resumed_epoch_goes_on_with_the_same_steps():
    plan = EpochPlan(50, 16, accumulate=2)
    order = plan.order(0, 0)
    assert list(plan.steps(order, start=2)) == list(plan.steps(order))[2:]


def test_drop_last_leaves_out_the_incomplete_step_only():
    assert len(EpochPlan(50, 16, drop_last=True)) == 3
    assert len(EpochPlan(48, 16, drop_last=True)) == 3


def test_seeds_made_of_parts_differ():
    assert len({derived_seed(a, b) for a in range(20) for b in range(20)}) == 400


def test_a_batch_too_small_for_its_parts_is_refused():
    with pytest.raises(ValueError, match=r"cannot fill accumulate=3 micro-batches on 2 device.*at least 6"):
        EpochPlan(50, 4, accumulate=3, world_size=2)


def test_a_training_set_too_small_for_a_step_is_refused():
    with pytest.raises(ValueError, match="has 5 samples, which makes no step of batch_size=16 with drop_last=True"):
        EpochPlan(5, 16, drop_last=True)
