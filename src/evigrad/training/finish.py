"""The end of a run: the selected weights, measured once on every split."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from evigrad.training import ranks
from evigrad.training.environment import peak_memory_mb
from evigrad.training.evaluate import add_probes, fit_probes, summary
from evigrad.training.files import write_json
from evigrad.training.predictions import predict
from evigrad.training.progress import Progress
from evigrad.training.result import Result
from evigrad.training.run import Run
from evigrad.training.selection import selection_rule

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset


def finish(run: Run, splits: dict[str, MultimodalDataset], progress: Progress, started: float) -> Result:
    """Load the selected epoch's weights, write predictions and ``result.json``. Can be repeated after a kill."""
    run.load_best()
    metrics = _measure(run, splits)
    best_epoch = run.position.best_epoch
    assert best_epoch is not None
    result = Result(
        run.folder.path,
        best_epoch,
        run.position.epoch,
        metrics,
        _protocol(run, splits),
        _cost(progress, started),
    )
    if run.main:
        write_json(run.folder.result, result.to_json())
    ranks.barrier()
    return result


def _measure(run: Run, splits: dict[str, MultimodalDataset]) -> dict[str, dict[str, Any]]:
    """Split -> numbers; the linear probes are fitted on the training split and read on all."""
    found = {
        name: predict(run.network, run.method, part, run.evaluation_batch, run.training.workers, features=True)
        for name, part in splits.items()
    }
    probes = fit_probes(found["train"], len(splits["train"].classes))
    metrics = {}
    for name, part in splits.items():
        metrics[name] = {**summary(found[name], part.classes), "protocol": part.protocol}
        add_probes(metrics[name], probes, found[name])
        if run.main:
            found[name].save(run.folder.predictions / f"{name}.npz", part.classes)
    return metrics


def _protocol(run: Run, splits: dict[str, MultimodalDataset]) -> dict[str, Any]:
    training = run.training
    return {
        "data": {name: part.protocol for name, part in splits.items()},
        "selection": selection_rule(training.selection, "validation" in splits),
        "weights": "exponential average" if run.average else "of the epoch itself",
        "seed": training.seed,
        "method": type(run.method).__name__,
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "precision": training.hardware.precision,
        "readings": "probe: logistic regression on frozen training features; own_head: the method's own unimodal "
        "head; block: the modality's block of the joint head; ablation: joint head without the other features",
    }


def _cost(progress: Progress, started: float) -> dict[str, Any]:
    return {
        "seconds": round(time.monotonic() - started, 3),
        "samples_per_second": round(progress.throughput, 1),
        "peak_memory_mb": peak_memory_mb(),
    }
