import pytest
import torch

from evigrad.networks import (
    ENCODERS,
    FUSIONS,
    MLP,
    SequenceEncoder,
    SmallCNN,
    TextEncoder,
    build_encoder,
    build_network,
)

SHAPES = {"sound": (1, 8, 8), "image": (12,), "words": (5, 3), "clip": (3, 2, 8, 8)}


def test_encoders_go_by_shape():
    kinds = {name: type(encoder) for name, encoder in build_network(SHAPES, 3).encoders.items()}
    assert kinds == {"sound": SmallCNN, "image": MLP, "words": SequenceEncoder, "clip": SmallCNN}


def test_encoders_and_their_options_can_be_named():
    network = build_network(
        {"text": (7,), "image": (12,)}, 3, encoders={"text": "text"}, encoder_options={"text": {"vocabulary": 11}}
    )
    assert isinstance(network.encoders["text"], TextEncoder)
    assert network.encoders["text"].vocabulary == 11
    assert isinstance(build_network(SHAPES, 3, encoders="mlp").encoders["clip"], MLP)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_every_fusion_can_be_named(fusion):
    inputs = {name: torch.randn(2, *shape) for name, shape in SHAPES.items()}
    assert build_network(SHAPES, 3, fusion=fusion)(inputs).joint_logits.shape == (2, 3)


def test_fusion_options_reach_the_fusion():
    assert build_network(SHAPES, 3, fusion="gated", fusion_options={"width": 9}).fusion.linear.in_features == 9


def test_weights_depend_on_the_seed_alone():
    before = torch.random.get_rng_state()
    first = build_network(SHAPES, 3, seed=1).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(99)
    second, third = build_network(SHAPES, 3, seed=1).state_dict(), build_network(SHAPES, 3, seed=2).state_dict()
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not torch.equal(first["fusion.linear.weight"], third["fusion.linear.weight"])


def test_initialisation_covers_heads_and_fusion():
    network = build_network(SHAPES, 3, initialisation="ogm")
    assert (network.heads["image"].bias == 0).all()
    assert (network.fusion.linear.bias == 0).all()


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown `encoder`: 'resnet'\. Did you mean 'resnet18'\?"):
        build_encoder("resnet", (3, 8, 8))
    with pytest.raises(ValueError, match=r"Unknown `fusion`: 'concat'\. Did you mean 'concatenation'\?"):
        build_network(SHAPES, 3, fusion="concat")
    with pytest.raises(ValueError, match=r"Unknown `encoders`: 'sounds'\. Did you mean 'sound'\?"):
        build_network(SHAPES, 3, encoders={"sounds": "mlp"})
    with pytest.raises(ValueError, match=r"Unknown `encoder_options`: 'img'\. Did you mean 'image'\?"):
        build_network(SHAPES, 3, encoder_options={"img": {}})
    with pytest.raises(ValueError, match=r"Unknown `option of mlp`: 'widht'\. Did you mean 'width'\?"):
        build_encoder("mlp", (3,), widht=3)
    with pytest.raises(ValueError, match=r"Unknown `option of gated`: 'with'\. Did you mean 'width'\? .*: width\."):
        build_network(SHAPES, 3, fusion="gated", fusion_options={"with": 3})
    with pytest.raises(ValueError, match=r"'concatenation' has no options, and 'width' was given; leave it out"):
        build_network(SHAPES, 3, fusion_options={"width": 3})


def test_every_encoder_says_its_width():
    shapes = {"mlp": (4,), "small_cnn": (1, 8, 8), "resnet18": (1, 32, 32), "sequence": (4, 3), "text": (4,)}
    assert shapes.keys() == ENCODERS.keys()
    for name, shape in shapes.items():
        encoder = build_encoder(name, shape).eval()
        inputs = torch.randint(1, 9, (2, *shape)).float()
        assert encoder(inputs).shape == (2, encoder.width)
