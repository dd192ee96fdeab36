"""The scaling that training data were read with, kept beside a run so that new files get the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evigrad.data import Affine

FILE = "scaling.safetensors"


def save_scaling(folder: Path, dataset: object) -> None:
    """Write the affine map of each modality of ``dataset``; nothing where it has none."""
    from safetensors.torch import save_file

    from evigrad.training.files import storage_errors, write_atomically

    affine: dict[str, Affine] = getattr(dataset, "affine", {})
    if not affine:
        return
    tensors = {f"shift.{name}": one.shift.clone() for name, one in affine.items()}
    tensors |= {f"scale.{name}": one.scale.clone() for name, one in affine.items()}
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, lambda path: save_file(tensors, path))


def load_scaling(folder: Path) -> dict[str, Affine]:
    """Modality -> the map that :func:`save_scaling` wrote."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from evigrad.data import Affine

    if not (folder / FILE).exists():
        return {}
    try:
        tensors = load_file(folder / FILE)
        names = [key.removeprefix("shift.") for key in tensors if key.startswith("shift.")]
        return {name: Affine(tensors[f"shift.{name}"], tensors[f"scale.{name}"]) for name in names}
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{folder / FILE} is damaged ({error}). Restore it from a copy.") from error
