"""Train, validation and test rows: as given by a file, or cut by a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from .errors import DataError, nearest
from .seeding import stream
from .splitting import grouped, numbered, stratified


def partition(
    source: str,
    target: Tensor,
    given: Mapping[str, Any],
    group: Iterable[object] | None,
    split: str | None,
    seed: int,
    validation: float,
    test: float,
) -> tuple[dict[str, Tensor], str]:
    """Rows of the three parts and the line that says how they came about.

    ``given`` maps "train", "validation", "test" to row numbers where a published split exists. What it does
    not name is cut from the training rows with ``seed``: by class shares, or by whole groups if ``group`` [N]
    is given.
    """
    split = split or ("given" if given else "seeded")
    if split not in ("given", "seeded"):
        raise nearest("split", split, ("given", "seeded"))
    if split == "given" and not {"train", "test"} <= set(given):
        raise DataError(
            f"{source}: split='given' needs rows for train and test (train_idx, test_idx, or the column 'split'); "
            f"it has {sorted(given) or 'neither'}; name them, or say split='seeded'"
        )
    rows = {part: _rows(source, part, given[part], len(target)) for part in given} if split == "given" else {}
    _apart(source, rows)
    group = None if group is None else list(group)
    if group is not None and len(group) != len(target):
        raise DataError(f"{source}: 'group' has {len(group)} rows, the labels {len(target)}; give one group a row")
    if "train" not in rows:
        rows["train"] = torch.arange(len(target))
    keys, cut, how = (target, stratified, "stratified") if group is None else (numbered(group), grouped, "whole groups")
    lines = []
    for part, share in (("test", test), ("validation", validation)):
        if part in rows:
            lines.append(f"{part} rows as given")
            continue
        train = rows["train"]
        try:
            kept, held = cut(keys[train], share, stream(seed, "split", part))
        except DataError as error:
            raise DataError(f"{source}: {part} part: {error}") from error
        rows["train"], rows[part] = train[kept], train[held]
        lines.append(f"{part} {share:.0%} of the training rows, {how}, seed {seed}")
    for part, chosen in rows.items():
        if not len(chosen):
            raise DataError(f"{source}: the {part} part has no row ({len(target)} rows in all); change its share")
    return rows, f"{', '.join(lines)}; selection on validation"


def _rows(source: str, part: str, given: Any, count: int) -> Tensor:
    if getattr(given, "ndim", 1) != 1 or getattr(getattr(given, "dtype", None), "kind", "i") not in "iuf":
        raise DataError(
            f"{source}: '{part}_idx' has shape {given.shape} and type {given.dtype}; "
            "give row numbers from 0, in one axis (numpy.flatnonzero makes them from booleans)"
        )
    rows = torch.tensor([int(row) for row in given], dtype=torch.long)
    for row, number in zip(given, rows.tolist(), strict=True):
        if row != number:
            raise DataError(f"{source}: '{part}_idx' holds {row}; give row numbers from 0")
    outside = rows[(rows < 0) | (rows >= count)]
    if len(outside):
        raise DataError(f"{source}: '{part}_idx' names row {int(outside[0])}, but there are {count} rows (from 0)")
    return rows


def _apart(source: str, rows: Mapping[str, Tensor]) -> None:
    seen: dict[int, str] = {}
    for part, chosen in rows.items():
        for row in chosen.tolist():
            if row in seen:
                where = f"twice in the {part} part" if seen[row] == part else f"in the {seen[row]} and the {part} part"
                raise DataError(f"{source}: row {row} is {where}; give every row to one part, once")
            seen[row] = part
