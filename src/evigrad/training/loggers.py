"""Optional places to send metrics to, beside the CSV files that are always written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from evigrad.training.files import write_text

INSTALL = "Run: pip install 'evigrad[tracking]'"


class MetricLogger(Protocol):
    """Receives numbers while a run goes on."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Record ``numbers`` at optimizer step ``step``."""

    def close(self) -> None:
        """Send what is left."""


class TensorBoard:
    """Event files in ``FOLDER/tensorboard``."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """See :class:`MetricLogger`."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """See :class:`MetricLogger`."""
        self._writer.close()


class WeightsAndBiases:
    """A Weights & Biases run in the project ``evigrad``; resuming continues it."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        import wandb

        known = _kept(folder, "wandb") or uuid4().hex
        write_text(_place(folder, "wandb"), known)
        self._run: Any = wandb.init(
            project="evigrad", id=known, name=_title(folder), dir=str(folder), config=dict(config), resume="allow"
        )

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """See :class:`MetricLogger`."""
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        """See :class:`MetricLogger`."""
        self._run.finish()


class MLflow:
    """A run in MLflow's experiment ``evigrad``, wherever ``MLFLOW_TRACKING_URI`` points; resuming continues it."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        import mlflow

        self._mlflow: Any = mlflow
        mlflow.set_experiment("evigrad")
        known = _kept(folder, "mlflow")
        run = mlflow.start_run(run_id=known, run_name=None if known else _title(folder))
        if known is None:
            write_text(_place(folder, "mlflow"), run.info.run_id)
            mlflow.log_dict(dict(config), "config.json")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """See :class:`MetricLogger`."""
        self._mlflow.log_metrics(dict(numbers), step=step)

    def close(self) -> None:
        """See :class:`MetricLogger`."""
        self._mlflow.end_run()


_BY_NAME: dict[str, Callable[[Path, Mapping[str, Any]], MetricLogger]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def require_loggers(names: Sequence[str]) -> None:
    """Refuse a logger whose package is missing, before a run has begun that couldn't go on without it."""
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise ImportError(f"the logger {name!r} needs the package {name}. {INSTALL}") from error


def build_loggers(names: Sequence[str], folder: Path, config: Mapping[str, Any]) -> list[MetricLogger]:
    """The loggers called ``names``; one that can't start is an error that says what to do."""
    require_loggers(names)
    return [_start(name, folder, config) for name in names]


def _start(name: str, folder: Path, config: Mapping[str, Any]) -> MetricLogger:
    try:
        return _BY_NAME[name](folder, config)
    except Exception as error:  # of the service's own kinds
        raise ValueError(
            f"the logger {name!r} could not start: {str(error).strip()} "
            f"Mend its settings, then resume the run in {folder}."
        ) from error


def _place(folder: Path, service: str) -> Path:
    return folder / f"{service}_run_id.txt"


def _kept(folder: Path, service: str) -> str | None:
    """What the service calls this run, if it was told of it before."""
    place = _place(folder, service)
    return place.read_text().strip() if place.exists() else None


def _title(folder: Path) -> str:
    """The folder's name and its parent's: in a grid the name alone is that of many."""
    return "/".join(folder.absolute().parts[-2:])
