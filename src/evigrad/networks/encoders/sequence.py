"""Transformer encoders of feature sequences and of text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evigrad.networks.transformer import positions, trunk

__all__ = ["SequenceEncoder", "TextEncoder"]


class _Tokens(nn.Module):
    """A class token in front of ``[B, T, width]`` tokens, and attention that does not see the padding."""

    def __init__(self, width: int, heads: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.token = nn.Parameter(0.02 * torch.randn(width))
        self.layers = trunk(width, heads, layers, dropout)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        tokens = tokens + positions(length, width, tokens)
        tokens = torch.cat([self.token.expand(batch, 1, width).to(tokens.dtype), tokens], dim=1)
        # the class token is never padding, so an empty sequence still has a defined result
        hidden = F.pad(padding, (1, 0), value=False)
        attended: Tensor = self.layers(tokens, src_key_padding_mask=hidden)
        return attended[:, 0]


class SequenceEncoder(nn.Module):
    """A transformer over a sequence of feature vectors; a time step that is zero throughout is padding.

    Args:
        shape: ``(length, features)`` of one sample; other lengths are read too.
        width: number of features K returned, and width of the transformer.
        heads: attention heads; must divide ``width``.
        layers: transformer layers.
        dropout: inside the layers.

    Example:
        >>> import torch
        >>> SequenceEncoder((20, 5), width=32)(torch.randn(4, 20, 5)).shape
        torch.Size([4, 32])
    """

    def __init__(
        self, shape: tuple[int, ...], width: int = 64, heads: int = 4, layers: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if len(shape) != 2:
            raise ValueError(
                f"`shape` {tuple(shape)} is not (length, features), which SequenceEncoder reads; "
                "reshape the data, or take TextEncoder for token numbers and MLP for vectors."
            )
        self.width = width
        self.embedding = nn.Linear(shape[1], width)
        self.tokens = _Tokens(width, heads, layers, dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features ``[B, width]`` of inputs ``[B, T, features]``."""
        if inputs.dim() != 3 or inputs.shape[2] != self.embedding.in_features:
            raise ValueError(
                f"`inputs` have shape {tuple(inputs.shape)}; give [B, T, {self.embedding.in_features}] sequences, "
                "which this SequenceEncoder was built for."
            )
        features: Tensor = self.tokens(self.embedding(inputs), (inputs == 0).all(dim=2))
        return features


class TextEncoder(nn.Module):
    """A transformer over characters or words, given as numbers; number 0 is padding.

    Args:
        shape: ``(length,)`` of one sample; other lengths are read too.
        vocabulary: how many numbers there are, padding included; 257 is bytes plus padding.
        width: number of features K returned, and width of the transformer.
        heads: attention heads; must divide ``width``.
        layers: transformer layers.
        dropout: inside the layers.

    Example:
        >>> import torch
        >>> TextEncoder((10,), vocabulary=30, width=32)(torch.randint(0, 30, (4, 10))).shape
        torch.Size([4, 32])
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        vocabulary: int = 257,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(shape) != 1:
            raise ValueError(f"`shape` {tuple(shape)} is not (length,), which TextEncoder reads; give token numbers.")
        self.width = width
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.tokens = _Tokens(width, heads, layers, dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features ``[B, width]`` of token numbers ``[B, T]``."""
        if inputs.dim() != 2:
            raise ValueError(f"`inputs` have shape {tuple(inputs.shape)}; give token numbers [B, T].")
        inputs = inputs.long()
        features: Tensor = self.tokens(self._embed(inputs), inputs == 0)
        return features

    def _embed(self, numbers: Tensor) -> Tensor:
        try:
            embedded: Tensor = self.embedding(numbers)
        except IndexError as error:  # a GPU says it in words of its own; looking first would wait for it
            raise ValueError(
                f"`inputs` hold token numbers from {int(numbers.min())} to {int(numbers.max())}, but `vocabulary` "
                f"{self.vocabulary} allows 0 to {self.vocabulary - 1}; build the TextEncoder with a larger one."
            ) from error
        return embedded
