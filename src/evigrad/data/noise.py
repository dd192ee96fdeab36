"""Noise protocols of published tables by name: who is hit, by what, and how hard."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from .corrupted import CorruptedDataset
from .corruption import BlankWords, Damage, FeatureNoise, PixelNoise, SaltAndPepper
from .dataset import MultimodalDataset
from .errors import DataError, nearest
from .wrapped import presence


def qmf_rgbd(
    dataset: MultimodalDataset,
    level: float,
    generator: torch.Generator,
    *,
    kind: str = "gaussian",
    lower: str = "clip",
    fixed_field: bool = False,
) -> CorruptedDataset:
    """QMF's test noise for image pairs: std = level on 0..255, each modality hit with p = 1/2.

    ``kind="salt_and_pepper"``: density 0.1, each modality hit with p = level/200. Quirks of the released
    code, off unless asked for: ``lower="wrap"`` (see :class:`PixelNoise`) and ``fixed_field=True``, one noise
    field for all.
    """
    damage, share = _pixels(kind, level, lower), 0.5 if kind == "gaussian" else 0.5 * level / 100
    hit = {name: torch.rand(len(dataset), generator=generator) < share for name in dataset.modalities}
    line = f"noise qmf_rgbd {kind} level {level}, lower {lower}, fixed_field {fixed_field}"
    return CorruptedDataset(dataset, dict.fromkeys(hit, damage), hit, generator, line, fixed_field)


def qmf_imagetext(
    dataset: MultimodalDataset,
    level: float,
    generator: torch.Generator,
    *,
    kind: str = "gaussian",
    lower: str = "clip",
    fixed_field: bool = False,
) -> CorruptedDataset:
    """QMF's test noise for image and text: images std = 10 level; each word of a hit text is "_" with p = level/10.

    Token ids (int64) count as text, everything else as images. Options as in :func:`qmf_rgbd`.
    """
    pixels, words = _pixels(kind, 10 * level, lower), BlankWords(min(1.0, level / 10))
    texts = {name for name, value in dataset[0].inputs.items() if value.dtype == torch.long}
    damage: dict[str, Damage] = {name: words if name in texts else pixels for name in dataset.modalities}
    shares = {name: 0.5 if kind == "gaussian" or name in texts else 0.5 * level / 100 for name in damage}
    hit = {name: torch.rand(len(dataset), generator=generator) < share for name, share in shares.items()}
    line = f"noise qmf_imagetext {kind} level {level}, lower {lower}, fixed_field {fixed_field}"
    return CorruptedDataset(dataset, damage, hit, generator, line, fixed_field)


def seed_literal(dataset: MultimodalDataset, level: float, generator: torch.Generator) -> CorruptedDataset:
    """The caption taken literally: variance ``level`` on 0..255, clipped, all modalities of half of the samples."""
    chosen = _exactly(len(dataset), 0.5, generator)
    damage = PixelNoise(level**0.5)
    hit = dict.fromkeys(dataset.modalities, chosen)
    line = f"noise seed_literal variance {level} on half of the samples"
    return CorruptedDataset(dataset, dict.fromkeys(hit, damage), hit, generator, line)


def ecml_noise(
    dataset: MultimodalDataset, level: float, generator: torch.Generator, *, share: float = 0.1
) -> CorruptedDataset:
    """RCML's noisy rows: N(0, level^2), level 0.5 there, on 0..M-1 views of ``share`` of the rows (min-max scaled).

    The number of views is drawn for each row, zero included: some of these rows stay clean.
    """
    rows = _exactly(len(dataset), share, generator)
    count = torch.randint(len(dataset.modalities), (len(dataset),), generator=generator)
    line = f"noise ecml_noise std {level} on 0..M-1 views of {share:.0%} of the rows"
    return _some_views(dataset, FeatureNoise(level), rows, count, generator, line)


def fuml_noise(
    dataset: MultimodalDataset, level: float, generator: torch.Generator, *, share: float = 0.5
) -> CorruptedDataset:
    """FUML's noise grid: N(0, level^2) on a random half of the views (rounded down) of ``share`` of the rows."""
    rows = _exactly(len(dataset), share, generator)
    count = torch.full((len(dataset),), max(1, len(dataset.modalities) // 2))
    line = f"noise fuml_noise std {level} on half of the views of {share:.0%} of the rows"
    return _some_views(dataset, FeatureNoise(level), rows, count, generator, line)


#: Noise protocols by name; each takes (dataset, level, generator) and its own flags.
NOISE: dict[str, Callable[..., CorruptedDataset]] = {
    "qmf_rgbd": qmf_rgbd,
    "qmf_imagetext": qmf_imagetext,
    "seed_literal": seed_literal,
    "ecml_noise": ecml_noise,
    "fuml_noise": fuml_noise,
}


def apply_noise(
    protocol: str, dataset: MultimodalDataset, level: float, generator: torch.Generator, **flags: object
) -> CorruptedDataset:
    """A noise protocol by its name."""
    if protocol not in NOISE:
        raise nearest("noise protocol", protocol, NOISE)
    if not 0 <= level < float("inf"):
        raise DataError(f"noise protocol {protocol!r}: level={level}: give a number from 0")
    known = list(inspect.signature(NOISE[protocol]).parameters)[3:]
    for flag in flags:
        if flag not in known:
            raise nearest(f"flag of noise protocol {protocol!r}:", flag, known)
    return NOISE[protocol](dataset, level, generator, **flags)


def _pixels(kind: str, std: float, lower: str) -> Damage:
    if kind not in ("gaussian", "salt_and_pepper"):
        raise nearest("kind of noise", kind, ("gaussian", "salt_and_pepper"))
    return PixelNoise(std, lower) if kind == "gaussian" else SaltAndPepper()


def _some_views(
    dataset: MultimodalDataset,
    damage: Damage,
    rows: Tensor,
    count: Tensor,
    generator: torch.Generator,
    line: str,
) -> CorruptedDataset:
    there = torch.stack(list(presence(dataset).values()), 1)
    place = torch.rand(there.shape, generator=generator).masked_fill(~there, 2.0).argsort(1).argsort(1)
    chosen = rows[:, None] & (place < count[:, None])
    hit = {name: chosen[:, i] for i, name in enumerate(dataset.modalities)}
    return CorruptedDataset(dataset, dict.fromkeys(hit, damage), hit, generator, line)


def _exactly(count: int, share: float, generator: torch.Generator) -> Tensor:
    if not 0 <= share <= 1:
        raise DataError(f"share={share}: the share of rows must lie between 0 and 1")
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[torch.randperm(count, generator=generator)[: round(share * count)]] = True
    return chosen
