"""What every training method must satisfy, as named asserts."""

from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from evigrad.methods import Method
from evigrad.networks import Concatenation, MultimodalNetwork
from tests.properties.toys import (
    CLASSES,
    VECTORS,
    Dividing,
    ToyBatch,
    gradients,
    prepared,
    reordered,
    sgd,
    toy_batch,
    toy_batches,
    toy_network,
    train,
    weights,
)

Steps = Callable[[nn.Module, list[ToyBatch]], None]


def assert_same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Bit for bit."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=0, atol=0, msg=lambda text, n=name: f"{n}: {text}")


def assert_close(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float = 1e-9) -> None:
    """Up to the rounding of sums in another order, in float64."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}"
        )


def assert_trains(method: Method, network: MultimodalNetwork, batches: list[ToyBatch]) -> None:
    """Every remaining parameter that should learn does, and stays finite."""
    before = weights(network)
    train(method, network, batches)
    after = weights(network)
    for name, parameter in network.named_parameters():
        assert parameter.isfinite().all(), name
        assert not torch.equal(before[name], after[name]), f"{name} was not trained"


def assert_equals_reference(
    method: Method, network: MultimodalNetwork, reference: Steps, batches: list[ToyBatch], exact: bool = True
) -> None:
    """T0: the method with its strength at neutral is the reference, over all ``batches`` (at least three steps)."""
    assert len(batches) >= 3
    expected = deepcopy(network)
    reference(expected, batches)
    train(method, network, batches)
    (assert_same if exact else assert_close)(weights(network), weights(expected))


def assert_order_is_irrelevant(name: str, shapes: Mapping[str, tuple[int, ...]], **options: object) -> None:
    """T1: listing the modalities in another order changes nothing but the order."""
    order = [*list(shapes)[1:], next(iter(shapes))]
    network = toy_network(shapes)
    other = reordered(network, order)
    batches = toy_batches(3, shapes=shapes)
    for each in (network, other):
        train(prepared(name, each, **options), each, batches)
    if isinstance(other.fusion, Concatenation):
        other = reordered(other, list(shapes))
    assert_close(weights(other), weights(network))


def assert_resumes(name: str, **options: object) -> None:
    """T3: ten steps are five, a checkpoint in mid-epoch into a fresh process, and five more, bit for bit."""
    network, batches = toy_network(), toy_batches(10)
    method, optimizer, surgery = prepared(name, network, **options), sgd(network), Dividing()
    train(method, network, batches[:5], surgery=surgery, optimizer=optimizer, epoch=1)
    saved = deepcopy((network.state_dict(), method.state_dict(), optimizer.state_dict(), surgery.generator.get_state()))
    train(method, network, batches[5:], surgery=surgery, optimizer=optimizer, epoch=None)

    fresh = toy_network(seed=1)
    again = prepared(name, fresh, **options)
    continued, lent = sgd(fresh), Dividing(seed=1)
    fresh.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    continued.load_state_dict(saved[2])
    lent.generator.set_state(saved[3])
    train(again, fresh, batches[5:], surgery=lent, optimizer=continued, epoch=None)
    assert_same(weights(fresh), weights(network))
    assert_same(again.state_dict(), method.state_dict())


def assert_absent_inputs_are_ignored(name: str, **options: object) -> None:
    """Whatever an absent row holds, NaN included, training and prediction are the same."""
    results = []
    for filling in (0.0, float("nan"), 1e30):
        network = toy_network()
        method = prepared(name, network, **options)
        batches = [filled(batch, filling) for batch in toy_batches(3, missing=0.4)]
        train(method, network, batches)
        network.eval()
        with torch.no_grad():
            predicted = method.predict(network(batches[0].inputs, batches[0].present), batches[0].present)
        assert predicted.isfinite().all()
        results.append({**weights(network), "predicted": predicted})
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def filled(batch: ToyBatch, value: float) -> ToyBatch:
    inputs = {}
    for name, tensor in batch.inputs.items():
        absent = ~batch.present[name].view(-1, *[1] * (tensor.dim() - 1))
        inputs[name] = tensor.masked_fill(absent, value)
    return ToyBatch(inputs, batch.target, batch.present, batch.index)


def assert_a_batch_without_a_modality_leaves_its_encoder(name: str, **options: object) -> None:
    """A modality that no sample of the batch has gets zero gradients, and its running statistics stay."""
    network, batch = toy_network(), toy_batch()
    method = prepared(name, network, **options)
    batch.present["sound"][:] = False
    before = weights(network.encoders["sound"])
    gradients(method, network, batch, 1, Dividing())
    for parameter in network.encoders["sound"].parameters():
        assert parameter.grad is not None
        # OGM-GE's noise has the gradient's deviation + 1e-8, as printed, also where that is 0
        assert (parameter.grad.abs() < 1e-6).all()
    others = [p for key, encoder in network.encoders.items() if key != "sound" for p in encoder.parameters()]
    assert not others or any((p.grad.abs() > 1e-6).any() for p in others if p.grad is not None)
    assert_same(weights(network.encoders["sound"]), before)


def assert_odd_batches_do_no_harm(name: str, **options: object) -> None:
    """One sample, and samples that have nothing at all, leave weights and predictions finite."""
    network = toy_network()
    method, nothing = prepared(name, network, **options), toy_batch(size=3)
    for mask in nothing.present.values():
        mask[:] = False
    train(method, network, [toy_batch(size=1), nothing, toy_batch(size=1, seed=1)])
    assert all(value.isfinite().all() for value in network.state_dict().values())
    predicted = method.predict(network.eval()(nothing.inputs, nothing.present), nothing.present)
    assert predicted.isfinite().all()


class Given(nn.Module):
    """Features that come ready: an encoder of no parameters."""

    width = 5

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def assert_trains_beside_what_cannot_learn(name: str, **options: object) -> None:
    """Next to a frozen encoder, which keeps its weights, and one without any, the third learns."""
    encoders = toy_network(VECTORS).encoders
    encoders["image"].requires_grad_(False)
    kept = {"sound": encoders["sound"], "image": encoders["image"], "words": Given()}
    network = MultimodalNetwork(kept, Concatenation({"sound": 8, "image": 8, "words": 5}, CLASSES)).double()
    frozen, start = weights(network.encoders["image"]), weights(network.encoders["sound"])
    method = prepared(name, network, **options)
    trainable = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.05, momentum=0.9)
    train(method, network, toy_batches(3, shapes=VECTORS, missing=0.3), optimizer=optimizer)
    assert_same(weights(network.encoders["image"]), frozen)
    assert all(p.grad is None for p in network.encoders["image"].parameters())
    assert not torch.equal(weights(network.encoders["sound"])["layers.1.weight"], start["layers.1.weight"])


def assert_micro_batches_add_up(name: str, **options: object) -> None:
    """One optimizer step of four micro-batches is that of the whole batch (no BatchNorm here)."""
    results = []
    for micro in (1, 4):
        network = toy_network(VECTORS)
        train(prepared(name, network, **options), network, toy_batches(3, shapes=VECTORS, missing=0.3), micro=micro)
        results.append(weights(network))
    assert_close(results[1], results[0])


def assert_loss_scale_cancels(name: str, **options: object) -> None:
    """A loss scale, a power of two and so exact, changes no bit of the unscaled result."""
    results = []
    for scale in (1.0, 1024.0):
        network = toy_network()
        train(prepared(name, network, **options), network, toy_batches(3), surgery=Dividing(scale=scale))
        results.append(weights(network))
    assert_same(results[1], results[0])


def assert_trains_under_autocast(name: str, **options: object) -> None:
    """In bfloat16 the first step is that of float32, within bfloat16's eight bits of the whole gradient's norm."""
    found = []
    for enabled in (False, True):
        network = toy_network(VECTORS).float()
        method = prepared(name, network, **options).float()
        batch = toy_batch(VECTORS, missing=0.4)
        batch.present["words"][:] = False
        inputs = {key: value.float() for key, value in batch.inputs.items()}
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            batch = ToyBatch(inputs, batch.target, batch.present, batch.index)
            gradients(method, network, batch, 1, Dividing())
        found.append(torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]))
    assert float((found[1] - found[0]).norm() / found[0].norm()) < 2**-5


def assert_statistics_move_once(name: str, **options: object) -> None:
    """Running statistics take in each step's batch exactly once."""
    network = toy_network({"sound": (1, 8, 8), "image": (12,)})
    train(prepared(name, network, **options), network, toy_batches(3, shapes={"sound": (1, 8, 8), "image": (12,)}))
    counts = [m.num_batches_tracked for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert counts
    assert all(int(count) == 3 for count in counts)


def assert_probabilities(name: str, missing: float, **options: object) -> None:
    """Predictions, joint and unimodal, are distributions over the classes."""
    network, batch = toy_network(), toy_batch(missing=missing)
    method = prepared(name, network, **options)
    output = network(batch.inputs, batch.present)
    for value in (method.predict(output, batch.present), *method.unimodal_probabilities(output).values()):
        assert value.shape == (8, network.classes)
        assert (value >= 0).all()
        torch.testing.assert_close(value.sum(dim=1), torch.ones(8, dtype=value.dtype))


def assert_any_number(name: str, count: int, **options: object) -> None:
    """T2: a network of ``count`` modalities trains."""
    shapes = {f"view{index}": (3 + index,) for index in range(count)}
    network = toy_network(shapes)
    method = prepared(name, network, **options)
    assert_trains(method, network, toy_batches(3, shapes=shapes))
    assert all(isinstance(value, float) for value in method.diagnostics().values())
