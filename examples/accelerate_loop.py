"""The same with accelerate, over accumulated micro-batches: python examples/accelerate_loop.py. No adapter needed."""

import torch
from accelerate import Accelerator
from problem import Encoders, Views, accuracy, criterion
from torch import nn
from torch.utils.data import DataLoader


def main(epochs: int = 5) -> float:
    """Train, say how it goes, and return the accuracy on new samples."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.ModuleDict({"encoders": Encoders(), "criterion": criterion()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Views(2000, seed=1), batch_size=25, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                out = model["criterion"](model["encoders"](batch), batch["labels"])
                accelerator.backward(out.loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch + 1}: loss {out.loss:.3f}")
    return accuracy(model["encoders"], model["criterion"])


if __name__ == "__main__":
    print(f"accuracy on new samples: {main():.3f}")
