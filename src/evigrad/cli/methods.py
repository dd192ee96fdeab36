"""``evigrad methods``."""

from __future__ import annotations

import inspect

from evigrad.cli.arguments import call, plain
from evigrad.cli.console import say, say_commands, say_json, say_prose, say_table
from evigrad.cli.errors import ExitCode
from evigrad.methods import METHODS, Method


def command(words: list[str]) -> int:
    """Run ``evigrad methods`` with the arguments ``words``."""
    if words and not words[0].startswith("-"):
        words = ["--name", *words]
    return call("methods", methods, words)


def methods(name: str | None = None, json: bool = False) -> int:
    """List the training methods; evigrad methods NAME says where one comes from and what it can be told.

    Args:
        name: A method.
        json: Print names and options as JSON, for scripts.
    """
    from evigrad.calibration.errors import choose

    chosen = METHODS if name is None else {name: METHODS[choose("method", name, METHODS)]}
    if json:
        say_json({key: {"summary": _summary(kind), "options": _options(kind)} for key, kind in chosen.items()})
    elif name is None:
        say_table(["method", "what it is"], [[key, _summary(kind)] for key, kind in chosen.items()], texts=2)
        say("evigrad methods NAME tells where it comes from; evigrad train --method NAME uses it.")
    else:
        _tell(name, chosen[name])
    return ExitCode.OK


def _tell(name: str, kind: type[Method]) -> None:
    say_prose(plain(inspect.getmodule(kind).__doc__ or "").strip())
    say("")
    say_prose(plain(inspect.getdoc(kind) or "").strip())
    if options := _options(kind):
        say_table(["option", "default"], [[f"--method.{key}", str(value)] for key, value in options.items()])
    else:
        say("", "It has no options.")
    say("Use it:")
    say_commands(f"train --method {name}")


def _summary(kind: type[Method]) -> str:
    module = inspect.getmodule(kind)
    return plain((module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " "))


def _options(kind: type[Method]) -> dict[str, object]:
    given = inspect.signature(kind).parameters.items()
    return {name: one.default for name, one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
