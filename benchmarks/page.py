"""Writes docs/benchmarks.md from the recorded results: python -m benchmarks.page RESULTS PAGE."""

import json
import string
import sys
from pathlib import Path
from typing import Any

from benchmarks.tables import TABLES

Record = dict[str, Any]
TEMPLATE = Path(__file__).parent / "page.template.md"


def page(records: dict[str, Record]) -> str:
    """The whole page in Markdown."""
    sections = {name: _section(name, records) for name in TABLES}
    return string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(sections)


def _section(name: str, records: dict[str, Record]) -> str:
    if name not in records:
        return "Not measured yet."
    return f"{TABLES[name](records)}\n\n{_circumstances(records[name]['runs'])}"


def _circumstances(runs: list[Record]) -> str:
    environment, load = runs[0]["environment"], max(max(run["load"]) for run in runs)
    changed = " with uncommitted changes" if environment["uncommitted_changes"] else ""
    return (
        f"Measured at commit {environment['commit'][:10]}{changed} with torch {environment['torch']}, "
        f"Python {environment['python']}, {environment['processor']} ({environment['vector_instructions']}), "
        f"{environment['cores']} cores, {environment['system']}; seed {runs[0]['seed']}, load at most {load:.1f}."
    )


def read(folder: Path) -> dict[str, Record]:
    """The recorded results by benchmark."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def main(results: str, target: str) -> None:
    Path(target).write_text(page(read(Path(results))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
