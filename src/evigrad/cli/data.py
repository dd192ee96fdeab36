"""``evigrad data list | info | prepare``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evigrad.cli.arguments import call, plain
from evigrad.cli.console import console, say, say_json, say_prose, say_table
from evigrad.cli.errors import ExitCode, UsageError, nearest

ACTIONS = ("list", "info", "prepare")
ABOUT = """usage: evigrad data list | info NAME | prepare NAME --source ... --out ...

  list     the data sets that have a name, and the two formats for your own files
  info     one data set: modalities, classes, licence, source, protocols, options
  prepare  decode and check original files once, and write them compactly with a manifest

evigrad data ACTION --help explains the options. Own files need no name:
evigrad train --data my/views.npz, or --data my/table.csv.
"""


def command(words: list[str]) -> int:
    """Run ``evigrad data`` with the arguments ``words``."""
    if words and words[0] in ("-h", "--help"):
        say(ABOUT)
        return ExitCode.OK
    if not words or words[0] not in ACTIONS:
        given = f"unknown action {words[0]!r}.{nearest(words[0], ACTIONS)}" if words else "an action is missing."
        raise UsageError(f"{given} Choose one of: {', '.join(ACTIONS)}; evigrad data --help explains them.")
    actions: dict[str, Callable[..., int]] = {"list": list_all, "info": tell, "prepare": prepare}
    return call(f"data {words[0]}", actions[words[0]], words[1:])


def list_all(json: bool = False) -> int:
    """List the data sets.

    Args:
        json: Print them as JSON, for scripts.
    """
    from evigrad.data import info, names

    known = [info(name) for name in names()]
    if json:
        say_json([asdict(one) for one in known])
        return ExitCode.OK
    rows = [
        [one.name, one.title, _count(one.samples), _count(one.classes), str(len(one.modalities) or "any")]
        for one in known
    ]
    say_table(["name", "what", "samples", "classes", "modalities"], rows, texts=2)
    say("evigrad data info NAME tells more. digits is bundled; synthetic is generated.")
    return ExitCode.OK


def tell(name: str, json: bool = False) -> int:
    """Tell what is known about a data set without opening it.

    Args:
        name: Its name in ``evigrad data list``.
        json: Print it as JSON, for scripts.
    """
    from evigrad.data import DATASETS, info, options

    one = info(name)
    given = {key: _default(value.default) for key, value in options(name).items()}
    if json:
        say_json({**asdict(one), "options": given})
        return ExitCode.OK
    facts = {
        "modalities": ", ".join(one.modalities) or "those of your files",
        "classes": _count(one.classes),
        "samples": _count(one.samples),
        "licence": one.licence,
        "source": one.source,
        "protocols": ", ".join(one.protocols) or "-",
        "note": one.note or "-",
    }
    say(one.title, "")
    say_prose("\n".join(f"  {key}: {value}" for key, value in facts.items()))
    say("")
    say_prose(plain(inspect.getdoc(DATASETS[name].load) or ""))
    say_table(["option", "default"], [[f"--data.{key}", str(value)] for key, value in given.items()])
    return ExitCode.OK


def prepare(
    name: str,
    source: Path | None = None,
    out: Path | None = None,
    allow_bad: bool = False,
    options: dict[str, Any] | None = None,
    json: bool = False,
) -> int:
    """Decode and check original files once, and write them compactly, with checksums in a manifest.

    Every bad file is named in one report. What is written appears all at once or not at all; preparing the same files
    again changes nothing.

    Args:
        name: A data set, or ``table`` or ``views`` for files of your own.
        source: The original files: the folder of a release, a table, an npz file. Required.
        out: The folder to write; new, or holding the same preparation. Required.
        allow_bad: Leave bad files out, where that can be done, instead of refusing; the manifest lists them.
        options: How files are read, as in ``--options '{label: class, rate: 8000}'``; for ``table`` those of
            ``evigrad data info table``.
        json: Print the manifest as JSON, for scripts.
    """
    from evigrad.data import prepare as write

    if source is None or out is None:
        lacking = "--source" if source is None else "--out"
        raise UsageError(f"{lacking} is missing: evigrad data prepare {name} --source FILES --out FOLDER.")
    with _Bar() as bar:
        manifest = write(name, source, out, bar.show, allow_bad=allow_bad, **(options or {}))
    if json:
        say_json(manifest)
        return ExitCode.OK
    size = sum(entry["bytes"] for entry in manifest["files"])
    read, written, amount = _files(len(manifest["sources"])), len(manifest["files"]), _amount(size)
    say(f"{read} read, {written} written ({amount}) in {out}.")
    if manifest["problems"]:
        count = len(manifest["problems"])
        say(f"{count} problem{'s' * (count != 1)}, left out:", *(f"  {line}" for line in manifest["problems"]))
    return ExitCode.OK


class _Bar:
    """Progress over files on standard error: a bar on a terminal, nothing elsewhere."""

    def __enter__(self) -> _Bar:
        from rich.progress import Progress

        where = console(error=True)
        self._progress = Progress(console=where, transient=True, disable=not where.is_terminal)
        self._progress.start()
        self._task = self._progress.add_task("preparing", total=None)
        return self

    def show(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` files; ``what`` is the current one."""
        self._progress.update(self._task, completed=done, total=total, description=what[-40:])

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _files(count: int) -> str:
    return f"{count:,} file{'s' * (count != 1)}"


def _amount(size: int) -> str:
    return f"{size / 2**20:.1f} MB" if size >= 2**20 else f"{size / 2**10:.1f} kB"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _default(value: Any) -> Any:
    return "required" if value is inspect.Parameter.empty else value
