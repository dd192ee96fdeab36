"""``evigrad predict``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evigrad.cli.arguments import call
from evigrad.cli.console import say, say_json
from evigrad.cli.errors import ExitCode, UsageError
from evigrad.cli.report import say_numbers
from evigrad.experiments import load_trained, read_new
from evigrad.training import Predictions, classification_metrics
from evigrad.training import predict as apply
from evigrad.training.files import write_atomically

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset


def command(words: list[str]) -> int:
    """Run ``evigrad predict`` with the arguments ``words``."""
    return call("predict", predict, words)


def predict(
    run: Path, data: Path | None = None, missing: tuple[str, ...] = (), out: Path | None = None, json: bool = False
) -> int:
    """Apply a run to new files, with modalities missing if need be. The training data aren't needed.

    New files have the format of the training data: an npz file or folder of npy files with arrays named like the
    modalities (raw values: the run scales them as it did in training), or a table for a run on a table. A modality may
    be left out altogether, or be NaN throughout (an empty cell in a table) in single rows. Labels are optional; with
    them the accuracy is told.

    Args:
        run: The run folder.
        data: The new files. Required.
        missing: Modalities to ignore even where they are there, as in ``--missing '[sound]'``.
        out: The CSV file to write, one row a sample; ``predictions-NAME.csv`` in the run folder if not given.
        json: Print the predictions as JSON, for scripts; the CSV file is written all the same.
    """
    if data is None:
        raise UsageError("--data is missing: name the new files, as in --data new.npz.")
    trained = load_trained(run)
    dataset, labelled = read_new(trained, data)
    found = apply(trained.network, trained.method, _without(dataset, missing))
    place = out or run / f"predictions-{data.stem}.csv"
    rows = _rows(found, trained.inputs.classes, labelled)
    write_atomically(place, lambda path: _write(path, rows))
    if json:
        say_json(rows)
        return ExitCode.OK
    nothing = sum(1 for row in rows if not row["present"])
    if labelled:
        say_numbers({"samples": len(rows), **classification_metrics(found.probabilities, found.target)}, str(data))
    if nothing:
        say(f"{nothing} samples have no modality at all; what is predicted for them means nothing.")
    say(f"{len(rows)} predictions are in {place}.")
    return ExitCode.OK


def _without(dataset: MultimodalDataset, missing: tuple[str, ...]) -> MultimodalDataset:
    from evigrad.data import remove

    return remove(dataset, missing) if missing else dataset


def _rows(found: Predictions, classes: tuple[str, ...], labelled: bool) -> list[dict[str, Any]]:
    rows = []
    for row, (index, target) in enumerate(zip(found.index.tolist(), found.target.tolist(), strict=True)):
        probabilities = found.probabilities[row].tolist()
        best = max(range(len(classes)), key=probabilities.__getitem__)
        one: dict[str, Any] = {"row": index, "predicted": classes[best], "confidence": round(probabilities[best], 6)}
        if labelled:
            one["label"] = classes[target]
        one["present"] = " ".join(name for name, mask in found.present.items() if mask[row])
        one |= {f"p({name})": round(value, 6) for name, value in zip(classes, probabilities, strict=True)}
        rows.append(one)
    return rows


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
