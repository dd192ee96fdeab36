"""Every Python snippet of README and docs runs, in the order of its page."""

from pathlib import Path

import pytest

from tests.snippets import blocks, run_page

ROOT = Path(__file__).parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a snippet may write files
    run_page(page)


def write(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def test_blocks_share_a_namespace_in_order(tmp_path):
    text = (
        "```python\nx = 1\n```\n\n```console\nmake x\n```\n"
        "- list\n\n  ```python\n  y = x + 1\n\n  assert y == 2\n  ```\n"
    )
    assert [code for _, code in blocks(text)] == ["x = 1\n", "y = x + 1\n\nassert y == 2\n"]
    assert run_page(write(tmp_path, text)) == 2


def test_an_error_points_at_the_line_of_the_page(tmp_path):
    page = write(tmp_path, "# Title\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 5


def test_a_session_must_answer_what_the_page_shows(tmp_path):
    assert run_page(write(tmp_path, "```python\n>>> x = 2\n>>> x\n2\n```\n```python\nassert x == 2\n```\n")) == 2
    with pytest.raises(AssertionError, match="Got:\n    2"):
        run_page(write(tmp_path, "```python\n>>> 1 + 1\n3\n```\n"))
