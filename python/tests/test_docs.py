"""The Python of a page runs, block after block, as a reader would type it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import lacuna
from lacuna.__main__ import environment, program

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", ["pyg.md", "python.md", "../README.md"])
def test_code_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    blocks = [(text[: match.start()].count("\n") + 2, match[1]) for match in re.finditer(r"```python\n(.*?)```", text, re.S)]
    assert blocks
    names = {"__name__": page}
    for line, block in blocks:
        exec(compile("\n" * (line - 1) + block, str(DOCS / page), "exec"), names)


def test_the_first_commands_of_the_readme_run(tmp_path):
    commands = re.search(r"On the command line:\n\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lacuna").symlink_to(program())
    known = environment() | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", commands], cwd=tmp_path, env=known, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "report.html").exists(), done.stderr


def test_module_docstring_runs():
    exec("\n".join(line[4:] for line in lacuna.__doc__.splitlines() if line.startswith("    ")), {})
