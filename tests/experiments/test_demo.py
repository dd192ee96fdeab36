import pytest

from evigrad.experiments.demo import BATCH_SIZE, EPOCHS, METHODS, REFERENCE, SEEDS, demo_experiments, record


def test_the_choice_used_other_seeds_and_the_same_training():
    choice = record()
    assert not set(choice["seeds"]) & set(SEEDS)
    assert (choice["epochs"], choice["batch_size"]) == (EPOCHS, BATCH_SIZE)


def test_the_chosen_regime_is_the_one_the_rule_names():
    choice = record()
    best = max(choice["candidates"], key=lambda one: one["f_ratio"])
    assert choice["chosen"] == {key: best[key] for key in ("regime", "learning_rates", "f_ratio")}


@pytest.mark.parametrize("method", METHODS)
def test_every_learning_rate_is_the_best_on_validation_that_never_diverged(method):
    seeds = len(record()["seeds"])
    for candidate in record()["candidates"]:
        found = {float(rate): table[method] for rate, table in candidate["validation_accuracy"].items()}
        means = {rate: sum(values) / seeds for rate, values in found.items() if len(values) == seeds}
        assert means[candidate["learning_rates"][method]] == max(means.values())


def test_all_methods_share_everything_but_the_learning_rate():
    experiments = demo_experiments()
    assert tuple(experiments) == METHODS
    assert REFERENCE in experiments
    assert {one.data.options["split"] for one in experiments.values()} == {"tmc"}
    assert len({(str(one.data), str(one.network), one.training.epochs) for one in experiments.values()}) == 1
    rates = {name: one.training.optimizer.learning_rate for name, one in experiments.items()}
    assert rates == record()["chosen"]["learning_rates"]


def test_test_rows_are_the_same_for_every_seed():
    import torch

    experiment = demo_experiments()["uniform"]
    targets = [experiment.seeded(seed).splits().test.target for seed in (0, 1, 100)]
    assert torch.equal(targets[0], targets[1])
    assert torch.equal(targets[0], targets[2])
