"""CMU-MOSI utterances: text, audio and visual features; text dominates, the others are near chance.

The features were learned from the labels of the 62 training videos. A linear model that never saw twelve of these
videos is right about 99 % of their utterances, and about 76 % of those of the other 31.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .arrays import read_arrays
from .dataset import Info, Splits
from .errors import nearest
from .memory import split_views
from .partition import partition
from .root import folder_of
from .seeding import stream
from .splitting import grouped, numbered
from .views import views_from_arrays

INFO = Info(
    name="mosi_features",
    title="CMU-MOSI: text, audio and visual features of utterances, positive or negative",
    modalities=("text", "audio", "visual"),
    classes=2,
    samples=2199,
    licence="research use",
    source="bc-LSTM features of declare-lab/multimodal-deep-learning",
    protocols=("published", "unseen"),
    note="Features were learned from the labels of the training videos, so that held-out training videos look far "
    "easier (99 %) than test videos (76 %): selection under 'published' is blind. Majority rate on test 62.1 %.",
)


def load_mosi_features(
    *,
    root: str | Path | None = None,
    protocol: str = "published",
    seed: int = 0,
    validation: float = 0.2,
    scaling: str = "standard",
) -> Splits:
    """62 videos for training and 31 others for test, whose features were not learned from their labels.

    Args:
        root: The folder of the release, or the one above it; the environment variable EVIGRAD_DATA if not given.
        protocol: "published": all 31 videos are the test part and validation takes whole videos from the 62, which
            look far easier than the others, since their labels were used to learn the features: the epoch chosen is
            hardly the best one. "unseen": validation takes whole videos from the 31, and the rest is the test part.
        seed: Of the videos to validate on.
        validation: Share, in whole videos, of the rows that it is taken from.
        scaling: "standard" (zero mean, unit variance) or "minmax", fitted on training rows alone; "none"; or
            "minmax_tmc" and "minmax_rcml", which let test rows speak into the scaling as the released code does.
    """
    if protocol not in INFO.protocols:
        raise nearest("protocol", protocol, INFO.protocols)
    path = folder_of("mosi_features", root, ["mosi_features.npz"]) / "mosi_features.npz"
    arrays = {**read_arrays(path)}
    arrays["class_names"] = type(arrays["y"])([2], dtype="<U8")
    arrays["class_names"][:] = ["negative", "positive"]
    data = views_from_arrays(path.name, arrays, INFO.modalities)
    given = {"train": arrays["train_idx"], "test": arrays["test_idx"]}
    if protocol == "unseen":
        given |= _unseen(arrays, seed, validation)
    rows, line = partition(path.name, data.target, given, arrays["video_id"], "given", seed, validation, 0.2)
    where = {
        "published": "validation among the videos that features were learned from",
        "unseen": f"validation {validation:.0%} of the published test part, whole videos, seed {seed}",
    }
    line = f"video-disjoint split {protocol!r}: {line}; {where[protocol]}; scaling {scaling!r}"
    return split_views(data, rows, INFO, line, scaling)


def _unseen(arrays: Mapping[str, Any], seed: int, share: float) -> dict[str, Any]:
    """Rows of whole videos for validation and test, among those that features were not learned from."""
    test = arrays["test_idx"]
    kept, held = grouped(numbered(arrays["video_id"][test]), share, stream(seed, "mosi", "unseen"))
    return {"validation": test[held.numpy()], "test": test[kept.numpy()]}
