"""Audio-visual digits: images from MNIST and spoken digits from the Free Spoken Digit Dataset.

The pairing is artificial: an image and a clip are put together because they show the same digit, drawn by a
seed (or taken from ``pairs.npz``). Both halves are real.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .arrays import read_arrays
from .dataset import Info, Splits
from .errors import DataError, nearest
from .memory import Views, split_views
from .root import folder_of
from .scaling import interval, quantised
from .seeding import stream

INFO = Info(
    name="avdigits",
    title="Audio-visual digits: MNIST images with spoken digits (FSDD), paired by digit",
    modalities=("image", "audio"),
    classes=10,
    samples=12000,
    licence="MNIST CC BY-SA 3.0, FSDD CC BY-SA 4.0",
    source="MNIST IDX files and the folder free-spoken-digit-dataset/recordings",
    protocols=("official", "speaker"),
    note="Same-digit pairs are synthetic, images and clips are real; each image is used once.",
)


@dataclass(frozen=True)
class Halves:
    """Images and clips before they are paired; ``official_test`` and ``take`` [clips] are FSDD's."""

    images: dict[str, Tensor]
    digits: dict[str, Tensor]
    log_mel: Tensor
    span: tuple[float, float]
    label: Tensor
    speaker: Tensor
    speakers: tuple[str, ...]
    take: Tensor


def load_avdigits(
    *,
    root: str | Path | None = None,
    protocol: str = "official",
    speakers: tuple[str, str] | None = None,
    pairs: str = "drawn",
    images_per_clip: int = 4,
    seed: int = 0,
) -> Splits:
    """Pairs of ``image`` [1, 28, 28] in [0, 1] and ``audio`` [1, 64 mel, 64 frames], standardised on train.

    Test images come from MNIST's test part, all others from its training part. Reads the compact files mnist.npz
    and fsdd.npz; "evigrad data prepare avdigits" makes them from the originals.

    Args:
        root: The folder of the release, or the one above it; the environment variable EVIGRAD_DATA if not given.
        protocol: "official": takes 0-4 of every speaker and digit are the test part (FSDD's rule), takes 5-9
            validation. "speaker": one speaker is held out for each, which is harder and nearer to use.
        speakers: (validation, test) of protocol "speaker"; the last two by name if not given.
        pairs: "drawn" by the seed, or "published": those in pairs.npz (official protocol only).
        images_per_clip: How often a clip is paired, each time with a new image; 4 uses 12,000 of the images.
        seed: Of the pairs.
    """
    if images_per_clip < 1:
        raise DataError(f"images_per_clip={images_per_clip!r}: give a whole number from 1")
    folder = folder_of("avdigits", root, ["mnist.npz", "fsdd.npz"])
    halves = _halves(read_arrays(folder / "mnist.npz"), read_arrays(folder / "fsdd.npz"))
    clips, line = _clips(halves, protocol, speakers)
    if pairs == "published" and protocol == "official":
        paired = _published(read_arrays(folder_of("avdigits", folder, ["pairs.npz"]) / "pairs.npz"), clips)
        _check_pairs(halves, paired, clips)
    elif pairs == "drawn":
        paired = _draw(halves, clips, images_per_clip, seed)
    else:
        raise DataError(
            f"pairs={pairs!r} with protocol={protocol!r}: 'published' pairs exist for 'official'; use 'drawn'"
        )
    how = f"same-digit pairs {pairs}" + (f" with seed {seed}" if pairs == "drawn" else "")
    return _splits(halves, paired, f"{line}; selection on validation; {how}; log-mel scaled on train")


def _halves(mnist: Mapping[str, Any], fsdd: Mapping[str, Any]) -> Halves:
    take = torch.tensor(fsdd["take"].tolist())
    low, high = fsdd["logmel_range"].tolist()
    return Halves(
        {part: torch.from_numpy(mnist[f"x_{part}"].copy())[:, None] for part in ("train", "test")},
        {part: torch.tensor(mnist[f"y_{part}"].tolist()) for part in ("train", "test")},
        torch.from_numpy(fsdd["logmel_u8"].copy())[:, None],
        (low, high),
        torch.tensor(fsdd["label"].tolist()),
        torch.tensor(fsdd["speaker"].tolist()),
        tuple(str(name) for name in fsdd["speaker_names"]),
        take,
    )


def _clips(halves: Halves, protocol: str, speakers: tuple[str, str] | None) -> tuple[dict[str, Tensor], str]:
    """Rows of the clips of each part."""
    if protocol == "official":
        where = {"train": halves.take >= 10, "validation": (halves.take >= 5) & (halves.take < 10)}
        where["test"] = halves.take < 5
        line = "official split: takes 0-4 test, 5-9 validation, others train, all speakers in each"
    elif protocol == "speaker":
        held = speakers or tuple(sorted(halves.speakers)[-2:])
        for name in held:
            if name not in halves.speakers:
                raise nearest("speaker", name, halves.speakers)
        if len(set(held)) != 2:
            raise DataError(f"speakers={held}: name two different ones, (validation, test)")
        numbers = [halves.speakers.index(name) for name in held]
        where = {p: halves.speaker == n for p, n in zip(("validation", "test"), numbers, strict=True)}
        where = {"train": ~(where["validation"] | where["test"]), **where}
        line = f"speaker-disjoint split: {held[0]} validation, {held[1]} test, others train"
    else:
        raise nearest("protocol", protocol, INFO.protocols)
    for part, chosen in where.items():
        if not chosen.any():
            raise DataError(f"protocol={protocol!r}: there is no clip for {part} ({line}); prepare all recordings")
    return {part: chosen.nonzero()[:, 0] for part, chosen in where.items()}, line


def _draw(halves: Halves, clips: dict[str, Tensor], count: int, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """(clip rows, image rows) of each part: ``count`` images a clip, no image twice."""
    used = {"train": torch.zeros(10, dtype=torch.long), "test": torch.zeros(10, dtype=torch.long)}
    order = {
        source: [_shuffled((digits == d).nonzero()[:, 0], seed, source, d) for d in range(10)]
        for source, digits in halves.digits.items()
    }
    paired = {}
    for part, rows in clips.items():
        source = "test" if part == "test" else "train"
        audio, image = rows.repeat_interleave(count), []
        for digit in halves.label[audio].tolist():
            free, at = order[source][digit], int(used[source][digit])
            if at >= len(free):
                raise DataError(
                    f"images_per_clip={count}: the {source} images have only {len(free)} of digit {digit}; use fewer"
                )
            image.append(free[at])
            used[source][digit] += 1
        paired[part] = (audio, torch.stack(image))
    return paired


def _published(pairs: Mapping[str, Any], clips: dict[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    known = {key: torch.tensor(pairs[key].tolist()) for key in pairs}
    held = torch.isin(known["train_audio"], clips["validation"])
    return {
        "train": (known["train_audio"][~held], known["train_image"][~held]),
        "validation": (known["train_audio"][held], known["train_image"][held]),
        "test": (known["test_audio"], known["test_image"]),
    }


def _check_pairs(halves: Halves, paired: dict[str, tuple[Tensor, Tensor]], clips: dict[str, Tensor]) -> None:
    """Pairs are row numbers: beside files whose rows lie in another order they would pair different digits."""
    for part, (audio, image) in paired.items():
        digits = halves.digits["test" if part == "test" else "train"]
        inside = bool((audio < len(halves.label)).all() and (image < len(digits)).all())
        same = inside and torch.equal(halves.label[audio], digits[image]) and bool(torch.isin(audio, clips[part]).all())
        if not same:
            raise DataError(
                f"pairs='published': pairs.npz does not fit the {part} clips of fsdd.npz and the images of mnist.npz; "
                "take the three files from one release, or use 'drawn'"
            )


def _splits(halves: Halves, paired: dict[str, tuple[Tensor, Tensor]], line: str) -> Splits:
    audio = torch.cat([halves.log_mel[clips] for clips, _ in paired.values()])
    image = torch.cat([halves.images["test" if p == "test" else "train"][rows] for p, (_, rows) in paired.items()])
    target = torch.cat([halves.label[clips] for clips, _ in paired.values()])
    ends = torch.tensor([len(clips) for clips, _ in paired.values()]).cumsum(0).tolist()
    rows = {part: torch.arange(a, b) for part, a, b in zip(paired, [0, *ends], ends, strict=False)}
    affine = {"image": interval(0, 255), "audio": quantised(*halves.span)}
    data = Views({"image": image, "audio": audio}, target, tuple("0123456789"), "", affine=affine)
    return split_views(data, rows, INFO, line, "standard", keep=("image",))


def _shuffled(rows: Tensor, seed: int, *keys: int | str) -> Tensor:
    return rows[torch.randperm(len(rows), generator=stream(seed, "avdigits", *keys))]
