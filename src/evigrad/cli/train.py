"""``evigrad train``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from evigrad.cli.arguments import Parser, describe, pairs, peek, read_yaml
from evigrad.cli.console import remark, say, say_commands, say_json
from evigrad.cli.errors import ExitCode, UsageError
from evigrad.cli.report import headline
from evigrad.experiments import Architecture, Choice, Experiment, is_first_process
from evigrad.training import Result, RunFolder, Training

ABOUT = """
Train a network by a method. Everything lands in one run folder, from which the other commands work.

  evigrad train                                       bogc on the bundled digits
  evigrad train --data my/views.npz --method tmc      your own views, or a table
  evigrad train --config run.yaml --training.seed 1   a file, and overrides

A YAML file has the same names: data, method, network, training. --print_config writes one to start from. The options
of --data and --method below are those of the data set and method that are named; name others to see theirs.
"""
LISTS = {"--data": "evigrad data list", "--method": "evigrad methods"}
FILES = {".csv": "table", ".parquet": "table", ".npz": "views"}


def command(words: list[str]) -> int:
    """Run ``evigrad train`` with the arguments ``words``."""
    words = _shorthands(words)
    files = [after for word, after in pairs(words) if word == "--config"]
    files += [word.split("=", 1)[1] for word in words if word.startswith("--config=")]
    configured = read_yaml(files)
    data = peek(words, "--data.name", _named(configured, "data"), "digits")
    method = peek(words, "--method.name", _named(configured, "method"), "bogc")
    parser = _parser(data, method)
    settings = parser.read(_files_first(words))
    if (settings.data.name, settings.method.name) != (data, method):
        raise UsageError(
            "--config is given several times with different data or methods; name them on the command line."
        )
    return _train(_experiment(parser.instantiate(settings)), settings.out, settings.json)


def _train(experiment: Experiment, out: str | None, as_json: bool) -> int:
    folder = Path(out) if out else default_folder(experiment)
    place = RunFolder(folder)
    if is_first_process() and (place.last.exists() or place.result.exists()):
        raise UsageError(
            f"{folder} already holds a run. Go on with it: evigrad resume {folder}; or choose another folder: --out ..."
        )
    if is_first_process():
        remark(f"training {experiment.method.name} on {experiment.data.name} in {folder}")
    return report(experiment.run(folder), as_json)


def report(result: Result, as_json: bool) -> int:
    """Say what a run reached, where it is, and what can be done with it."""
    if not is_first_process():
        return ExitCode.OK
    if as_json:
        say_json({"folder": str(result.folder), **result.to_json()})
        return ExitCode.OK
    say(*headline(result), f"Everything is in {result.folder}. Next:")
    say_commands(
        f"evaluate {result.folder}",
        f"predict {result.folder} --data NEW.npz",
        f"export {result.folder}",
    )
    return ExitCode.OK


def default_folder(experiment: Experiment) -> Path:
    """``runs/DATA-METHOD-seed-N``."""
    data = experiment.data
    name = Path(str(data.options["path"])).stem if "path" in data.options else data.name
    return Path("runs") / f"{name}-{experiment.method.name}-seed-{experiment.training.seed}"


def _parser(data: str, method: str) -> Parser:
    from evigrad.calibration.errors import choose
    from evigrad.data import DATASETS, info
    from evigrad.methods import METHODS

    known, kind = info(data), METHODS[choose("method", method, METHODS)]
    parser = Parser("train", ABOUT)
    parser.add_argument("--config", action="config", help="a YAML file with any of the settings below")
    parser.add_argument("--out", type=str | None, help="the run folder; runs/DATA-METHOD-seed-N if not given")
    parser.add_argument("--json", type=bool, default=False, help="print the result as JSON, for scripts")
    load = DATASETS[data].load
    parser.add_function_arguments(load, "data", sub_configs=False)
    parser.add_argument("--data.name", type=str, default=data, help="the data set; --data NAME for short")
    describe(parser, "data", f"--data {data}", f"{known.title}.\n\n{inspect.getdoc(load)}")
    parser.add_class_arguments(kind, "method", sub_configs=False, instantiate=False)
    parser.add_argument("--method.name", type=str, default=method, help="the method; --method NAME for short")
    describe(parser, "method", f"--method {method}", kind.__doc__ or "")
    parser.add_class_arguments(Architecture, "network", sub_configs=False)
    parser.add_class_arguments(Training, "training", sub_configs=False)
    return parser


def _experiment(settings: Namespace) -> Experiment:
    data, method = settings.data.as_dict(), settings.method.as_dict()
    names = data.pop("name"), method.pop("name")
    data = {key: _absolute(value) if key in ("path", "root") else value for key, value in data.items()}
    return Experiment(Choice(names[0], data), Choice(names[1], method), settings.network, settings.training)


def _absolute(value: Any) -> str | None:
    """A path that still leads there when the run is resumed from another folder."""
    return None if value is None else str(Path(value).expanduser().resolve())


def _shorthands(words: list[str]) -> list[str]:
    """``--method X`` is ``--method.name X``; ``--data FILE`` is the format that reads it, and its path."""
    result: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        result += [f"{name}.name", value] if name in ("--data", "--method") and equals else [word]
    for word, after in pairs(result):
        if word in ("--data", "--method") and (not after or after.startswith("--")):
            raise UsageError(f"{word} needs a value; {LISTS[word]} lists the names.")
    result = [f"{word}.name" if word in ("--data", "--method") else word for word in result]
    for place, (word, value) in enumerate(pairs(result)):
        path = Path(value)
        if word == "--data.name" and (path.suffix in FILES or "/" in value or path.is_dir()):
            if not path.exists():
                raise UsageError(
                    f"--data {value}: no such file or folder; evigrad data list shows the named data sets."
                )
            result[place + 1 : place + 2] = [FILES.get(path.suffix, "views"), "--data.path", value]
            break
    return result


def _files_first(words: list[str]) -> list[str]:
    """What stands in a file never overrides what stands on the command line."""
    taken: list[int] = []
    for place, word in enumerate(words):
        if word == "--config":
            taken += [place, place + 1]
        elif word.startswith("--config="):
            taken.append(place)
    first = [words[place] for place in taken if place < len(words)]
    return first + [word for place, word in enumerate(words) if place not in taken]


def _named(configured: dict[str, Any], group: str) -> Any:
    part = configured.get(group)
    return part.get("name") if isinstance(part, dict) else part
