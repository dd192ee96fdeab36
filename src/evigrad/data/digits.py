"""UCI Multiple Features, bundled: 2,000 handwritten digits described by six feature sets.

Robert Duin, Multiple Features (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C5HC70, CC BY
4.0.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import torch
from torch import Tensor

from .dataset import Info, Splits
from .errors import DataError, nearest
from .memory import Views, split_views
from .seeding import stream
from .splitting import per_class, stratified

#: Views in the order of the multi-view literature (pix, fou, fac, zer, kar, mor) and their widths.
VIEWS = {"pixels": 240, "fourier": 76, "profiles": 216, "zernike": 47, "karhunen": 64, "morphology": 6}
CLASSES = tuple("0123456789")

INFO = Info(
    name="digits",
    title="UCI Multiple Features: handwritten digits in six views (bundled)",
    modalities=tuple(VIEWS),
    classes=10,
    samples=2000,
    licence="CC BY 4.0",
    source="Robert Duin, Multiple Features (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C5HC70",
    protocols=("seeded", "tmc"),
    note="Six pairs of rows are identical in all views; TMC's split has one pair on both sides, a seeded one none.",
)


def load_digits(
    *,
    split: str = "seeded",
    seed: int = 0,
    validation: float = 0.2,
    scaling: str = "standard",
    labels_per_class: int | None = None,
    noise: Mapping[str, float] | float | None = None,
) -> Splits:
    """The bundled digits.

    Args:
        split: "seeded" holds out a fifth of every class for test, and leaves out of a part what is identical to a row
            of the parts after it; "tmc" takes TMC's published 1,600/400 rows, the same test rows under every seed.
        seed: Moves the cuts, and draws labels and noise.
        validation: Share of the training rows that is held out to select on; a fifth is enough to rank epochs by.
        scaling: "standard" (zero mean, unit variance) or "minmax", fitted on training rows alone; "none"; or
            "minmax_tmc" and "minmax_rcml", which let test rows speak into the scaling as the released code does.
        labels_per_class: Keeps that many training rows of a class; all of them if not given. Few make methods differ
            that are alike on the whole set.
        noise: Standard deviation of Gaussian noise, one number or {view: number}, on the scaled values of every
            part; the same noise each time a row is read. None by default: the set as published.
    """
    data, tmc_test = _read()
    test = _test_rows(data.target, tmc_test, split, seed)
    rest = torch.ones(len(data), dtype=torch.bool).index_fill(0, test, False).nonzero()[:, 0]
    rest = _without_twins(data, rest, test) if split == "seeded" else rest
    kept, held = stratified(data.target[rest], validation, stream(seed, "digits", "validation"))
    train = _without_twins(data, rest[kept], rest[held]) if split == "seeded" else rest[kept]
    if labels_per_class is not None:
        train = per_class(data.target, train, labels_per_class, stream(seed, "digits", "labels"))
    line = (
        f"split {split!r}, seed {seed}, selection on {len(held)} rows held out of the training part, stratified; "
        f"scaling {scaling!r}; views belong together"
    )
    line += f"; {labels_per_class} labels a class" if labels_per_class is not None else ""
    line += f"; noise {noise}" if noise else ""
    splits = split_views(data, {"train": train, "validation": rest[held], "test": test}, INFO, line, scaling)
    return _with_noise(splits, noise, seed) if noise else splits


def _test_rows(target: Tensor, tmc_test: Tensor, split: str, seed: int) -> Tensor:
    if split == "tmc":
        return tmc_test
    if split == "seeded":
        return stratified(target, 0.2, stream(seed, "digits", "test"))[1]
    raise nearest("split", split, INFO.protocols)


def _without_twins(data: Views, rows: Tensor, others: Tensor) -> Tensor:
    """``rows`` but those that are identical in all views to one of ``others``."""
    _, twin = torch.unique(torch.cat(list(data.inputs.values()), dim=1), dim=0, return_inverse=True)
    return rows[~torch.isin(twin[rows], twin[others])]


def _with_noise(splits: Splits, noise: Mapping[str, float] | float, seed: int) -> Splits:
    levels = dict(noise) if isinstance(noise, Mapping) else dict.fromkeys(VIEWS, noise)
    for view, level in levels.items():
        if view not in VIEWS:
            raise nearest("view", view, VIEWS)
        if level < 0:
            raise DataError(f"noise of view {view!r} is {level}: a standard deviation is at least 0")
    used = {view: level for view, level in levels.items() if level}
    noisy = [_noisy(part, used, stream(seed, "digits", "noise", name)) for name, part in splits.parts().items()]
    return Splits(noisy[0], noisy[1], noisy[2], splits.info)


def _noisy(part: object, levels: Mapping[str, float], generator: torch.Generator) -> Views:
    assert isinstance(part, Views)
    values = dict(part.inputs)
    for view, level in levels.items():
        # The part keeps its scaling, which a trained system is given with new files; so the noise goes below it.
        scale = part.affine[view].scale if view in part.affine else 1.0
        values[view] = values[view] + level * scale * torch.randn(values[view].shape, generator=generator)
    return Views(values, part.target, part.classes, part.protocol, affine=part.affine)


@cache
def _read() -> tuple[Views, Tensor]:
    with (
        files(__package__).joinpath("bundled/digits.npz").open("rb") as handle,
        zipfile.ZipFile(handle) as archive,
    ):
        views = {view: _decimals(archive, view, width) for view, width in VIEWS.items()}
        target = _member(archive, "target", torch.uint8).long()
        tmc_test = _member(archive, "tmc_test", torch.uint16).long()
    return Views(views, target, CLASSES, "all 2,000 rows"), tmc_test


def _decimals(archive: zipfile.ZipFile, view: str, width: int) -> Tensor:
    """Integers (byte planes, low byte first, the last one signed) over powers of ten: the published decimals."""
    places = _member(archive, f"{view}.places", torch.uint8).view(width, -1)
    planes = _member(archive, f"{view}.planes", torch.uint8).view(-1, *places.shape)
    bytes_ = [*planes[:-1].long(), planes[-1].view(torch.int8).long()]
    whole = torch.stack([plane << 8 * i for i, plane in enumerate(bytes_)]).sum(0)
    return (whole / torch.tensor(10.0, dtype=torch.float64) ** places).T.float().contiguous()


def _member(archive: zipfile.ZipFile, name: str, dtype: torch.dtype) -> Tensor:
    # The core has no numpy; these members have one known type each, so their header is only skipped.
    raw = bytearray(archive.read(f"{name}.npy"))
    return torch.frombuffer(raw, dtype=dtype, offset=10 + int.from_bytes(raw[8:10], "little"))
