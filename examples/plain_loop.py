"""Calibrated gradients in a plain PyTorch loop: python examples/plain_loop.py."""

import torch
from problem import Encoders, Views, accuracy, criterion
from torch.utils.data import DataLoader


def main(epochs: int = 5) -> float:
    """Train, say how it goes, and return the accuracy on new samples."""
    torch.manual_seed(0)
    encoders, loss = Encoders(), criterion()
    optimizer = torch.optim.SGD([*encoders.parameters(), *loss.parameters()], lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        for batch in DataLoader(Views(2000, seed=1), batch_size=50, shuffle=True):
            out = loss(encoders(batch), batch["labels"])
            optimizer.zero_grad()
            out.loss.backward()
            optimizer.step()
        numbers = out.diagnostics.summary()
        print(f"epoch {epoch + 1}: loss {out.loss:.3f}, conflict in audio {numbers['audio/conflict']:+.2f}, ", end="")
        print(f"weight of video's own gradient {numbers['video/share/unimodal']:.2f}")
    return accuracy(encoders, loss)


if __name__ == "__main__":
    print(f"accuracy on new samples: {main():.3f}")
