"""What every fusion must satisfy, as named asserts."""

import torch
from torch import Tensor, nn

from evigrad.networks import Fusion

WIDTHS = {"sound": 3, "image": 5, "words": 2}


def draw(batch: int = 6, seed: int = 0) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Features and presence; the last sample has nothing at all."""
    generator = torch.Generator().manual_seed(seed)
    features = {
        name: torch.randn(batch, width, generator=generator, dtype=torch.float64) for name, width in WIDTHS.items()
    }
    present = {name: torch.rand(batch, generator=generator) > 0.4 for name in WIDTHS}
    for mask in present.values():
        mask[-1] = False
    return features, present


def assert_ends_in_its_linear_layer(fusion: Fusion) -> None:
    """The logits are the output of ``fusion.linear``, unchanged."""
    features, present = draw()
    seen: list[Tensor] = []
    handle = fusion.linear.register_forward_hook(lambda _, __, output: seen.append(output))
    logits = fusion(features, present)
    handle.remove()
    assert isinstance(fusion.linear, nn.Linear)
    assert len(seen) == 1
    assert logits is seen[0]
    assert logits.shape == (6, fusion.classes)


def assert_absent_features_are_ignored(fusion: Fusion) -> None:
    """NaN in an absent row changes neither logits nor gradients, and gets none itself."""
    results = []
    for filling in (0.0, float("nan")):
        fusion.zero_grad()
        features, present = draw()
        for name, mask in present.items():
            features[name][~mask] = filling
            features[name].requires_grad_()
        logits = fusion(features, present)
        logits.square().sum().backward()
        for name, mask in present.items():
            gradient = features[name].grad
            assert gradient is not None
            assert (gradient[~mask] == 0).all()
        results.append([logits.detach(), *(p.grad.clone() for p in fusion.parameters() if p.grad is not None)])
    for actual, expected in zip(*results, strict=True):
        assert expected.isfinite().all()
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def assert_samples_do_not_meet(fusion: Fusion) -> None:
    """A sample's logits are those it has alone in a batch."""
    features, present = draw()
    logits = fusion(features, present)
    for row in range(6):
        alone = {name: value[row : row + 1] for name, value in features.items()}
        masks = {name: value[row : row + 1] for name, value in present.items()}
        torch.testing.assert_close(fusion(alone, masks)[0], logits[row])


def assert_order_of_the_dictionary_is_irrelevant(fusion: Fusion) -> None:
    """Features are taken by name."""
    features, present = draw()
    turned = dict(reversed(features.items()))
    torch.testing.assert_close(fusion(turned, present), fusion(features, present), rtol=0, atol=0)


def assert_no_mask_means_present(fusion: Fusion) -> None:
    """``present=None``, and a name left out of it, are the same as all True."""
    features, present = draw()
    everything = {name: torch.ones_like(mask) for name, mask in present.items()}
    torch.testing.assert_close(fusion(features), fusion(features, everything), rtol=0, atol=0)
    torch.testing.assert_close(fusion(features, {}), fusion(features), rtol=0, atol=0)


def assert_reads_every_modality(fusion: Fusion) -> None:
    """Every present feature vector receives a gradient."""
    features, _ = draw()
    for value in features.values():
        value.requires_grad_()
    fusion(features).square().sum().backward()
    assert all(value.grad is not None and (value.grad != 0).any() for value in features.values())
