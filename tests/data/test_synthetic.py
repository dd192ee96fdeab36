import math

import pytest
import torch

from evigrad.data import DataError, load, synthetic, whole

SIZE = 20_000


def train(**options):
    return synthetic(sizes=(SIZE, 2, 2), **options).train


def accuracy(probabilities, target) -> float:
    return (probabilities.argmax(1) == target).double().mean().item()


def naive_posterior(part, row: int) -> list[float]:
    """Bayes' rule by enumerating everything that may have happened to one row."""
    truth, sources, classes = part.truth, list(part.inputs), len(part.classes)
    q = truth.conflict_rate

    def likelihood(name: str, label: int) -> float:
        if not part.present[name][row]:
            return 1.0
        mean = truth.signal[name] * truth.prototypes[name][label]
        distance = float((part.inputs[name][row].double() - mean.double()).square().sum())
        return math.exp(-distance / (2 * float(truth.noise[name][row]) ** 2))

    weights = []
    for label in range(classes):
        total = (1 - q) * math.prod(likelihood(name, label) for name in sources)
        for liar in sources:
            for shown in set(range(classes)) - {label}:
                claims = {name: shown if name == liar else label for name in sources}
                chance = q / len(sources) / (classes - 1)
                total += chance * math.prod(likelihood(name, claims[name]) for name in sources)
        weights.append(total)
    return [weight / sum(weights) for weight in weights]


def test_the_same_seed_plants_the_same():
    first, again, other = train(seed=1), train(seed=1), train(seed=2)
    assert torch.equal(first.inputs["weak"], again.inputs["weak"])
    assert not torch.equal(first.inputs["weak"], other.inputs["weak"])


def test_noise_and_signal_are_what_is_recorded():
    data = train(signal={"a": 3.0, "b": 0.0}, noise=(0.5, 2.0), conflict=0.2)
    for name, strength in (("a", 3.0), ("b", 0.0)):
        truth = data.truth
        clean = strength * truth.prototypes[name][truth.claimed[name]]
        standard = (data.inputs[name] - clean) / truth.noise[name][:, None]
        assert standard.mean().item() == pytest.approx(0, abs=0.01)
        assert standard.var().item() == pytest.approx(1, abs=0.01)
        logs = truth.noise[name].log()
        assert logs.mean().item() == pytest.approx(0, abs=0.02)  # log-uniform between 1/2 and 2
        assert logs.var().item() == pytest.approx((2 * math.log(2)) ** 2 / 12, rel=0.03)


def test_conflict_is_planted_at_its_rate_in_one_modality():
    data = train(signal={"a": 1.0, "b": 1.0, "c": 1.0}, conflict=0.3)
    lies = torch.stack([data.truth.claimed[name] != data.target for name in "abc"])
    assert torch.equal(lies.sum(0), data.truth.conflict.long())
    assert data.truth.conflict.double().mean().item() == pytest.approx(0.3, abs=0.01)
    assert lies.double().mean(1).tolist() == pytest.approx([0.1] * 3, abs=0.01)
    shown = data.truth.claimed["a"][lies[0]] - data.target[lies[0]]
    assert torch.bincount(shown % 4).double().div(len(shown)).tolist()[1:] == pytest.approx([1 / 3] * 3, abs=0.05)


def test_missing_rate():
    data = train(signal={"a": 1.0, "b": 1.0}, missing=0.4)
    rate = (0.4 - 0.4**2) / (1 - 0.4**2)  # given that one of the two stays
    for name in "ab":
        assert 1 - data.present[name].double().mean().item() == pytest.approx(rate, abs=0.01)
    assert (data.present["a"] | data.present["b"]).all()
    assert whole(data.select(torch.arange(100))).inputs["a"][~data.present["a"][:100]].eq(0).all()


def test_distances_between_prototypes_are_known():
    for redundancy in (0.0, 0.5, 1.0):
        prototypes = train(redundancy=redundancy, signal={"a": 1.0, "b": 1.0}).truth.prototypes
        assert prototypes["a"].norm(dim=1).tolist() == pytest.approx([1] * 4, abs=1e-5)
        # Classes 0 and 2 share modality a's own digit (0), so only the redundant part tells them apart.
        assert (prototypes["a"][0] - prototypes["a"][2]).norm().item() == pytest.approx(
            math.sqrt(2 * redundancy), abs=1e-5
        )
        assert (prototypes["b"][0] - prototypes["b"][2]).norm().item() == pytest.approx(math.sqrt(2), abs=1e-5)


def test_complementary_modalities_tell_the_class_only_together():
    part = synthetic(sizes=(2000, 2, 2), redundancy=0.0, noise=(0.05, 0.05), signal={"a": 3.0, "b": 3.0}).train
    batch = whole(part)
    assert accuracy(part.truth.posterior(batch.inputs, batch.present), batch.target) == 1
    for name in "ab":
        alone = part.truth.posterior({name: batch.inputs[name]}, batch.present)
        assert accuracy(alone, batch.target) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("options", [{}, {"conflict": 0.4}, {"conflict": 0.3, "missing": 0.3, "redundancy": 0.3}])
def test_posterior_equals_enumeration(options):
    part = synthetic(
        sizes=(30, 2, 2), signal={"a": 2.0, "b": 1.0, "c": 0.5}, features={"a": 9, "b": 3, "c": 5}, **options
    ).train
    batch = whole(part)
    posterior = part.truth.posterior(batch.inputs, batch.present)
    for row in range(len(part)):
        assert posterior[row].tolist() == pytest.approx(naive_posterior(part, row), rel=1e-4, abs=1e-9)


def test_posterior_is_calibrated():
    data = train(conflict=0.2, missing=0.2, redundancy=0.5)
    batch = data.__getitems__(range(SIZE))
    for names in (["strong"], ["weak"], ["strong", "weak"]):
        posterior = data.truth.posterior({name: batch.inputs[name] for name in names}, batch.present)
        confidence = posterior.max(1).values
        correct = posterior.argmax(1) == batch.target
        for low in (0.25, 0.5, 0.75):
            bin_ = (confidence >= low) & (confidence < low + 0.25)
            error = 3.5 * 0.5 / math.sqrt(int(bin_.sum()))
            assert correct[bin_].double().mean().item() == pytest.approx(confidence[bin_].mean().item(), abs=error)


def test_selected_rows_keep_what_was_planted_in_them():
    data, rows = train(conflict=0.3, missing=0.2), torch.tensor([7, 3, 19])
    few = data.select(rows)
    whole_posterior = data.truth.posterior(data.__getitems__(range(SIZE)).inputs, data.present)
    batch = whole(few)
    assert torch.allclose(few.truth.posterior(batch.inputs, batch.present), whole_posterior[rows])
    assert torch.equal(few.truth.conflict, data.truth.conflict[rows])


def test_stronger_signal_is_easier():
    data = train()
    batch = data.__getitems__(range(SIZE))
    scores = {
        n: accuracy(data.truth.posterior({n: batch.inputs[n]}, batch.present), batch.target) for n in batch.inputs
    }
    assert scores["strong"] > scores["weak"] + 0.2
    joint = accuracy(data.truth.posterior(batch.inputs, batch.present), batch.target)
    assert joint > scores["strong"]


def test_by_name_with_splits():
    splits = load("synthetic", sizes=(8, 4, 3), classes=3, features={"strong": 5, "weak": 2})
    assert [len(part) for part in splits.parts().values()] == [8, 4, 3]
    assert splits.train.modalities == {"strong": (5,), "weak": (2,)}
    assert splits.info.classes == 3
    assert "redundancy 1.0" in splits.test.protocol


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"classes": 1}, "classes=1: give at least 2"),
        ({"noise": (0.0, 1.0)}, r"noise=\(0.0, 1.0\): give the smallest and the largest"),
        ({"noise": (1.0, 2.0, 3.0)}, r"noise=\(1.0, 2.0, 3.0\): give the smallest and the largest"),
        ({"sizes": (5, 5)}, r"sizes=\(5, 5\): give the rows of train, validation and test, each at least 1"),
        ({"sizes": (0, 5, 5)}, r"sizes=\(0, 5, 5\): give the rows"),
        ({"features": 0}, "features={'strong': 0, 'weak': 0}: give each modality at least 1"),
        ({"conflict": 1.5}, "conflict=1.5: it must lie between 0 and 1"),
        ({"redundancy": -1}, "redundancy=-1: it must lie between 0 and 1"),
        ({"missing": 1.0}, r"probability=1.0: it must lie in \[0, 1\)"),
        ({"features": {"strong": 3}}, r"features names \['strong'\], signal names \['strong', 'weak'\]"),
    ],
)
def test_errors(options, text):
    with pytest.raises(DataError, match=text):
        synthetic(**options)
