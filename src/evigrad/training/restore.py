"""A trained system back from its run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evigrad.training import state
from evigrad.training.checkpoint import load_checkpoint
from evigrad.training.run_folder import RunFolder

if TYPE_CHECKING:
    from evigrad.methods import Method
    from evigrad.networks import MultimodalNetwork


def restore(folder: Path | str, network: MultimodalNetwork, method: Method) -> None:
    """Put the weights that the run in ``folder`` selected into a fresh ``network`` and ``method``, in place.

    Args:
        folder: The run folder; the run need not be finished.
        network: Built as it was for the run.
        method: Built as it was for the run, not prepared yet.
    """
    tensors, values = load_checkpoint(RunFolder(folder).best)
    method.prepare(network, **values["prepared"])
    state.load_module(network, tensors, "network")
    state.load_module(method, tensors, "method")
