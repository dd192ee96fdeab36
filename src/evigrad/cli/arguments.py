"""Parsers made from typed signatures: what a function or dataclass takes is what its command takes."""

from __future__ import annotations

import inspect
import re
import textwrap
from argparse import ArgumentError, HelpFormatter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace

from evigrad.cli.errors import UsageError, nearest

ROLES = re.compile(r":\w+:`~?\.?(?:[\w.]*\.)?(\w+)`")
SWITCH = " {true,false}"
GROUP_FILES = re.compile(r"^  --\S+ CONFIG +Path to a configuration file\.\n", re.MULTILINE)


class Formatter(DefaultHelpFormatter):
    """Fits the paragraphs of a description to the terminal and leaves what is indented, such as examples, alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = (
            block if block.startswith(" ") else textwrap.fill(" ".join(block.split()), width, break_on_hyphens=False)
            for block in text.split("\n\n")
        )
        return textwrap.indent("\n\n".join(blocks), indent)


class Parser(ArgumentParser):
    """jsonargparse's parser, with one-line errors, switches that need no value, and help without markup."""

    def __init__(self, command: str, about: str, positional: str | None = None) -> None:
        super().__init__(
            prog=f"evigrad {command}",
            usage=f"evigrad {command} {'[options]' if positional is None else positional}",
            formatter_class=Formatter,
            description=inspect.cleandoc(about),
            exit_on_error=False,
            default_env=False,
            allow_abbrev=False,
        )

    def read(self, words: list[str]) -> Namespace:
        """The arguments, with defaults filled in and dataclasses not built yet."""
        prepared = self._switches(words)
        try:
            settings = self.parse_args(prepared)
        except ArgumentError as error:
            raise UsageError(self._sentence(str(error))) from error
        assert isinstance(settings, Namespace)
        return settings

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Never print usage and leave; raise."""
        raise UsageError(self._sentence(message)) from ex

    def format_help(self, formatter: HelpFormatter | None = None) -> str:
        """The help, plain."""
        text = GROUP_FILES.sub("", plain(super().format_help(formatter).replace(SWITCH, " " * len(SWITCH))))
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"

    def options(self) -> dict[str, bool]:
        """Every long option, and whether it is a switch."""
        return {
            name: action.choices == ["true", "false"] or getattr(action, "_typehint", None) is bool
            for action in self._actions
            for name in action.option_strings
            if name.startswith("--")
        }

    def _switches(self, words: list[str]) -> list[str]:
        """``--json`` alone means ``--json=true``."""
        options = self.options()
        return [
            f"{word}=true" if options.get(word) and after not in ("true", "false") else word
            for word, after in pairs(words)
        ]

    def _sentence(self, message: str) -> str:
        """One line: the argument, the value, and the nearest name for one that isn't known."""
        line = " ".join(message.split())
        known = list(self.options())
        if match := re.search(r"unrecognized arguments: (--[^\s=]+)", line, re.IGNORECASE):
            return f"unknown option {match[1]}.{nearest(match[1], known)} {self.prog} --help lists them all."
        if match := re.search(r"unrecognized arguments: (.*)", line, re.IGNORECASE):
            return f"unexpected argument {match[1]!r}; {self.prog} --help shows what it takes."
        if match := re.search(r"Group '(\S+)' does not accept option '(\S+)'", line):
            key = f"{match[1]}.{match[2]}"
            return f"unknown key {key} in the configuration.{nearest(key, [name[2:] for name in known])}"
        if match := re.search(r"(?:Key|Option) '(\S+)' is not (?:expected|accepted)", line):
            return f"unknown key {match[1]} in the configuration.{nearest(match[1], [name[2:] for name in known])}"
        if match := re.search(r"the following arguments are required: (.*)", line):
            return f"{match[1].upper()} is missing; {self.prog} --help shows what it takes."
        if match := re.search(r'Parser key "(\S+)": Expected an? (.*)\. Got value: (.*)', line):
            return _wrong_value(match[1], match[2], match[3])
        if match := re.search(r'Parser key "(\S+)": Does not .* Subtypes: \[(.*)\] Errors: .*value: (.*)', line):
            return _wrong_value(match[1], re.sub(r"(?<=>), (?=<)", " or ", match[2]), match[3])
        return line


def _wrong_value(key: str, kind: str, value: str) -> str:
    choices = re.findall(r"'([^']*)'", kind) if "Literal" in kind else []
    if choices:
        return f"--{key} {value} isn't known.{nearest(value, choices)} Choose one of: {', '.join(choices)}."
    kind = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", kind)
    kind = re.sub(r"\b(?:collections\.abc|typing)\.", "", kind).replace("NoneType", "null")
    return f"--{key} takes {kind}, got {value!r}."


def from_function(command: str, function: Callable[..., Any]) -> Parser:
    """A parser for all parameters of ``function``; those without a default are positional."""
    parameters = inspect.signature(function).parameters
    needed = [name.upper() for name, one in parameters.items() if one.default is one.empty]
    parser = Parser(command, _about(function), " ".join([*needed, "[options]"]))
    parser.add_function_arguments(function, as_positional=True, sub_configs=False)
    parser._action_groups[-1].title = "arguments"  # instead of the description a second time
    return parser


def call(command: str, function: Callable[..., int], words: list[str]) -> int:
    """Run ``function`` with the arguments in ``words``."""
    settings = from_function(command, function).read(words)
    return function(**{name: getattr(settings, name) for name in inspect.signature(function).parameters})


def describe(parser: Parser, group: str, title: str, text: str) -> None:
    """Head the options of ``group`` in the help with ``title`` and the docstring ``text`` without its arguments."""
    entry, about = (parser.groups or {})[group], plain(text.split("Args:")[0])
    entry.title, entry.description = title, inspect.cleandoc(about).rstrip()


def plain(text: str) -> str:
    """A docstring without markup, as a terminal can show it."""
    return ROLES.sub(r"\1", text.replace("``", "").replace(":math:", "").replace(".. math::", ""))


def peek(words: list[str], option: str, configured: Any, default: str) -> str:
    """The last value of ``option`` in ``words``, before they are parsed; else the configured one, else ``default``."""
    found = configured or default
    for word, after in pairs(words):
        if word == option:
            found = after
        elif word.startswith(f"{option}="):
            found = word.split("=", 1)[1]
    return str(found)


def pairs(words: list[str]) -> list[tuple[str, str]]:
    """Every word with the one that follows it.

    Example:
        >>> pairs(["--out", "runs/x"])
        [('--out', 'runs/x'), ('runs/x', '')]
    """
    return list(zip(words, [*words, ""][1:], strict=True))


def read_yaml(paths: Iterable[str]) -> dict[str, Any]:
    """The mapping in the last of some YAML files; what is wrong with it names the file."""
    import yaml  # type: ignore[import-untyped]  # its stubs are another package

    content: dict[str, Any] = {}
    for name in paths:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"--config {name}: no such file. evigrad train --print_config writes one to start from.")
        try:
            loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"--config {name} isn't valid YAML: {' '.join(str(error).split())}") from error
        if not isinstance(loaded, dict):
            raise UsageError(f"--config {name} should hold a mapping such as 'method: {{name: bogc}}', not {loaded!r}.")
        content |= loaded
    return content


def _about(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").split("\nArgs:")[0].strip()
