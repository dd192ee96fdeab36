"""Everything the commands say: tables and sentences on standard output, remarks on standard error."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(error: bool = False) -> Console:
    """Standard output (or error) as a terminal that knows its width; plain text in a pipe."""
    from evigrad.cli.terminal import Terminal

    return Terminal(error)


def say(*lines: str) -> None:
    """Write ``lines`` to standard output, each wrapped to the terminal."""
    out = console()
    for line in lines:
        out.print(line)


def remark(line: str) -> None:
    """Write one line to standard error, where it can't get into a script's way."""
    from evigrad.training.progress import remark as write

    write(line)


def say_commands(*commands: str) -> None:
    """Write ``commands`` of this program, indented and never wrapped, so that they can be copied."""
    for line in commands:
        sys.stdout.write(f"  {program()} {line}\n")


def program() -> str:
    """What starts the program of this very environment: the one on the path may be another, or there is none."""
    here, found = Path(sys.executable).with_name("evigrad"), shutil.which("evigrad")
    if not here.exists() or (found is not None and here.samefile(found)):
        return "evigrad"
    near = os.path.relpath(here)
    return str(here) if near.startswith("..") else near


def say_json(content: Any) -> None:
    """Write ``content`` as JSON to standard output, and nothing else."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def say_prose(text: str) -> None:
    """Write a docstring: its paragraphs and list items filled anew to the terminal's width."""
    width = min(console().width, 100)
    for line in paragraphs(text):
        indent = " " * (len(line) - len(line.lstrip()))
        hanging = indent + ("  " if line.lstrip().startswith("- ") else "    " if indent else "")
        sys.stdout.write(textwrap.fill(line, width, subsequent_indent=hanging, break_on_hyphens=False) + "\n")


def paragraphs(text: str) -> list[str]:
    r"""The paragraphs and list items of a docstring, a line each, with the empty lines between them.

    Example:
        >>> paragraphs("One\ntwo.\n\n- a\n  b\n- c")
        ['One two.', '', '- a b', '- c']
    """
    found: list[str] = []
    for line in text.splitlines():
        starts = not line.strip() or not found or not found[-1] or re.match(r"- |\s+\w+: |Args:", line)
        if starts:
            found.append(line.rstrip())
        else:
            found[-1] += f" {line.strip()}"
    return found


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", texts: int = 1) -> None:
    """Write a table; the first ``texts`` columns are left-aligned, the others right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def percent(value: float | None) -> str:
    """``0.9275`` as ``92.8``; nothing as a dash."""
    return "-" if value is None or value != value else f"{100 * value:.1f}"
