"""The Python of a page runs, block after block, as a reader would type it."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["pyg.md", "python.md"])
def test_code_of_the_page_runs(page):
    text = (DOCS / page).read_text()
    blocks = [(text[: match.start()].count("\n") + 2, match[1]) for match in re.finditer(r"```python\n(.*?)```", text, re.S)]
    assert blocks
    names = {"__name__": page}
    for line, block in blocks:
        exec(compile("\n" * (line - 1) + block, str(DOCS / page), "exec"), names)


def test_module_docstring_runs():
    import lacuna

    exec("\n".join(line[4:] for line in lacuna.__doc__.splitlines() if line.startswith("    ")), {})
