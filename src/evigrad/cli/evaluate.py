"""``evigrad evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from evigrad.cli.arguments import call
from evigrad.cli.console import say, say_json
from evigrad.cli.errors import ExitCode
from evigrad.cli.report import READINGS, say_grid, say_modalities, say_numbers
from evigrad.experiments import Trained, load_trained
from evigrad.training import evaluate as measure
from evigrad.training import missing_grid, noise_grid
from evigrad.training.files import write_json


def command(words: list[str]) -> int:
    """Run ``evigrad evaluate`` with the arguments ``words``."""
    return call("evaluate", evaluate, words)


def evaluate(
    run: Path,
    split: Literal["test", "validation", "train"] = "test",
    missing: bool = True,
    noise: str = "auto",
    levels: tuple[float, ...] = (0.5, 1.0, 2.0),
    seed: int = 0,
    out: Path | None = None,
    json: bool = False,
) -> int:
    """Measure a run on data it was made with: the selected epoch, whatever state training is in.

    Accuracy, F1, calibration (NLL, ECE, Brier, AURC), every modality alone by the four definitions in circulation,
    modalities missing, and noise at rising levels.

    Args:
        run: The run folder.
        split: The part of the data to measure on. Settle on a system with ``validation``, then look at ``test`` once.
        missing: Also with modalities missing: every subset up to four modalities, beyond that each alone and all but
            each.
        noise: A noise protocol of ``evigrad.data``, or ``none``. ``auto`` is ``fuml_noise`` (Gaussian noise on half of
            the modalities of half of the samples) unless a modality is text; others need the inputs they were
            published for.
        levels: Strengths of the noise; for ``fuml_noise`` standard deviations, in the units the network reads.
        seed: Of the noise. Systems measured under one seed meet the same noise.
        out: Where to write the numbers as JSON; ``evaluation-SPLIT.json`` in the run folder if not given.
        json: Print the numbers as JSON instead of tables.
    """
    trained = load_trained(run)
    found = _measure(trained, split, missing, noise, levels, seed)
    place = out or run / f"evaluation-{split}.json"
    write_json(place, found)
    if json:
        say_json(found)
        return ExitCode.OK
    _say(found, split)
    say(f"Written to {place}.")
    return ExitCode.OK


def _measure(
    trained: Trained, split: str, missing: bool, noise: str, levels: tuple[float, ...], seed: int
) -> dict[str, Any]:
    splits = trained.experiment.splits()
    dataset = splits.parts()[split]
    network, method = trained.network, trained.method
    found: dict[str, Any] = {"run": str(trained.folder), "split": split}
    found |= measure(network, method, dataset, probe_on=splits.train)
    if missing and len(dataset.modalities) > 1:
        found["missing"] = missing_grid(network, method, dataset)
    protocol = _protocol(trained, noise)
    if protocol != "none":
        rows = noise_grid(network, method, dataset, protocol, (0.0, *levels), seed=seed)
        found["noise"] = {"protocol": protocol, "rows": rows}
    return found


def _protocol(trained: Trained, noise: str) -> str:
    if noise == "auto":
        return "none" if trained.inputs.vocabularies else "fuml_noise"
    return noise


def _say(found: dict[str, Any], split: str) -> None:
    say_numbers(found, f"{found['run']}, {split}")
    say_modalities(found["modalities"])
    say(*(f"  {name}: {meaning}" for name, meaning in READINGS.items()), "")
    if "missing" in found:
        say_grid("modalities kept", [(", ".join(row["kept"]), row) for row in found["missing"]])
    if "noise" in found:
        rows = [(f"{row['level']:g}", row) for row in found["noise"]["rows"]]
        say_grid(f"noise ({found['noise']['protocol']})", rows)
    say(f"Protocol: {found['protocol']}")
