import pytest
import torch

from evigrad.data import DataError, stream
from evigrad.data.scaling import fit, interval, minmax, quantised, standard

sklearn = pytest.importorskip("sklearn.preprocessing")


def values(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=stream(0)) * 7 + 3


def test_vectors_are_scaled_per_feature_as_scikit_learn_does():
    x, y = values(300, 5), values(20, 5) * 2
    for ours, theirs in ((standard, sklearn.StandardScaler()), (minmax, sklearn.MinMaxScaler())):
        expected = theirs.fit(x.double().numpy()).transform(y.double().numpy())
        assert torch.allclose(ours(x)(y), torch.from_numpy(expected).float(), atol=1e-5)


def test_maps_get_one_pair_of_numbers():
    x = values(600, 2, 3, 4)
    scaled = standard(x)(x)
    assert scaled.mean().item() == pytest.approx(0, abs=1e-5)
    assert scaled.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    assert minmax(x)(x).aminmax() == (0, 1)


def test_constant_features_become_zero():
    x = torch.full((4, 2), 3.0)
    assert standard(x)(x).tolist() == minmax(x)(x).tolist() == [[0, 0]] * 4


def test_bytes():
    x = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    assert interval(0, 255)(x).tolist() == [pytest.approx([0, 0.2, 1])]
    assert quantised(-14, 8)(x).tolist() == [pytest.approx([-14, -14 + 22 * 0.2, 8])]


def test_who_is_looked_at():
    train, part, everything = values(50, 2), values(50, 2) + 9, values(50, 2) * 4
    assert torch.equal(fit("standard", train, part, everything).shift, standard(train).shift)
    assert torch.equal(fit("minmax", train, part, everything).shift, minmax(train).shift)
    assert torch.equal(fit("minmax_tmc", train, part, everything).shift, minmax(part).shift)
    assert torch.equal(fit("minmax_rcml", train, part, everything).scale, minmax(everything).scale)


def test_errors():
    x = values(3, 1)
    with pytest.raises(DataError, match=r"unknown scaling 'standart'. Did you mean 'standard'\?"):
        fit("standart", x, x, x)
    with pytest.raises(DataError, match="there is no row to fit it on; use scaling='none'"):
        fit("standard", x[:0], x, x)
