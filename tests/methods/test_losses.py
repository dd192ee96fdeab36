import math

import torch

from evigrad.methods.losses import joint_loss, unimodal_losses
from tests.properties.toys import toy_batch, toy_network


def cross_entropy(logits: torch.Tensor, label: int) -> float:
    shifted = [float(value) for value in logits - logits.max()]
    return math.log(sum(math.exp(value) for value in shifted)) - shifted[label]


@torch.no_grad()
def test_losses_equal_a_loop_over_samples():
    network, batch = toy_network(), toy_batch(missing=0.5)
    output = network(batch.inputs, batch.present)
    losses = unimodal_losses(output, batch)
    labels = batch.target.tolist()
    joint = sum(cross_entropy(output.joint_logits[row], label) for row, label in enumerate(labels))
    torch.testing.assert_close(joint_loss(output, batch), torch.tensor(joint / 8).double())
    for name, logits in output.unimodal_logits.items():
        there = [row for row in range(8) if batch.present[name][row]]
        expected = sum(cross_entropy(logits[row], labels[row]) for row in there) / 8
        torch.testing.assert_close(losses[name], torch.tensor(expected).double())


def test_a_wholly_absent_modality_has_zero_loss_that_reaches_its_head():
    network, batch = toy_network(), toy_batch()
    batch.present["words"][:] = False
    loss = unimodal_losses(network(batch.inputs, batch.present), batch)["words"]
    loss.backward()
    assert loss == 0
    assert (network.heads["words"].weight.grad == 0).all()
