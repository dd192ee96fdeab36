"""Words and characters as numbers, without a vocabulary file.

Id 0 pads and id 1 is "_" (a blanked word). A word's id is a checksum of its lower-case letters, so it is the
same in every run; different words may share one.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from .errors import nearest

#: How many ids each way of encoding uses: the size of the embedding table that reads them.
VOCABULARY = {"words": 8192, "characters": 258}


def encode(text: str, length: int, unit: str = "words") -> Tensor:
    """Token ids [length] of the first words (or UTF-8 bytes) of ``text``, padded with 0 at the end.

    >>> encode("a _ a", 4).tolist()[1:] == [1, encode("a", 1).item(), 0]
    True
    """
    if unit == "words":
        cleaned = "".join(c if c.isalnum() or c in "_'" else " " for c in text.lower())
        ids = [
            1 if word == "_" else 2 + zlib.crc32(word.encode()) % (VOCABULARY["words"] - 2) for word in cleaned.split()
        ]
    elif unit == "characters":
        ids = [2 + byte for byte in text.encode()]
    else:
        raise nearest("unit of text", unit, VOCABULARY)
    ids = ids[:length]
    return torch.tensor(ids + [0] * (length - len(ids)))
