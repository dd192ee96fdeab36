"""The same in Lightning Fabric, in bfloat16: python examples/fabric_loop.py. Nothing but the criterion is needed."""

import torch
from lightning_fabric import Fabric
from problem import Encoders, Views, accuracy, criterion
from torch import Tensor, nn
from torch.utils.data import DataLoader

from evigrad import CalibratedOutput


class Model(nn.Module):
    """Encoders and criterion in one module, so that Fabric wraps (and synchronises) both."""

    def __init__(self) -> None:
        super().__init__()
        self.encoders, self.criterion = Encoders(), criterion()

    def forward(self, batch: dict[str, Tensor]) -> CalibratedOutput:
        """The criterion's output for a batch."""
        out: CalibratedOutput = self.criterion(self.encoders(batch), batch["labels"])
        return out


def main(epochs: int = 5) -> float:
    """Train, say how it goes, and return the accuracy on new samples."""
    torch.manual_seed(0)
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    model = Model()
    wrapped, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    loader = fabric.setup_dataloaders(DataLoader(Views(2000, seed=1), batch_size=50, shuffle=True))
    for epoch in range(epochs):
        for batch in loader:
            out = wrapped(batch)
            optimizer.zero_grad()
            fabric.backward(out.loss)
            optimizer.step()
        fabric.print(f"epoch {epoch + 1}: loss {out.loss:.3f}")
    return accuracy(model.encoders, model.criterion)


if __name__ == "__main__":
    print(f"accuracy on new samples: {main():.3f}")
