"""One run, described by names and options: what a configuration file holds and a run folder remembers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evigrad.experiments.process import is_first_process
from evigrad.experiments.scaling import save_scaling
from evigrad.training import Hardware, Optimizer, Result, RunFolder, Schedule, Selection, Training, fit

if TYPE_CHECKING:
    from evigrad.data import MultimodalDataset, Splits
    from evigrad.methods import Method
    from evigrad.networks import MultimodalNetwork

NESTED = {"optimizer": Optimizer, "schedule": Schedule, "selection": Selection, "hardware": Hardware}


@dataclass(frozen=True)
class Choice:
    """A data set or a method: its name in the registry and the options it is made with."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """What a network is built for: shapes, classes, and for each modality that is text the size of its vocabulary."""

    shapes: dict[str, tuple[int, ...]]
    classes: tuple[str, ...]
    vocabularies: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: MultimodalDataset, unit: str = "words") -> Inputs:
        """Those of a data set whose texts are split into ``unit``; one sample is read."""
        from evigrad.data import VOCABULARY

        texts = [name for name, value in dataset[0].inputs.items() if not value.is_floating_point()]
        return cls(dict(dataset.modalities), dataset.classes, dict.fromkeys(texts, VOCABULARY[unit]))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Inputs:
        """Those that ``asdict`` wrote to a JSON file."""
        shapes = {name: tuple(shape) for name, shape in config["shapes"].items()}
        return cls(shapes, tuple(config["classes"]), dict(config["vocabularies"]))


@dataclass(frozen=True)
class Architecture:
    """What the network is built of, for the shapes that the data set has.

    Args:
        encoders: One encoder for all modalities (``mlp``, ``small_cnn``, ``resnet18``, ``sequence``, ``text``), or
            modality: encoder. ``auto`` goes by the shape of a sample: an MLP for vectors, a transformer for
            sequences of vectors, a small CNN for images and spectrograms, the text encoder for token numbers.
        fusion: How features are joined: ``concatenation`` (the late fusion of the balancing literature, and the only
            one with a ``block`` reading), ``sum``, ``film``, ``gated``, ``low_rank_tensor`` or ``attention``.
        encoder_options: Modality: options of its encoder, such as ``width``, the number of its features.
        fusion_options: Options of the fusion.
        initialisation: ``None`` keeps the start of each PyTorch layer; other schemes are those of the published code.
    """

    encoders: str | dict[str, str] = "auto"
    fusion: str = "concatenation"
    encoder_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    fusion_options: dict[str, Any] = field(default_factory=dict)
    initialisation: str | None = None

    def build(self, inputs: Inputs, seed: int) -> MultimodalNetwork:
        """The network for ``inputs``; its weights depend on ``seed`` alone."""
        from evigrad.networks import build_network

        settings: dict[str, Any] = {**asdict(self), "seed": seed}
        settings["encoders"] = chosen = self._encoders(inputs)
        for name, size in inputs.vocabularies.items():
            if chosen[name] == "text":
                given = self.encoder_options.get(name, {})
                settings["encoder_options"][name] = {"vocabulary": size, **given}
        return build_network(inputs.shapes, len(inputs.classes), **settings)

    def _encoders(self, inputs: Inputs) -> dict[str, str]:
        given = self.encoders if isinstance(self.encoders, dict) else dict.fromkeys(inputs.shapes, self.encoders)
        chosen = {name: given.get(name, "auto") for name in inputs.shapes} | given
        texts = {name: "text" for name in inputs.vocabularies if chosen[name] == "auto"}
        return chosen | texts


@dataclass(frozen=True)
class Experiment:
    """Data, network, method and training of one run; equal experiments give equal runs.

    Example:
        >>> experiment = Experiment(Choice("digits"), Choice("bogc", {"scale": 1.0}), training=Training(epochs=2))
        >>> Experiment.from_config(experiment.to_config()) == experiment
        True
    """

    data: Choice = field(default_factory=lambda: Choice("digits"))
    method: Choice = field(default_factory=lambda: Choice("bogc"))
    network: Architecture = field(default_factory=Architecture)
    training: Training = field(default_factory=Training)

    def to_config(self) -> dict[str, Any]:
        """Plain JSON values, as they stand in ``config.json``."""
        config: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Experiment:
        """The experiment that :meth:`to_config` wrote; further keys are left alone."""
        given = dict(config["training"])
        for name, kind in NESTED.items():
            values = {key: tuple(value) if isinstance(value, list) else value for key, value in given[name].items()}
            given[name] = kind(**values)
        given["loggers"] = tuple(given["loggers"])
        return cls(
            Choice(**config["data"]),
            Choice(**config["method"]),
            Architecture(**config["network"]),
            Training(**given),
        )

    def seeded(self, seed: int) -> Experiment:
        """The same experiment with another seed for weights, order of data and, where it has one, the data's draw."""
        from evigrad.data import options

        data = self.data
        if "seed" in options(data.name):
            data = replace(data, options={**data.options, "seed": seed})
        return replace(self, data=data, training=replace(self.training, seed=seed))

    def splits(self) -> Splits:
        """The data set's three parts."""
        from evigrad.data import load

        return load(self.data.name, **self.data.options)

    def build_method(self) -> Method:
        """A new, untrained method."""
        from evigrad.methods import build_method

        return build_method(self.method.name, **self.method.options)

    def _text_unit(self) -> str:
        """Words or characters, by the data set's own option ``text``."""
        from evigrad.data import Decoding, options

        known = options(self.data.name)
        default = known["text"].default if "text" in known else Decoding.text
        return str(self.data.options.get("text", default))

    def run(self, folder: Path | str, *, resume: bool = False, test: bool = True) -> Result:
        """Train in ``folder``, which then also holds what :func:`load_trained` needs to do without the data.

        Args:
            folder: The run folder, created.
            resume: Go on with the run that is there; a finished one is returned as it is.
            test: Whether the test part is looked at; searching for settings must not.
        """
        method = self.build_method()  # a wrong option is known before the data are read
        splits = self.splits()
        inputs = Inputs.of(splits.train, self._text_unit())
        network = self.network.build(inputs, self.training.seed)
        place = RunFolder(folder)
        if is_first_process():
            if not resume:
                place.require_free()
            if not place.last.exists():  # a run that was started keeps its own, whatever happened to its data since
                save_scaling(place.path, splits.train)
        return fit(
            network,
            method,
            splits.train,
            splits.validation,
            splits.test if test else None,
            folder=folder,
            training=self.training,
            config={**self.to_config(), "inputs": asdict(inputs)},
            resume=resume,
        )


def read_experiment(folder: Path | str) -> tuple[Experiment, dict[str, Any]]:
    """The experiment of the run in ``folder`` and its whole configuration."""
    from evigrad.training.files import read_json

    path = RunFolder(folder).config
    if not path.exists():
        raise FileNotFoundError(
            f"{Path(folder)} holds no run: there is no {path.name} in it. Name a run folder, such as runs/digits-bogc."
        )
    config = read_json(path)
    missing = [key for key in ("data", "method", "network", "training", "inputs") if key not in config]
    if missing:
        raise ValueError(
            f"{path} has no {', '.join(missing)}: the run was started from Python with objects that have no name. "
            "Build them there, and use evigrad.training directly."
        )
    try:
        return Experiment.from_config(config), config
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} isn't a configuration as this version writes it ({error}). Restore it from a copy, or start a "
            "new run."
        ) from error
