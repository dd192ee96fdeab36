"""The two criteria that are compared, on the same heads, and the features that both see."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evigrad import CalibratedLoss


class PlainLoss(nn.Module):
    """The two-loss criterion that most people train with: joint plus unimodal cross-entropy, ordinary gradients."""

    def __init__(self, heads: Mapping[str, nn.Linear], joint_head: nn.Linear) -> None:
        super().__init__()
        self.heads = nn.ModuleDict(dict(heads))
        self.joint_head = joint_head

    def forward(self, features: Mapping[str, Tensor], target: Tensor) -> Tensor:
        joint = self.joint_head(torch.cat([features[name] for name in self.heads], dim=-1))
        loss = F.cross_entropy(joint, target)
        for name, head in self.heads.items():
            loss = loss + F.cross_entropy(head(features[name]), target)
        return loss


@dataclass(frozen=True)
class Shapes:
    """B samples, C classes, K features in each of M modalities."""

    samples: int
    classes: int
    features: int
    modalities: int

    @property
    def names(self) -> list[str]:
        return [f"modality_{index}" for index in range(self.modalities)]

    def heads(self) -> tuple[dict[str, nn.Linear], nn.Linear]:
        """Unimodal heads and a joint head."""
        own = {name: nn.Linear(self.features, self.classes) for name in self.names}
        return own, nn.Linear(self.features * self.modalities, self.classes)

    def batch(self) -> tuple[dict[str, Tensor], Tensor]:
        """Features as a rectified encoder gives them, leaves that want a gradient, and labels."""
        features = {name: torch.randn(self.samples, self.features).relu().requires_grad_() for name in self.names}
        return features, torch.randint(self.classes, (self.samples,))


class HeadStep:
    """One forward and backward of a criterion on features that are leaves."""

    def __init__(self, shapes: Shapes, criterion: nn.Module) -> None:
        self.features, self.target = shapes.batch()
        self.criterion = criterion

    def __call__(self) -> None:
        loss = self.criterion(self.features, self.target)
        (loss if isinstance(loss, Tensor) else loss.loss).backward()
        for leaf in (*self.features.values(), *self.criterion.parameters()):
            leaf.grad = None


def plain_step(shapes: Shapes) -> HeadStep:
    return HeadStep(shapes, PlainLoss(*shapes.heads()))


def calibrated_step(shapes: Shapes, **options: object) -> HeadStep:
    return HeadStep(shapes, CalibratedLoss(*shapes.heads(), **options))  # type: ignore[arg-type]
