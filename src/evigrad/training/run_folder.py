"""Where a run keeps everything: one folder, readable without this package."""

from __future__ import annotations

import errno
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evigrad.training.files import StorageError, read_json, storage_errors, write_json
from evigrad.training.tables import GrowingFile

FREE_TO_CHANGE = frozenset({"workers", "log_every", "checkpoint_every", "progress", "loggers", "hardware"})
"""Settings a resumed run may change: they say where and how loudly to run, not what is computed."""


class RunFolder:
    """The files of one run.

    - ``config.json`` what was asked for, fully resolved; ``environment.json`` versions, commit, hardware
    - ``steps.csv``, ``epochs.csv``, ``diagnostics.jsonl`` metrics; ``timing.csv`` seconds, kept apart from what a
      resumed run must reproduce byte for byte
    - ``checkpoints/last.safetensors`` everything needed to go on; ``checkpoints/best.safetensors`` the weights of the
      selected epoch
    - ``predictions/SPLIT.npz`` and ``.csv``; ``result.json`` the final numbers with their protocol
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.last = self.path / "checkpoints" / "last.safetensors"
        self.best = self.path / "checkpoints" / "best.safetensors"
        self.config = self.path / "config.json"
        self.environment = self.path / "environment.json"
        self.result = self.path / "result.json"
        self.predictions = self.path / "predictions"
        self.lock = self.path / ".lock"
        self.steps = GrowingFile(self.path / "steps.csv")
        self.epochs = GrowingFile(self.path / "epochs.csv")
        self.diagnostics = GrowingFile(self.path / "diagnostics.jsonl")
        self.timing = GrowingFile(self.path / "timing.csv")

    @property
    def resumable(self) -> tuple[GrowingFile, ...]:
        """The files a checkpoint remembers the length of."""
        return (self.steps, self.epochs, self.diagnostics)

    def lengths(self) -> dict[str, int]:
        """How long each of the ``resumable`` files is now, once it is safely on the disk."""
        for file in self.resumable:
            file.sync()
        return {file.path.name: file.size() for file in self.resumable}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Shorten each of the ``resumable`` files to what it was."""
        for file in self.resumable:
            file.cut(lengths[file.path.name])

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the folder; the operating system lets go when this one ends, however it does."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._claim(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _claim(self, descriptor: int) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            # Not flock: workers that load data would inherit it, and outlive a killed run by seconds.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                return  # a file system without locks
            holder = os.pread(descriptor, 100, 0).decode() or "another process"
            raise FileExistsError(
                f"{self.path} is in use by {holder}: two processes would destroy each other's files. "
                "Wait for it or stop it, then resume; or choose another folder."
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}".encode(), 0)

    def create(self, config: Mapping[str, Any], checkpoint_bytes: int) -> None:
        """Start a new run, or fail before any time is spent: folder taken, not writable, or disk too small."""
        self.require_free()
        self.require_room(checkpoint_bytes)
        for leftover in (*self.resumable, self.timing):
            leftover.path.unlink(missing_ok=True)
        self.best.unlink(missing_ok=True)
        write_json(self.config, config)

    def require_free(self) -> None:
        """Refuse a folder that already holds a run which could be resumed."""
        if self.last.exists() or self.result.exists():
            raise FileExistsError(
                f"{self.path} already holds a run. Resume it (resume=True), or choose another folder for a new one."
            )

    def require_room(self, checkpoint_bytes: int) -> None:
        """Write a small file where the run will, and ask the disk for room for three checkpoints."""
        with storage_errors(self.path):
            self.last.parent.mkdir(parents=True, exist_ok=True)
            self.predictions.mkdir(exist_ok=True)
            probe = self.path / f".writable.{os.getpid()}"
            try:
                probe.write_bytes(b"evigrad")
            finally:
                probe.unlink(missing_ok=True)
        free, needed = shutil.disk_usage(self.path).free, 3 * checkpoint_bytes
        if free < needed:
            raise StorageError(
                f"{self.path} is on a disk with {free / 2**20:,.0f} MB free; this run's checkpoints need about "
                f"{needed / 2**20:,.0f} MB. Make room or choose another folder."
            )

    def require_same(self, config: Mapping[str, Any]) -> None:
        """Refuse to resume under settings that would make another run of it."""
        self.require_started_with(read_json(self.config), config)

    def require_started_with(self, saved: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """The same for settings out of another place than ``config.json``, which somebody may have edited."""
        for name, old, new in _differences(what_counts(saved), what_counts(config)):
            raise ValueError(
                f"{name} is {new!r} and the run in {self.path} was started with {old!r}: resuming would mix two runs. "
                "Resume with the settings it was started with, or start a new run in another folder."
            )


def what_counts(config: Mapping[str, Any]) -> dict[str, Any]:
    """``config`` without the settings that a resumed run may change."""
    training = config.get("training")
    if not isinstance(training, dict):
        return dict(config)
    return {**config, "training": {key: value for key, value in training.items() if key not in FREE_TO_CHANGE}}


def _differences(saved: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    found: list[tuple[str, Any, Any]] = []
    for key in sorted(saved.keys() | asked.keys()):
        old, new = saved.get(key), asked.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append((f"{prefix}{key}", old, new))
    return found
