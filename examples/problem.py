"""A small problem that every example trains on: two views of one class, the second one much noisier."""

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from evigrad import CalibratedLoss

CLASSES, WIDTHS, NOISE = 5, {"audio": 20, "video": 30}, {"audio": 1.0, "video": 2.5}


class Views(Dataset[dict[str, Tensor]]):
    """Samples ``{"audio": [20], "video": [30], "labels": []}``, drawn around one centre for each class."""

    def __init__(self, samples: int, seed: int) -> None:
        centres = torch.Generator().manual_seed(0)
        noise = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(CLASSES, (samples,), generator=noise)
        self.views = {}
        for name, width in WIDTHS.items():
            centre = torch.randn(CLASSES, width, generator=centres)
            self.views[name] = centre[self.labels] + NOISE[name] * torch.randn(samples, width, generator=noise)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {**{name: view[row] for name, view in self.views.items()}, "labels": self.labels[row]}


class Encoders(nn.Module):
    """One small encoder for each view: ``{name: [B, width]}`` to ``{name: [B, 16]}``."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.ModuleDict({name: nn.Sequential(nn.Linear(w, 16), nn.ReLU()) for name, w in WIDTHS.items()})

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """The features of a batch."""
        return {name: encoder(batch[name]) for name, encoder in self.each.items()}


def criterion() -> CalibratedLoss:
    """The criterion that all examples use, with its defaults."""
    heads = {name: nn.Linear(16, CLASSES) for name in WIDTHS}
    return CalibratedLoss(heads, joint_head=nn.Linear(16 * len(WIDTHS), CLASSES))


def accuracy(encoders: nn.Module, criterion: CalibratedLoss) -> float:
    """Share of new samples that the joint head gets right."""
    test = Views(1000, seed=2)
    encoders.eval()
    criterion.eval()
    with torch.no_grad():
        out = criterion(encoders(test.views), test.labels)
    return float((out.joint_logits.argmax(1) == test.labels).float().mean())
