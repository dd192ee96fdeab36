"""Seeded cuts of the rows of a data set: keeping the shares of the classes, or keeping groups together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from .errors import DataError


def stratified(target: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows (kept, held out), each sorted, with ``share`` of every class of ``target`` [N] held out, rounded."""
    _check_share(share)
    held = [_shuffled((target == label).nonzero()[:, 0], generator) for label in torch.unique(target).tolist()]
    out = torch.cat([rows[: round(share * len(rows))] for rows in held])
    return _complement(len(target), out), out.sort().values


def grouped(groups: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows (kept, held out), each sorted, such that no group of ``groups`` [N] is in both.

    Groups are taken in a random order until at least ``share`` of the rows is held out.
    """
    _check_share(share)
    names = _shuffled(torch.unique(groups), generator)
    if len(names) < 2:
        raise DataError("groups: there is only one group, so none can be held out; split by rows instead")
    sizes = torch.stack([(groups == name).sum() for name in names])
    before = sizes.cumsum(0) - sizes
    chosen = names[:-1][before[:-1] < share * len(groups)]
    out = torch.isin(groups, chosen).nonzero()[:, 0]
    return _complement(len(groups), out), out


def per_class(target: Tensor, rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``count`` random rows of each class among ``rows`` ([n] long), sorted: a training set with few labels."""
    if count < 1:
        raise DataError(f"labels_per_class={count}: give at least 1, or None for all")
    chosen = []
    for label in torch.unique(target).tolist():
        of_class = rows[target[rows] == label]
        if len(of_class) < count:
            raise DataError(f"labels_per_class={count}: class {label} has only {len(of_class)} training rows")
        chosen.append(_shuffled(of_class, generator)[:count])
    return torch.cat(chosen).sort().values


def numbered(names: Iterable[object]) -> Tensor:
    """Group names of any type as numbers [N], in sorted order of their text."""
    texts = [str(name) for name in names]
    number = {name: i for i, name in enumerate(sorted(set(texts)))}
    return torch.tensor([number[name] for name in texts])


def _shuffled(values: Tensor, generator: torch.Generator) -> Tensor:
    return values[torch.randperm(len(values), generator=generator)]


def _complement(count: int, rows: Tensor) -> Tensor:
    kept = torch.ones(count, dtype=torch.bool)
    kept[rows] = False
    return kept.nonzero()[:, 0]


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise DataError(f"share={share}: the share of rows held out must lie between 0 and 1")
