"""The network of the whole-step benchmark: ResNet-18, in plain torch, for any number of input channels."""

import torch
from torch import Tensor, nn

WIDTH = 512


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _normalised(inputs, outputs, 3, stride)
        self.second = _normalised(outputs, outputs, 3, 1)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else _normalised(inputs, outputs, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(images))) + self.shortcut(images))


class ResNet18(nn.Module):
    """Images [B, channels, H, W] to features [B, 512]; frames [B, F, channels, H, W] are averaged after the encoder."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [_normalised(channels, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, WIDTH)):
            layers += [Block(inputs, outputs, 1 if inputs == outputs else 2), Block(outputs, outputs, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        frames = images.flatten(0, -4)
        features: Tensor = self.layers(frames).mean((-2, -1))
        return features.view(len(images), -1, WIDTH).mean(1)


def _normalised(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))
