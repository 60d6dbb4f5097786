"""The C++ of the pages compiles, every block of it, as a reader would type it.

A block is a file of its own, or, where it has no function and no namespace, the inside of main() behind its includes.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from program import ROOT

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks():
    """(page, line of its first line, text) of each."""
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```(?:cpp|c\+\+)\n(.*?)^```", text, re.S | re.M):
            yield page.name, text[: match.start()].count("\n") + 2, match[1]


def as_file(page, line, text):
    if "namespace" in text or "int main" in text:
        return f'#line {line} "{page}"\n{text}'
    lines = [(line + i, words) for i, words in enumerate(text.splitlines())]
    includes = [words for _, words in lines if words.startswith("#include")]
    rest = [f'#line {at} "{page}"\n{words}' for at, words in lines if words and not words.startswith("#include")]
    return "\n".join(["#include <cstdint>", *includes, "int main() {", *rest, "}"]) + "\n"


def torch_folders():
    found = importlib.util.find_spec("torch")
    if found is None:
        pytest.skip("a block that needs torch, which this Python has not")
    include = pathlib.Path(found.origin).parent / "include"
    return [include, include / "torch/csrc/api/include"]


def test_there_are_blocks():
    assert {"quickstart.md", "add-a-model.md"} <= {page for page, _, _ in blocks()}


@pytest.mark.parametrize("page, line, text", list(blocks()), ids=lambda value: str(value).split("\n")[0][:40])
def test_a_block_compiles(page, line, text, tmp_path):
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    needs_torch = re.search(r"lacuna/(torch|nn|train|measure)/", text)
    (tmp_path / "block.cpp").write_text(as_file(page, line, text))
    folders = [word for folder in (torch_folders() if needs_torch else []) for word in ("-isystem", folder)]
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-I", ROOT, *folders, tmp_path / "block.cpp"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:3000]
