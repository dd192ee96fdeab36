"""CMU-MOSI utterances: text, audio and visual features; text dominates, the others are near chance."""

from __future__ import annotations

from pathlib import Path

from .arrays import read_arrays
from .dataset import Info, Splits
from .memory import split_views
from .partition import partition
from .root import folder_of
from .views import views_from_arrays

INFO = Info(
    name="mosi_features",
    title="CMU-MOSI: text, audio and visual features of utterances, positive or negative",
    modalities=("text", "audio", "visual"),
    classes=2,
    samples=2199,
    licence="research use",
    source="bc-LSTM features of declare-lab/multimodal-deep-learning",
    protocols=("published",),
    note="Majority rate on test 62.1 %.",
)


def load_mosi_features(
    *, root: str | Path | None = None, seed: int = 0, validation: float = 0.2, scaling: str = "standard"
) -> Splits:
    """62 videos for training and 31 others for test; validation takes whole videos from the 62.

    Args:
        root: The folder of the release, or the one above it; the environment variable EVIGRAD_DATA if not given.
        seed: Of the videos to validate on.
        validation: Share of the training rows, in whole videos, that is held out to select on.
        scaling: "standard" (zero mean, unit variance) or "minmax", fitted on training rows alone; "none"; or
            "minmax_tmc" and "minmax_rcml", which let test rows speak into the scaling as the released code does.
    """
    path = folder_of("mosi_features", root, ["mosi_features.npz"]) / "mosi_features.npz"
    arrays = {**read_arrays(path)}
    arrays["class_names"] = type(arrays["y"])([2], dtype="<U8")
    arrays["class_names"][:] = ["negative", "positive"]
    data = views_from_arrays(path.name, arrays, INFO.modalities)
    given = {"train": arrays["train_idx"], "test": arrays["test_idx"]}
    rows, line = partition(path.name, data.target, given, arrays["video_id"], "given", seed, validation, 0.2)
    return split_views(data, rows, INFO, f"video-disjoint split: {line}; scaling {scaling!r}", scaling)
