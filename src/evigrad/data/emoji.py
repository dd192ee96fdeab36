"""Emoji in two drawings with their names: image and text under a free licence."""

from __future__ import annotations

from pathlib import Path

from .arrays import read_arrays
from .dataset import Info, Splits
from .memory import split_views
from .partition import partition
from .root import folder_of
from .scaling import interval
from .views import views_from_arrays

INFO = Info(
    name="emoji_image_text",
    title="Emoji: two drawings (Twemoji, Noto) and a name, 9 groups",
    modalities=("twemoji", "noto", "text"),
    classes=9,
    samples=1906,
    licence="Twemoji CC BY 4.0, Noto Apache-2.0, names MIT",
    source="npm packages emoji-datasource-twitter and emoji-datasource-google 16.0.0",
    protocols=("published",),
    note="Majority rate on test 20.2 %.",
)


def load_emoji_image_text(
    *,
    root: str | Path | None = None,
    seed: int = 0,
    validation: float = 0.2,
    text: str = "characters",
    text_length: int = 64,
) -> Splits:
    """1,524/382 rows, stratified; the validation rows are cut off the first part, stratified.

    Drawings are [3, 32, 32] in [0, 1], texts token ids [text_length].

    Args:
        root: The folder of the release, or the one above it; the environment variable EVIGRAD_DATA if not given.
        seed: Of the validation rows.
        validation: Share of the training rows that is held out to select on; a fifth is enough to rank epochs by.
        text: "characters", as most names are of one or two words; or "words".
        text_length: Token ids a row; longer texts are cut.
    """
    path = folder_of("emoji_image_text", root, ["emoji_image_text.npz"]) / "emoji_image_text.npz"
    arrays = read_arrays(path)
    named = {"y": arrays["y"], "class_names": arrays["class_names"], "text": arrays["text"]}
    for drawing in ("twemoji", "noto"):
        named[drawing] = arrays[f"image_{drawing}"].transpose(0, 3, 1, 2)
    data = views_from_arrays(path.name, named, INFO.modalities, text_length, text)
    data.affine |= dict.fromkeys(("twemoji", "noto"), interval(0, 255))
    given = {"train": arrays["train_idx"], "test": arrays["test_idx"]}
    rows, line = partition(path.name, data.target, given, None, "given", seed, validation, 0.2)
    return split_views(data, rows, INFO, f"stratified split: {line}; text as {text}; one emoji a row")
