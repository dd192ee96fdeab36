"""Which extra brings which package."""

from __future__ import annotations

EXTRAS = {
    "train": ("jsonargparse", "lightning_fabric", "numpy", "rich", "safetensors", "torchmetrics"),
    "av": ("av", "PIL", "soundfile"),
    "table": ("pyarrow",),
    "onnx": ("onnx", "onnxscript"),
    "tracking": ("tensorboard", "wandb", "mlflow"),
}


def remedy(module: str) -> str | None:
    """What to run when ``module`` can't be imported; None if no extra brings it.

    Example:
        >>> remedy("rich.table")
        "rich isn't installed. Run: pip install 'evigrad[train]'"
    """
    package = module.split(".")[0]
    extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
    return extra and f"{package} isn't installed. Run: pip install 'evigrad[{extra}]'"
