import pytest
import torch
from torch import nn

from evigrad.networks import MLP, Concatenation, MultimodalNetwork, NoFusion
from tests.properties.toys import SHAPES, toy_batch, toy_network


def test_output_is_that_of_its_parts():
    network, batch = toy_network().eval(), toy_batch()
    output = network(batch.inputs)
    for name, inputs in batch.inputs.items():
        torch.testing.assert_close(output.features[name], network.encoders[name](inputs))
        torch.testing.assert_close(output.unimodal_logits[name], network.heads[name](output.features[name]))
    together = torch.cat(list(output.features.values()), dim=1)
    torch.testing.assert_close(output.joint_logits, network.fusion.linear(together))


@pytest.mark.parametrize("training", [True, False])
def test_an_input_left_out_is_an_absent_one(training):
    batch = toy_batch()
    absent = {**batch.present, "image": torch.zeros(8, dtype=torch.bool)}
    left = {name: value for name, value in batch.inputs.items() if name != "image"}
    expected = toy_network().train(training)(batch.inputs, absent)
    for present in (None, {}, absent):
        output = toy_network().train(training)(left, present)
        torch.testing.assert_close(output.joint_logits, expected.joint_logits)
        assert (output.features["image"] == 0).all()


def test_an_input_left_out_but_said_to_be_present_is_an_error():
    batch = toy_batch()
    left = {"sound": batch.inputs["sound"]}
    with pytest.raises(ValueError, match=r"`present` says that 8 samples have modality 'image', but `inputs`"):
        toy_network()(left, batch.present)
    with pytest.raises(ValueError, match=r"`inputs` holds \['smell'\], none of the modalities \['sound', "):
        toy_network()({"smell": torch.zeros(8, 2)})


@pytest.mark.parametrize("training", [True, False])
def test_inputs_and_masks_that_do_not_fit_are_errors(training):
    network, batch = toy_network().train(training), toy_batch()
    longer = {**batch.inputs, "image": torch.zeros(9, 12).double()}
    with pytest.raises(ValueError, match=r"`inputs\['image'\]` has 9 samples and the first modality has 8; give every"):
        network(longer, batch.present)
    for mask in (torch.ones(8), torch.ones(8, dtype=torch.long), torch.ones(8, 1).bool(), torch.ones(7).bool()):
        with pytest.raises(
            ValueError, match=r"`present\['image'\]` is torch\..* of shape .*; give a bool tensor of shape"
        ):
            network(batch.inputs, {**batch.present, "image": mask})


def test_absent_samples_give_no_gradient():
    """The gradient of one encoder is that of its present samples alone, in a network of its own."""
    network, batch = toy_network(), toy_batch(missing=0.5)
    mask = batch.present["image"]
    assert 0 < int(mask.sum()) < 8
    network(batch.inputs, batch.present).features["image"].square().sum().backward()
    other = toy_network().encoders["image"]
    other(batch.inputs["image"][mask]).square().sum().backward()
    for mine, theirs in zip(network.encoders["image"].parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_all_absent_samples_are_finite():
    network, batch = toy_network(), toy_batch()
    nothing = {name: torch.zeros(8, dtype=torch.bool) for name in SHAPES}
    output = network({name: value * torch.nan for name, value in batch.inputs.items()}, nothing)
    output.joint_logits.sum().backward()
    torch.testing.assert_close(output.joint_logits, network.fusion.linear.bias.expand(8, -1))
    for parameter in network.encoders.parameters():
        assert (parameter.grad == 0).all()


def test_parts_can_be_dropped():
    network, batch = toy_network(), toy_batch()
    network.drop_heads()
    assert network(batch.inputs).unimodal_logits == {}
    network.drop_fusion()
    assert (network(batch.inputs).joint_logits == 0).all()
    assert network(batch.inputs).joint_logits.shape == (8, 4)


def test_keeping_one_modality_removes_the_rest():
    network, batch = toy_network(), toy_batch()
    expected = network(batch.inputs).unimodal_logits["image"]
    network.keep(["image"])
    assert network.modalities == ("image",)
    assert isinstance(network.fusion, NoFusion)
    torch.testing.assert_close(network(batch.inputs).unimodal_logits["image"], expected)


@pytest.mark.parametrize("order", [1, -1])
def test_keeping_everything_keeps_the_fusion(order):
    network = toy_network()
    network.keep(list(SHAPES)[::order])
    assert isinstance(network.fusion, Concatenation)
    assert network.modalities == tuple(SHAPES)


def test_keeping_what_is_not_there_is_an_error():
    with pytest.raises(ValueError, match=r"Unknown `names`: 'sond'\. Did you mean 'sound'\?"):
        toy_network().keep(["sond"])
    with pytest.raises(ValueError, match=r"`names` is empty; keep at least one of \['sound', "):
        toy_network().keep([])


def test_exports_with_missing_modalities():
    network, batch = toy_network().eval(), toy_batch(missing=0.5)

    class Joint(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, inputs, present):
            return self.network(inputs, present).joint_logits

    program = torch.export.export(Joint(), (batch.inputs, batch.present)).module()
    other = toy_batch(missing=0.3, seed=5)
    expected = network(other.inputs, other.present).joint_logits
    torch.testing.assert_close(program(other.inputs, other.present), expected)


@pytest.mark.parametrize("name", ["a.b", "", "keys", "training", "_modules", "copy"])
def test_impossible_names_are_an_error(name):
    with pytest.raises(ValueError, match=r"cannot be a modality's name.*rename it, to '.*_input' say"):
        MultimodalNetwork({name: MLP((2,), width=3)}, nn.Linear(3, 2))


def test_wrong_parts_are_errors():
    fusion = Concatenation({"a": 3}, 2)
    with pytest.raises(ValueError, match=r"`encoders` is empty"):
        MultimodalNetwork({}, fusion)
    with pytest.raises(ValueError, match=r"modality 'a' \(Linear\) has width None; set its attribute `width`"):
        MultimodalNetwork({"a": nn.Linear(2, 3)}, fusion)
    with pytest.raises(ValueError, match=r"`fusion` \(ReLU\) has no linear layer `linear`"):
        MultimodalNetwork({"a": MLP((2,), width=3)}, nn.ReLU())
    with pytest.raises(ValueError, match=r"`heads` has \['b'\], which `encoders` \(\['a'\]\) does not"):
        MultimodalNetwork({"a": MLP((2,), width=3)}, fusion, {"b": nn.Linear(3, 2)})


def test_parts_that_do_not_fit_are_errors():
    encoders = {"a": MLP((2,), width=3), "b": MLP((2,), width=4)}
    fusion = Concatenation({"a": 3, "b": 4}, 2)
    for widths in ({"a": 3}, {"a": 3, "b": 5}, {"a": 3, "c": 4}):
        with pytest.raises(ValueError, match=r"`fusion` reads \{.*return \{'a': 3, 'b': 4\}; build it for them"):
            MultimodalNetwork(encoders, Concatenation(widths, 2))
    for head in (nn.Linear(3, 2), nn.Linear(4, 3)):
        with pytest.raises(ValueError, match=r"head of modality 'b' is Linear\(.*; use nn\.Linear\(4, 2\), or leave"):
            MultimodalNetwork(encoders, fusion, {"a": nn.Linear(3, 2), "b": head})
    assert MultimodalNetwork(encoders, Concatenation({"b": 4, "a": 3}, 2)).modalities == ("a", "b")
    assert MultimodalNetwork(encoders, fusion, {"a": nn.Linear(3, 2)}).modalities == ("a", "b")
