"""Every error that a user of the criterion can meet: it names the argument, shows the value and says the next step."""

import math
import re

import pytest
import torch
from torch import nn

from evigrad import CalibratedLoss

NAN = float("nan")


def heads(widths=(4, 4), classes=3):
    return {name: nn.Linear(width, classes) for name, width in zip(("audio", "video"), widths, strict=True)}


def build(**readings):
    return CalibratedLoss(heads(), nn.Linear(8, 3), **readings)


def data(size=5):
    features = {name: torch.randn(size, 4, requires_grad=True) for name in ("audio", "video")}
    return features, torch.randint(3, (size,))


def error(text, kind=ValueError):
    """The whole message, not a part that some other error might hold as well."""
    return pytest.raises(kind, match=f"^{re.escape(text)}$")


# What a criterion is built from


def test_no_heads():
    with error(
        "`heads` is empty. Pass one nn.Linear for each modality, "
        "e.g. {'audio': nn.Linear(512, 6), 'video': nn.Linear(512, 6)}."
    ):
        CalibratedLoss({}, nn.Linear(8, 3))


def test_heads_without_names():
    with error(
        "`heads` is a list, but it must name its modalities, "
        "e.g. {'audio': nn.Linear(512, 6), 'video': nn.Linear(512, 6)}."
    ):
        CalibratedLoss([nn.Linear(4, 3)], nn.Linear(4, 3))


@pytest.mark.parametrize("name", ["a.b", "", "keys", "type"])
def test_a_name_that_pytorch_refuses(name):
    with error(
        f"`heads` has a modality called {name!r}, which PyTorch can't use as a module's name. "
        "Rename it (no dots, not empty, not an attribute of nn.ModuleDict)."
    ):
        CalibratedLoss({name: nn.Linear(4, 3)}, nn.Linear(4, 3))


def test_heads_in_a_module_dict():
    layers = nn.ModuleDict(heads())
    criterion = CalibratedLoss(layers, nn.Linear(8, 3))
    assert list(criterion.heads) == ["audio", "video"]
    assert criterion.heads["video"] is layers["video"]
    with error(
        "`heads` is empty. Pass one nn.Linear for each modality, "
        "e.g. {'audio': nn.Linear(512, 6), 'video': nn.Linear(512, 6)}."
    ):
        CalibratedLoss(nn.ModuleDict(), nn.Linear(8, 3))


def test_a_head_that_is_not_linear():
    layers = heads() | {"video": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))}
    with error(
        "`heads['video']` is a Sequential, but a posterior in closed form needs an nn.Linear. "
        "Put the layers before the last one into the encoder and pass the last nn.Linear as the head."
    ):
        CalibratedLoss(layers, nn.Linear(8, 3))


def test_a_lazy_head():
    with error(
        "`heads['audio']` is lazy, but its posterior must know how many features it takes. "
        "Build it as nn.Linear(features, 3)."
    ):
        CalibratedLoss({"audio": nn.LazyLinear(3)}, nn.Linear(8, 3))


def test_heads_that_disagree_on_the_classes():
    layers = {"audio": nn.Linear(4, 3), "video": nn.Linear(4, 2)}
    with error(
        "`heads` must agree on the number of outputs, got {'audio': 3, 'video': 2}. "
        "Give every head one output for each class."
    ):
        CalibratedLoss(layers, nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("given", "what"), [({}, "neither"), ({"joint_head": nn.Linear(8, 3), "joint": nn.Linear(8, 3)}, "both")]
)
def test_one_joint_source(given, what):
    with error(
        "Pass exactly one of `joint_head` (an nn.Linear(8, 3) over the concatenated features) and `joint` "
        f"(a module from {{name: features}} to logits), got {what}."
    ):
        CalibratedLoss(heads(), **given)


def test_a_joint_head_that_is_not_linear():
    with error(
        "`joint_head` is a Bilinear, but it must be an nn.Linear over the concatenated features. Pass any other fusion "
        "as `joint=`: a module from {name: features} to logits that ends in an nn.Linear."
    ):
        CalibratedLoss(heads(), nn.Bilinear(4, 4, 3))


def test_a_joint_head_with_other_classes():
    with error("`joint_head` gives 4 outputs, but the heads give 3. Build it as nn.Linear(8, 3)."):
        CalibratedLoss(heads(), nn.Linear(8, 4))


def test_a_joint_head_with_another_width():
    with error(
        "`joint_head` takes 9 features, but the concatenated modalities have 8 = 4 (audio) + 4 (video). "
        "Build it as nn.Linear(8, ...)."
    ):
        CalibratedLoss(heads(), nn.Linear(9, 3))


def test_unequal_widths_with_average():
    with error(
        "fusion='average' averages gradients of different modalities and needs equal widths, got "
        "{'audio': 4, 'video': 3}. Use fusion='head', or give all encoders the same number of features."
    ):
        CalibratedLoss(heads((4, 3)), nn.Linear(7, 3), fusion="average")


# Joint modules


class Joint(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.hidden = nn.Linear(8, 3)
        self.output = nn.Linear(3, classes)

    def forward(self, features):
        return self.output(self.hidden(torch.cat(list(features.values()), -1)).tanh())


class WithSoftmax(Joint):
    def forward(self, features):
        return super().forward(features).log_softmax(-1)


class NoLinear(nn.Module):
    def forward(self, features):
        return sum(features.values())[:, :3]


class Particular(Joint):
    def forward(self, features):
        if len(features["audio"]) < 4:
            raise RuntimeError("four samples at least")
        return super().forward(features)


class Twice(Joint):
    def forward(self, features):
        return self.output(self.output(self.hidden(torch.cat(list(features.values()), -1))))


class Tokens(Joint):
    def forward(self, features):
        return self.output(torch.stack([value[:, :3] for value in features.values()], 1))


def test_a_joint_function():
    with error(
        "`joint` is a function, but it must be an nn.Module from {name: features} to logits: its last nn.Linear is "
        "what gives the joint gradient its variance. Wrap the function in a module."
    ):
        CalibratedLoss(heads(), joint=lambda features: features["audio"])


@pytest.mark.parametrize(("module", "layers"), [(WithSoftmax(), "hidden, output"), (NoLinear(), "none")])
def test_a_joint_module_that_does_not_end_in_a_linear_layer(module, layers):
    with error(
        f"`joint` ({type(module).__name__}) must return the output of an nn.Linear unchanged: the posterior of that "
        f"layer is what gives the joint gradient its variance. Its linear layers: {layers}. End the module with an "
        "nn.Linear, or name the layer in `joint_output` if what follows it changes no value."
    ):
        CalibratedLoss(heads(), joint=module)


def test_a_joint_module_that_fails_its_trial():
    with error(
        "`joint` (Particular) could not be run on a trial batch to find its last layer: "
        "RuntimeError('four samples at least'). Make it take {name: [B, K]}, or name that layer in `joint_output`, "
        "one of: hidden, output."
    ):
        CalibratedLoss(heads(), joint=Particular())
    criterion = CalibratedLoss(heads(), joint=Particular(), joint_output="output")
    assert criterion(*data()).loss.isfinite()


def test_a_joint_output_that_is_no_linear_layer():
    with error(
        "`joint_output` names no nn.Linear of the joint module: 'outputs'. Did you mean 'output'? "
        "Its linear layers: hidden, output."
    ):
        CalibratedLoss(heads(), joint=Joint(), joint_output="outputs")


@pytest.mark.parametrize(("module", "name"), [(Joint(), "hidden"), (WithSoftmax(), "output")])
def test_a_joint_output_that_is_not_what_comes_out(module, name):
    with error(
        f"`joint_output` names '{name}', but what `joint` ({type(module).__name__}) returns is not that layer's "
        "output. Name the last one of: hidden, output; return logits, without softmax or scaling."
    ):
        CalibratedLoss(heads(), joint=module, joint_output=name)


def test_a_joint_output_without_a_joint_module():
    with error("`joint_output` ('head') names a layer of a `joint` module, but `joint_head` was passed. Leave it out."):
        CalibratedLoss(heads(), nn.Linear(8, 3), joint_output="head")


def test_a_joint_module_with_other_classes():
    with error(
        "The joint module gives 4 logits, but the heads give 3. "
        "Make all heads and the joint module agree on the number of classes."
    ):
        CalibratedLoss(heads(), joint=Joint(4))


@pytest.mark.parametrize(("module", "saw"), [(Twice(), "[(5, 3), (5, 3)]"), (Tokens(), "[(5, 2, 3)]")])
def test_a_joint_module_whose_last_layer_sees_more_than_one_input(module, saw):
    criterion = CalibratedLoss(heads(), joint=module)
    with error(
        f"The joint module's output layer 'output' must see one [B, K] input, it saw {saw}. "
        "Pool over tokens before that layer, and apply it once.",
        RuntimeError,
    ):
        criterion(*data())


# Readings


@pytest.mark.parametrize(
    ("argument", "wrong", "meant", "known"),
    [
        ("loss", "cross-entropy", "cross_entropy", "cross_entropy, binary, square"),
        ("posterior", "kroneker", "kronecker", "full, kronecker, diagonal, lowrank"),
        ("curvature", "runing", "running", "batch, running"),
        ("centre", "weight", "weights", "weights, newton"),
        ("moments", "linearised", "linearized", "linearized, monte_carlo, exact"),
        ("fusion", "heads", "head", "head, average"),
        ("reference", "Power", "power", "none, power"),
        ("weights", "sources", "source", "printed, source"),
        ("rescale", "samples", "sample", "batch, sample, none"),
    ],
)
def test_an_unknown_reading_is_answered_with_the_nearest(argument, wrong, meant, known):
    with error(f"Unknown `{argument}`: {wrong!r}. Did you mean '{meant}'? Choose one of: {known}."):
        build(**{argument: wrong})


def test_a_reading_that_looks_like_none_of_them():
    with error("Unknown `rescale`: 'qqq'. Choose one of: batch, sample, none."):
        build(rescale="qqq")


def test_lowrank_has_no_running_average():
    with error(
        "posterior='lowrank' is the exact posterior of one batch and has no running average. "
        "Use curvature='batch' with it, or posterior='kronecker' with curvature='running'."
    ):
        build(posterior="lowrank")


def test_exact_moments_need_the_square_loss():
    with error(
        "`moments='exact'` needs `loss='square'`: only there is the gradient a polynomial in the weights. "
        "Use moments='linearized' (no draws) or moments='monte_carlo'."
    ):
        build(moments="exact")


@pytest.mark.parametrize(
    ("argument", "value", "bound"),
    [
        ("scale", 0.0, "above zero"),
        ("scale", math.inf, "above zero"),
        ("prior_precision", -1.0, "above zero"),
        ("unimodal_weight", -0.5, "zero or more"),
        ("evidence_power", NAN, "zero or more"),
        ("variance_floor", -1e-9, "zero or more"),
        ("scale", "1.5", "above zero"),
        ("unimodal_weight", None, "zero or more"),
    ],
)
def test_a_number_out_of_range(argument, value, bound):
    with error(f"`{argument}` must be a finite number {bound}, got {value!r}."):
        build(**{argument: value})


@pytest.mark.parametrize("argument", ["refresh", "rank", "draws", "probes", "dataset_size"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "3", True])
def test_a_count_that_is_no_count(argument, value):
    with error(f"`{argument}` must be a whole number of at least 1, got {value!r}."):
        build(**{argument: value})


@pytest.mark.parametrize("value", [-0.1, 1.0, NAN, "0.9", None])
def test_a_decay_out_of_range(value):
    with error(f"`decay` must be at least 0 and below 1, got {value!r}; 0.99 remembers about 100 batches."):
        build(decay=value)


def test_a_seed_is_no_generator():
    with error(
        "`generator` is 3, but it must be a torch.Generator on the device of the heads. "
        "Make one from a seed: torch.Generator().manual_seed(0)."
    ):
        build(generator=3)


# What a call is given


def test_features_without_names():
    features, target = data()
    with error(
        "`features` is a list, but it must name its modalities: {name: tensor} with the names of the heads, "
        "audio, video."
    ):
        build()(list(features.values()), target)


def test_presence_without_names():
    features, target = data()
    with error(
        "`present` is a Tensor, but it must name its modalities: {name: tensor} with the names of the heads, "
        "audio, video."
    ):
        build()(features, target, torch.ones(5, dtype=torch.bool))


def test_no_features():
    with error("`features` is empty. Pass at least one of: audio, video."):
        build()({}, torch.tensor([0]))


@pytest.mark.parametrize("argument", ["features", "present"])
def test_a_modality_without_a_head(argument):
    features, target = data()
    given = {"features": features, "present": {}}
    given[argument] = given[argument] | {"vidio": torch.ones(5, dtype=torch.bool)}
    with error(
        f"`{argument}` names a modality without a head: 'vidio'. Did you mean 'video'? The heads are: audio, video."
    ):
        build()(given["features"], target, given["present"])


def test_what_is_no_tensor():
    features, target = data()
    with error("`features['audio']` is a list. Make it a torch.Tensor."):
        build()(features | {"audio": [[0.0] * 4] * 5}, target)
    with error("`present['audio']` is a list. Make it a torch.Tensor."):
        build()(features, target, {"audio": [True] * 5})
    with error("`target` is a list. Make it a torch.Tensor."):
        build()(features, target.tolist())


@pytest.mark.parametrize("shape", [(5, 3), (4,)])
def test_features_of_another_width(shape):
    features, target = data()
    with error(
        f"`features['video']` has shape {shape}, but its head takes [B, ..., 4]. "
        "Pass the encoder's output before the head, samples first and features last."
    ):
        build()(features | {"video": torch.randn(shape)}, target)


def test_features_that_are_whole_numbers():
    features, target = data()
    with error(
        "`features['video']` holds torch.int64, but features are floating-point numbers. "
        "Pass the encoder's output, not its input."
    ):
        build()(features | {"video": torch.ones(5, 4, dtype=torch.long)}, target)


def test_features_that_disagree_on_the_samples():
    features, target = data()
    with error(
        "`features` disagree on the number of samples: {'audio': (5, 4), 'video': (6, 4)}. All but the last dimension "
        "must be the same; a sample without some modality still needs a row (its `present` says that it is absent)."
    ):
        build()(features | {"video": torch.randn(6, 4)}, target)


def test_no_samples():
    features, target = data(0)
    with error("`features` hold no samples: {'audio': (0, 4), 'video': (0, 4)}. Skip empty batches."):
        build()(features, target)


@pytest.mark.parametrize(("mask", "kind"), [(torch.ones(5), "float32"), (torch.ones(4, dtype=torch.bool), "bool")])
def test_presence_that_is_no_mask_of_the_samples(mask, kind):
    with error(
        f"`present['audio']` is torch.{kind} with shape {tuple(mask.shape)}; it must be a torch.bool tensor with shape "
        "(5,), True where the sample has this modality."
    ):
        build()(*data(), {"audio": mask})


@pytest.mark.parametrize(
    ("loss", "target", "wanted"),
    [
        (
            "cross_entropy",
            torch.zeros(5, 1, dtype=torch.long),
            "integers of shape (5,) (class indices) or floats of shape (5, 3) (probabilities)",
        ),
        (
            "cross_entropy",
            torch.zeros(5),
            "integers of shape (5,) (class indices) or floats of shape (5, 3) (probabilities)",
        ),
        ("binary", torch.zeros(5), "(5, 3)"),
        ("square", torch.zeros(5, 2), "(5, 3)"),
    ],
)
def test_a_target_of_another_shape(loss, target, wanted):
    with error(
        f"`target` has shape {tuple(target.shape)} and dtype {target.dtype}; with loss='{loss}' it must be {wanted}."
    ):
        build(loss=loss)(data()[0], target)


def test_labels_out_of_range():
    with error(
        "`target` has 2 of 5 labels outside 0..2: they run from 0 to 3, the heads have 3 outputs. "
        "Renumber the classes from 0 or widen the heads."
    ):
        build()(data()[0], torch.tensor([0, 3, 1, 3, 2]))


def test_a_negative_label():
    with error(
        "`target` has 1 of 5 labels outside 0..2: they run from -100 to 2, the heads have 3 outputs. "
        "Renumber the classes from 0 or widen the heads."
    ):
        build()(data()[0], torch.tensor([0, 1, 1, -100, 2]))


@pytest.mark.parametrize(("loss", "value"), [("binary", 2.0), ("cross_entropy", -0.5), ("binary", NAN)])
def test_probabilities_out_of_range(loss, value):
    target = torch.full((5, 3), 0.25)
    target[1, 2] = value
    with error(
        f"`target` holds 1 values outside 0..1 (or NaN), but with loss='{loss}' they are probabilities. "
        "Scale them to 0..1, or use loss='square' for values without bounds."
    ):
        build(loss=loss)(data()[0], target)


def test_probabilities_that_do_not_sum_to_one():
    """PyTorch takes them, but p − y would no longer be the gradient of the loss."""
    target = torch.tensor([[1.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.2, 0.8], [0.3, 0.3, 0.3]])
    with error(
        "`target` has 3 of 5 rows that do not sum to 1, but with loss='cross_entropy' each is a distribution over the "
        "classes. Divide each row by its sum, or use loss='binary' for several labels at once."
    ):
        build()(data()[0], target)
    assert build(loss="binary")(data()[0], target).loss.isfinite()


def test_targets_that_are_not_finite():
    target = torch.zeros(5, 3)
    target[0, 0], target[1, 1] = NAN, math.inf
    with error("`target` holds NaN or infinite values at 2 places. Check how the targets are made."):
        build(loss="square")(data()[0], target)


@pytest.mark.parametrize("value", [NAN, math.inf])
def test_features_that_are_not_finite(value):
    """Which modality, how many samples; and nothing of them has reached the statistics."""
    features, target = data()
    broken = features["video"].detach().clone()
    broken[1, 0] = broken[3, :2] = value
    criterion = build()
    with error(
        "`features['video']` holds NaN or infinite values in 2 of 5 samples. Look for a diverged encoder (lower the "
        "learning rate, clip gradients) or for bad input data; a sample without this modality belongs into `present`."
    ):
        criterion(features | {"video": broken}, target)
    assert criterion.calibration.joint.steps == 0


def test_unchecked_features_that_are_not_finite_make_the_loss_nan_and_leave_the_memory_alone():
    """`validate=False` is plain training's behaviour: a scaler skips such a step, and the next one is sound."""
    criterion, (features, target) = build(validate=False), data()
    criterion(features, target)
    before = {name: value.clone() for name, value in criterion.state_dict().items() if ".sum_" in name}
    broken = features["video"].detach().clone().fill_(NAN).requires_grad_()
    assert criterion(features | {"video": broken}, target).loss.isnan()
    after = {
        name: value for name, value in criterion.state_dict().items() if "audio.sum_" not in name and name in before
    }
    for name, value in after.items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    criterion(features, target).loss.backward()
    assert all(value.grad.isfinite().all() for value in features.values())


def test_unchecked_labels_are_left_to_pytorch():
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        build(validate=False)(data()[0], torch.tensor([0, 3, 1, 1, 2]))


@pytest.mark.parametrize("through", ["backward", "grad"])
def test_double_backward(through):
    features, target = data()
    loss = build()(features, target).loss
    with error(
        "CalibratedLoss can't be differentiated twice: `create_graph=True` was passed to backward or grad, but a "
        "calibrated gradient is no function that has a derivative. Call backward without create_graph; for a gradient "
        "penalty, compute it from an ordinary loss on the features.",
        RuntimeError,
    ):
        if through == "grad":
            torch.autograd.grad(loss, list(features.values()), create_graph=True)
        else:
            loss.backward(create_graph=True)


def test_a_precision_that_cannot_be_decomposed():
    """Features of 1e22 square to infinity in float32: an error with advice, not NaN."""
    criterion = build(posterior="full", curvature="batch", loss="square")
    features, target = data()[0], torch.randn(5, 3)
    huge = {name: value.detach().mul(1e22).requires_grad_() for name, value in features.items()}
    with pytest.raises(RuntimeError, match=r"The posterior precision of a `full` posterior is not positive definite"):
        criterion(huge, target)


@pytest.mark.parametrize("posterior", ["kronecker", "lowrank"])
def test_a_curvature_that_cannot_be_decomposed(posterior):
    """Unchecked NaN features of one batch: the running average would pass them over, a batch's own can't."""
    criterion, (features, target) = build(posterior=posterior, curvature="batch", validate=False), data()
    broken = features["video"].detach().clone()
    broken[1, 0] = NAN
    with pytest.raises(RuntimeError, match=r"^A head's curvature could not be decomposed: .* are NaN or infinite"):
        criterion(features | {"video": broken.requires_grad_()}, target)
