import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn

from evigrad.training import classification_metrics
from evigrad.training.metrics import aurc, brier, negative_log_likelihood, per_class


def example(samples=200, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(classes, (samples,), generator=generator)
    logits = torch.randn(samples, classes, generator=generator)
    logits[torch.arange(samples), target] += 1.0
    return logits.softmax(dim=1), target


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_and_f1_equal_scikit_learn(seed):
    probabilities, target = example(seed=seed)
    probabilities = probabilities.double() / probabilities.double().sum(dim=1, keepdim=True)
    found, predicted = classification_metrics(probabilities, target), probabilities.argmax(1)
    assert found["accuracy"] == sklearn.accuracy_score(target, predicted)
    assert found["f1_macro"] == pytest.approx(sklearn.f1_score(target, predicted, average="macro"), rel=1e-6)
    assert found["f1_weighted"] == pytest.approx(sklearn.f1_score(target, predicted, average="weighted"), rel=1e-6)
    assert found["nll"] == pytest.approx(sklearn.log_loss(target, probabilities, labels=range(5)), rel=1e-6)


def test_macro_f1_with_a_class_nobody_has_or_predicts():
    probabilities, target = example(classes=3)
    padded = torch.cat([probabilities, torch.zeros(len(target), 1)], dim=1)
    expected = sklearn.f1_score(target, probabilities.argmax(1), average="macro")
    assert classification_metrics(padded, target)["f1_macro"] == pytest.approx(expected, rel=1e-6)


def test_per_class_equals_scikit_learn():
    probabilities, target = example()
    found, predicted = per_class(probabilities, target), probabilities.argmax(1)
    recall, f1 = (f(target, predicted, average=None) for f in (sklearn.recall_score, sklearn.f1_score))
    assert [row["samples"] for row in found] == target.bincount().tolist()
    assert [row["accuracy"] for row in found] == pytest.approx(recall.tolist(), rel=1e-6)
    assert [row["f1"] for row in found] == pytest.approx(f1.tolist(), rel=1e-6)


def naive_ece(probabilities, target, bins=15):
    confidence, predicted = (value.numpy() for value in probabilities.double().max(dim=1))
    right, total = predicted == target.numpy(), 0.0
    for low in range(bins):
        inside = (confidence > low / bins) & (confidence <= (low + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return total


def test_calibration_error_equals_a_loop_over_bins():
    probabilities, target = example()
    assert classification_metrics(probabilities, target)["ece"] == pytest.approx(naive_ece(probabilities, target), 1e-5)


def test_brier_equals_a_loop_over_samples_and_classes():
    probabilities, target = example(samples=20)
    rows = [
        sum((float(p) - (c == int(y))) ** 2 for c, p in enumerate(row))
        for row, y in zip(probabilities, target, strict=True)
    ]
    assert brier(probabilities, target) == pytest.approx(np.mean(rows), rel=1e-6)


def test_nll_of_a_zero_probability_is_finite():
    assert negative_log_likelihood(torch.tensor([[1.0, 0.0]]), torch.tensor([1])) == pytest.approx(87.3, abs=0.1)


def naive_aurc(probabilities, target):
    order = np.argsort(-probabilities.max(dim=1).values.numpy(), kind="stable")
    errors = (probabilities.argmax(1) != target).numpy()[order]
    return np.mean([errors[: n + 1].mean() for n in range(len(errors))])


def test_aurc_equals_a_loop_over_coverages():
    probabilities, target = example()
    assert aurc(probabilities, target) == pytest.approx(naive_aurc(probabilities, target), rel=1e-12)


def test_aurc_does_not_depend_on_the_order_of_ties():
    probabilities = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
    target = torch.tensor([0, 1, 0])
    flipped = aurc(probabilities.flip(0), target.flip(0))
    assert aurc(probabilities, target) == flipped == pytest.approx((0 + 0.25 + 1 / 3) / 3)


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"probabilities must be \[N, C\] .* got \[3\] and \[3\]"):
        classification_metrics(torch.ones(3), torch.ones(3).long())


def test_nan_probabilities_are_counted():
    probabilities = torch.tensor([[0.5, 0.5], [float("nan"), 1.0]])
    with pytest.raises(ValueError, match="probabilities of 1 of 2 samples are NaN or infinite"):
        classification_metrics(probabilities, torch.tensor([0, 1]))
