import pytest
import torch

from evigrad.networks import SequenceEncoder, TextEncoder


def test_padding_of_a_sequence_is_not_seen():
    encoder = SequenceEncoder((6, 3), width=8, heads=2).eval()
    short = torch.randn(2, 4, 3)
    padded = torch.cat([short, torch.zeros(2, 5, 3)], dim=1)
    torch.testing.assert_close(encoder(padded), encoder(short))


def test_padding_of_text_is_not_seen():
    encoder = TextEncoder((6,), vocabulary=20, width=8, heads=2).eval()
    short = torch.randint(1, 20, (2, 4))
    padded = torch.cat([short, torch.zeros(2, 3, dtype=torch.long)], dim=1)
    torch.testing.assert_close(encoder(padded), encoder(short))


@pytest.mark.parametrize("kind", [SequenceEncoder, TextEncoder])
def test_padding_does_not_leak_while_training(kind):
    """Neither into features nor into a gradient; and the padding's own embedding is not learnt."""
    found = []
    for steps in (4, 9):
        torch.manual_seed(0)
        if kind is TextEncoder:
            encoder, inputs = kind((9,), vocabulary=20, width=8, heads=2), torch.randint(1, 20, (3, 4))
        else:
            encoder, inputs = kind((9, 3), width=8, heads=2).double(), torch.randn(3, 4, 3).double()
        inputs = torch.cat([inputs, inputs.new_zeros(3, steps - 4, *inputs.shape[2:])], dim=1)
        inputs[2] = 0  # nothing but padding
        features = encoder.double()(inputs)
        features.square().sum().backward()
        found.append([features.detach(), *(p.grad for p in encoder.parameters() if p.grad is not None)])
        assert kind is not TextEncoder or (encoder.embedding.weight.grad[0] == 0).all()
    # up to sums over more terms, all zero, in 64 bits
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)
    assert all(value.isfinite().all() for value in found[1])


def test_a_text_of_nothing_but_padding_is_the_class_token_alone():
    encoder = TextEncoder((6,), vocabulary=20, width=8, heads=2).eval()
    empty = encoder(torch.zeros(1, 6).long())
    torch.testing.assert_close(empty[0], encoder.tokens.layers(encoder.tokens.token.expand(1, 1, 8))[0, 0])
    with torch.no_grad():  # PyTorch's fast path
        torch.testing.assert_close(encoder(torch.zeros(1, 6).long()), empty)
        both = torch.tensor([[0] * 6, [3, 4, 5, 0, 0, 0]])
        torch.testing.assert_close(encoder(both)[:1], empty)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert encoder(both).isfinite().all()


def test_order_matters():
    encoder = TextEncoder((4,), vocabulary=20, width=8, heads=2).eval()
    words = torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(encoder(words), encoder(words.flip(1)))


def test_empty_sequences_have_finite_features_and_gradients():
    encoder = SequenceEncoder((4, 3), width=8, heads=2)
    features = encoder(torch.zeros(2, 4, 3))
    features.sum().backward()
    assert features.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


def test_float_token_numbers_are_read():
    encoder = TextEncoder((4,), vocabulary=20, width=8, heads=2).eval()
    words = torch.randint(0, 20, (2, 4))
    torch.testing.assert_close(encoder(words.float()), encoder(words))


def test_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"`shape` \(4,\) is not \(length, features\).*take TextEncoder"):
        SequenceEncoder((4,))
    with pytest.raises(ValueError, match=r"`shape` \(4, 3\) is not \(length,\), which TextEncoder reads"):
        TextEncoder((4, 3))
    with pytest.raises(ValueError, match="`width` 10 is not a multiple of `heads` 4"):
        TextEncoder((4,), width=10)


def test_refuses_other_inputs():
    for shape in ((2, 4), (2, 4, 5)):
        with pytest.raises(ValueError, match=r"`inputs` have shape .*; give \[B, T, 3\] sequences"):
            SequenceEncoder((4, 3), width=8, heads=2)(torch.ones(shape))
    encoder = TextEncoder((4,), vocabulary=20, width=8, heads=2)
    with pytest.raises(ValueError, match=r"`inputs` have shape \(2, 4, 3\); give token numbers \[B, T\]"):
        encoder(torch.ones(2, 4, 3))
    for number in (20, -1):
        with pytest.raises(ValueError, match=rf"token numbers from .*{number}.*`vocabulary` 20 allows 0 to 19; build"):
            encoder(torch.tensor([[3, number]]))
