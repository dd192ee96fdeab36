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
    """1,524/382 rows, stratified; ``validation`` of the first part is cut off, stratified, by ``seed``.

    Drawings are [3, 32, 32] in [0, 1]; ``text`` is token ids [text_length], of "characters" or "words".
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
