import torch
from sklearn.linear_model import LogisticRegression

from evigrad.training.probes import fit_probe


def features(samples=120, width=7, classes=3):
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(classes, (samples,), generator=generator)
    centres = torch.randn(classes, width, generator=generator)
    return centres[target] + 2 * torch.randn(samples, width, generator=generator), target


def test_a_probe_is_regularised_logistic_regression():
    values, target = features()
    standard = ((values - values.mean(0)) / values.std(0, correction=0)).double().numpy()
    strength = 0.01
    oracle = LogisticRegression(C=1 / (strength * len(values)), tol=1e-10, max_iter=10_000).fit(standard, target)
    found = fit_probe(values, target, classes=3, strength=strength)(values).softmax(dim=1)
    torch.testing.assert_close(found.double(), torch.as_tensor(oracle.predict_proba(standard)), rtol=0, atol=1e-4)


def test_a_dead_feature_and_a_huge_one_do_no_harm():
    values, target = features()
    odd = torch.cat([values, torch.zeros(len(values), 1), 1e6 * values[:, :1]], dim=1)
    probe = fit_probe(odd, target, classes=3)
    assert torch.isfinite(probe(odd)).all()
    assert (probe(odd).argmax(1) == target).float().mean() > 0.5


def test_a_probe_draws_no_random_numbers_that_matter():
    values, target = features()
    torch.manual_seed(1)
    first = fit_probe(values, target, 3)
    torch.manual_seed(2)
    assert torch.equal(first.weight, fit_probe(values, target, 3).weight)
