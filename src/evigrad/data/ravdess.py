"""RAVDESS speech: log-mel spectrograms and facial action units, 8 emotions, 24 actors."""

from __future__ import annotations

from pathlib import Path

import torch

from .arrays import read_arrays
from .dataset import Info, Splits
from .errors import DataError
from .memory import split_views
from .partition import partition
from .root import folder_of
from .scaling import quantised
from .views import views_from_arrays

INFO = Info(
    name="ravdess_av",
    title="RAVDESS speech: log-mel audio and facial action units, 8 emotions",
    modalities=("audio", "face"),
    classes=8,
    samples=1424,
    licence="CC BY-NC-SA 4.0",
    source="Livingstone & Russo (2018), RAVDESS; 16 of 1,440 clips are not in this copy",
    protocols=("fold=0..4",),
    note="Folds and validation are actor-disjoint.",
)


def load_ravdess_av(
    *,
    root: str | Path | None = None,
    fold: int = 0,
    seed: int = 0,
    validation: float = 0.2,
    scaling: str = "standard",
) -> Splits:
    """Test on one of the literature's five actor-disjoint folds; validation takes whole actors from the other four.

    ``audio`` is [1, 64 mel, 112 frames] (24 ms each), ``face`` the means of 35 action units over the clip.

    Args:
        root: The folder of the release, or the one above it; the environment variable EVIGRAD_DATA if not given.
        fold: 0 to 4, the fold to test on; report all five.
        seed: Of the actors to validate on.
        validation: Share of the training rows, in whole actors, that is held out to select on.
        scaling: "standard" (zero mean, unit variance) or "minmax", fitted on training rows alone; "none"; or
            "minmax_tmc" and "minmax_rcml", which let test rows speak into the scaling as the released code does.
    """
    if fold not in range(5):
        raise DataError(f"fold={fold}: the folds are 0, 1, 2, 3 and 4")
    path = folder_of("ravdess_av", root, ["ravdess_av.npz"]) / "ravdess_av.npz"
    arrays = read_arrays(path)
    named = {"y": arrays["y"], "class_names": arrays["class_names"], "face": arrays["visual_au"]}
    data = views_from_arrays(path.name, {**named, "audio": arrays["audio_logmel_u8"][:, None]}, INFO.modalities)
    low, high = arrays["logmel_range"].tolist()
    data.affine["audio"] = quantised(low, high)
    folds = torch.tensor(arrays["fold"].tolist())
    given = {
        "train": (folds != fold).nonzero()[:, 0].tolist(),
        "test": (folds == fold).nonzero()[:, 0].tolist(),
    }
    rows, line = partition(path.name, data.target, given, arrays["actor"], "given", seed, validation, 0.2)
    return split_views(data, rows, INFO, f"actor-disjoint fold {fold}: {line}; scaling {scaling!r}", scaling)
