"""A trained system, out of its run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evigrad.experiments.experiment import Experiment, Inputs, read_experiment
from evigrad.experiments.scaling import load_scaling
from evigrad.training import RunFolder, restore

if TYPE_CHECKING:
    from evigrad.data import Affine
    from evigrad.methods import Method
    from evigrad.networks import MultimodalNetwork


@dataclass(frozen=True)
class Trained:
    """The network with the weights of the selected epoch, and all that is needed to use it.

    Args:
        folder: The run folder.
        experiment: What the run was started with.
        network: In evaluation mode.
        method: Says how to predict.
        inputs: Shapes, classes, and the sizes of vocabularies.
        scaling: Modality -> the map to apply to raw values first.
    """

    folder: Path
    experiment: Experiment
    network: MultimodalNetwork
    method: Method
    inputs: Inputs
    scaling: dict[str, Affine]


def load_trained(folder: Path | str) -> Trained:
    """The system trained in ``folder``; the data it was trained on are not needed.

    A run that is not finished gives the best epoch so far.
    """
    folder = Path(folder)
    experiment, config = read_experiment(folder)
    best = RunFolder(folder).best
    if not best.exists():
        raise FileNotFoundError(
            f"{folder} has no trained weights yet: no epoch was finished. Go on with it: evigrad resume {folder}"
        )
    inputs = Inputs.from_config(config["inputs"])
    network, method = experiment.network.build(inputs, experiment.training.seed), experiment.build_method()
    restore(folder, network, method)
    return Trained(folder, experiment, network.eval(), method.eval(), inputs, load_scaling(folder))
