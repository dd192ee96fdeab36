"""Finds and runs the Python code blocks of a Markdown page."""

import doctest
import re
from pathlib import Path

BLOCK = re.compile(r"^(?P<indent>[ \t]*)```python[ \t]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[int, str]]:
    """Each ```python block as (number of the line before its first, code without the fence's indent)."""
    found = []
    for match in BLOCK.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] or "\n" for line in match["code"].splitlines(keepends=True))
        found.append((text.count("\n", 0, match.start("code")), code))
    return found


def run_session(code: str, page: Path, line: int, namespace: dict[str, object]) -> None:
    """Runs a block that shows a session (>>> and what it answers)."""
    example = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), line)
    example.globs = namespace  # the parser copies it, and the page's next block needs what this one defines
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)


def run_page(page: Path) -> int:
    """Runs a page's blocks in order, in one namespace, and says how many there are."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = blocks(page.read_text(encoding="utf-8"))
    for line, code in found:
        if code.lstrip().startswith(">>>"):
            run_session(code, page, line, namespace)
        else:  # the empty lines make a traceback point at the line of the page
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
    return len(found)
