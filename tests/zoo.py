"""Awkward models: small networks with a criterion, each odd in one way, and what plain training makes of them."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from evigrad import CalibratedLoss
from evigrad.calibration import CalibratedOutput
from tests.properties.criterion import per_sample

Features = dict[str, Tensor]
INPUTS = 5
CLASSES = 3


class Model(nn.Module):
    """Two modalities with an encoder each; ``readings`` go to the criterion."""

    names = ("audio", "video")
    widths = (4, 4)
    classes = CLASSES
    bias = True

    def __init__(self, **readings: object) -> None:
        super().__init__()
        self.encoders = self.build_encoders()
        self.criterion = CalibratedLoss(*self.build_heads(), **readings)

    @property
    def heads(self) -> dict[str, nn.Linear]:
        return dict(self.criterion.heads.items())

    @property
    def joint_head(self) -> nn.Linear:
        return self.criterion.joint.output

    def build_encoders(self) -> nn.ModuleDict:
        return nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(INPUTS, 6), nn.Tanh(), nn.Linear(6, width))
                for name, width in zip(self.names, self.widths, strict=True)
            }
        )

    def build_heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        heads = {
            name: nn.Linear(width, self.classes, self.bias) for name, width in zip(self.names, self.widths, strict=True)
        }
        return heads, nn.Linear(sum(self.widths), self.classes, self.bias)

    def encode(self, inputs: Features) -> Features:
        return {name: self.encoders[name](value) for name, value in inputs.items()}

    def forward(self, inputs: Features, target: Tensor, present: Features | None = None) -> CalibratedOutput:
        return self.criterion(self.encode(inputs), target, present)

    def batch(self, size: int = 6, seed: int = 0) -> tuple[Features, Tensor]:
        """Inputs and labels to train on."""
        draw = torch.Generator().manual_seed(seed)
        dtype = self.joint_head.weight.dtype
        inputs = {name: torch.randn(size, INPUTS, generator=draw).to(dtype) for name in self.names}
        return inputs, torch.randint(self.classes, (size,), generator=draw)


class SharedEncoder(Model):
    """One encoder for both modalities: their gradients meet in it."""

    def build_encoders(self) -> nn.ModuleDict:
        one = nn.Sequential(nn.Linear(INPUTS, 6), nn.Tanh(), nn.Linear(6, 4))
        return nn.ModuleDict(dict.fromkeys(self.names, one))


class OneFeatureTensor(Model):
    """Both modalities are the same tensor."""

    def encode(self, inputs: Features) -> Features:
        return dict.fromkeys(inputs, self.encoders["audio"](inputs["audio"]))


class FrozenEncoder(Model):
    """The first encoder does not learn."""

    def build_encoders(self) -> nn.ModuleDict:
        encoders = super().build_encoders()
        encoders["audio"].requires_grad_(False)
        return encoders


class PartlyFrozenEncoder(Model):
    """The first layer of the first encoder does not learn."""

    def build_encoders(self) -> nn.ModuleDict:
        encoders = super().build_encoders()
        encoders["audio"][0].requires_grad_(False)
        return encoders


class NoEncoder(Model):
    """A modality whose features come from the data as they are."""

    widths = (INPUTS, 4)

    def build_encoders(self) -> nn.ModuleDict:
        encoders = super().build_encoders()
        encoders["audio"] = nn.Identity()
        return encoders


class FrozenHeads(Model):
    """Only the encoders learn."""

    def build_heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        heads, joint = super().build_heads()
        for head in (*heads.values(), joint):
            head.requires_grad_(False)
        return heads, joint


class TiedHeads(Model):
    """One head for both modalities."""

    def build_heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        heads, joint = super().build_heads()
        return dict.fromkeys(heads, heads["audio"]), joint


class OneModality(Model):
    names = ("audio",)
    widths = (4,)


class JointHeadIsTheHead(OneModality):
    """One modality whose own head is the joint head as well."""

    def build_heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        heads, _ = super().build_heads()
        return heads, heads["audio"]


class SixModalities(Model):
    names = ("audio", "video", "text", "depth", "touch", "smell")
    widths = (1, 2, 3, 4, 5, 6)


class NoBias(Model):
    bias = False


class TwoClasses(Model):
    classes = 2


class ThousandClasses(Model):
    """Slow to decompose, so not in the zoo."""

    classes = 1000


class DeadFeatures(Model):
    """Some features are zero for every sample; those of the second modality all are."""

    def encode(self, inputs: Features) -> Features:
        features = super().encode(inputs)
        return {"audio": features["audio"] * torch.tensor([1, 0, 1, 0]), "video": (features["video"] - 1e9).relu()}


class DuplicatedFeatures(Model):
    """A singular curvature: every feature is there twice."""

    def encode(self, inputs: Features) -> Features:
        return {name: value[:, [0, 0, 1, 1]] for name, value in super().encode(inputs).items()}


class ZeroHeads(Model):
    """Heads that start at zero send nothing back at the first step."""

    def build_heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        heads, joint = super().build_heads()
        for head in (*heads.values(), joint):
            nn.init.zeros_(head.weight)
        return heads, joint


class ZeroUnimodalHead(Model):
    """One of the two sources has no gradient, the other has."""

    def build_heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        heads, joint = super().build_heads()
        nn.init.zeros_(heads["audio"].weight)
        return heads, joint


class HugeFeatures(Model):
    """Features of size 1e4, with predictions that are all but certain."""

    def encode(self, inputs: Features) -> Features:
        return {name: 1e4 * value for name, value in super().encode(inputs).items()}


class ViewFeatures(Model):
    """Features are strided views of one trunk's output."""

    def build_encoders(self) -> nn.ModuleDict:
        return nn.ModuleDict({"trunk": nn.Linear(INPUTS, 8)})

    def encode(self, inputs: Features) -> Features:
        trunk = self.encoders["trunk"](inputs["audio"] + inputs["video"])
        return {"audio": trunk[:, ::2], "video": trunk[:, 1::2]}


class TransposedFeatures(Model):
    def encode(self, inputs: Features) -> Features:
        return {name: value.T.contiguous().T for name, value in super().encode(inputs).items()}


class InPlaceFeatures(Model):
    """Features that an in-place operation has written, partly through a view."""

    def encode(self, inputs: Features) -> Features:
        features = super().encode(inputs)
        features["audio"][:, :2].mul_(2.0)
        return {name: value.relu_() for name, value in features.items()}


class Double(Model):
    def __init__(self, **readings: object) -> None:
        super().__init__(**readings)
        self.double()


class ManyPositions(Model):
    """A head for each of several positions, as in segmentation: features [B, P, K], target [B, P]."""

    def batch(self, size: int = 3, seed: int = 0) -> tuple[Features, Tensor]:
        inputs, target = super().batch(2 * size, seed)
        return {name: value.view(size, 2, INPUTS) for name, value in inputs.items()}, target.view(size, 2)


ZOO: dict[str, Callable[..., Model]] = {
    kind.__name__: kind
    for kind in (
        Model, SharedEncoder, OneFeatureTensor, FrozenEncoder, PartlyFrozenEncoder, NoEncoder, FrozenHeads, TiedHeads,
        OneModality, JointHeadIsTheHead, SixModalities, NoBias, TwoClasses, DeadFeatures,
        DuplicatedFeatures, ZeroHeads, ZeroUnimodalHead, HugeFeatures, ViewFeatures, TransposedFeatures,
        InPlaceFeatures, Double, ManyPositions,
    )
}  # fmt: skip


def plain_loss(
    heads: Mapping[str, nn.Linear],
    joint: Callable[[Features], Tensor],
    features: Features,
    target: Tensor,
    present: Mapping[str, Tensor] | None = None,
    loss: str = "cross_entropy",
    unimodal_weight: float = 1.0,
) -> Tensor:
    """What plain training minimises, from PyTorch's own losses; everything per sample [B, ...] is taken flat."""
    present = dict(present or {})
    some = next(iter(features.values()))
    shape = some.shape[:-1]
    flat = {}
    for name, head in heads.items():
        value = features.get(name, some.new_zeros(*shape, head.in_features))
        here = present.setdefault(name, torch.full(shape, name in features))
        present[name] = here.view(here.shape + (1,) * (len(shape) - here.dim())).expand(shape).reshape(-1)
        flat[name] = torch.where(present[name][:, None], value.reshape(-1, head.in_features), 0)
    target = target.reshape(len(flat[name]), *target.shape[len(shape) :])
    total = per_sample(loss, joint(flat), target)
    for name, head in heads.items():
        total = total + unimodal_weight * present[name] * per_sample(loss, head(flat[name]), target)
    return total.mean()


def concatenated(heads: Mapping[str, nn.Linear], joint_head: nn.Linear) -> Callable[[Features], Tensor]:
    """The joint head over the features in the order of the heads."""
    return lambda features: joint_head(torch.cat([features[name] for name in heads], dim=-1))


def plain_training(model: Model, inputs: Features, target: Tensor, present: Features | None = None) -> Tensor:
    """The loss that ordinary training of this model would have."""
    joint = concatenated(model.heads, model.joint_head)
    return plain_loss(model.heads, joint, model.encode(inputs), target, present)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter's gradient, and that there is none."""
    return {name: value.grad for name, value in module.named_parameters() if value.grad is not None}
