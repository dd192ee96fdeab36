"""Which epoch is kept and when to stop: from validation numbers, never from test ones."""

from __future__ import annotations

from typing import Any

from evigrad.training.config import Selection
from evigrad.training.run import Position


def improve(position: Position, selection: Selection, numbers: dict[str, Any]) -> bool:
    """Note how this epoch did on validation data; whether it is now the best. The earliest wins a tie."""
    value: float = numbers[selection.metric]
    better = position.best is None or (value > position.best if selection.larger_is_better else value < position.best)
    if better:
        position.best, position.best_epoch, position.stale_epochs = value, position.epoch, 0
    else:
        position.stale_epochs += 1
    return better


def out_of_patience(position: Position, selection: Selection) -> bool:
    """Whether validation hasn't improved for ``patience`` epochs."""
    return selection.patience is not None and position.stale_epochs >= selection.patience


def selection_rule(selection: Selection, validated: bool) -> str:
    """The rule in words, for the protocol that stands beside every number."""
    if selection.keep == "last":
        rule = "weights of the last epoch"
    else:
        rule = f"weights of the epoch with the best validation {selection.metric} (earliest on a tie)"
    if selection.patience is not None:
        rule += f", stopped after {selection.patience} epochs without improvement"
    return rule if validated else f"{rule}; no validation set"


def require_validation(selection: Selection, validated: bool) -> None:
    """Selecting and stopping early need a validation set; nothing else may take its place."""
    if validated or (selection.keep == "last" and selection.patience is None):
        return
    raise ValueError(
        f"selection={selection} needs a validation set and none was given. Pass `validation`, or choose "
        "Selection(keep='last', patience=None); the test set is never used for this."
    )
