"""The types of lacuna._core, for checkers and editors: python/lacuna/_core.pyi, made from the built module.

python python/core/stubs.py      # after a change to what python/core binds; a test compares

What crosses as an object of Python's own (arrays, what JSON becomes) is Any: the package gives those their types.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "lacuna"
ERRORS = "class Error(RuntimeError): ...\n\nclass UsageError(Error, ValueError): ...\n"


def make_stub() -> str:
    from nanobind.stubgen import StubGen

    module = importlib.import_module("lacuna._core")
    generator = StubGen(module)
    generator.put(module)
    text = generator.get()
    text = re.sub(r"^from lacuna import .*$", ERRORS, text, flags=re.M)  # they are defined here, and shown there
    text = re.sub(r"-> object:", "-> Any:", text)
    text = re.sub(r": object( \| None)?(?=[,)])", ": Any", text)
    text = re.sub(r"Annotated\[NDArray, .*?\)\]", "NDArray", text)
    text = text.replace("from typing import Annotated", "from typing import Any")
    text = re.sub(r"-> (tuple|list):", r"-> \1[Any, ...]:", text).replace("list[Any, ...]", "list[Any]")
    return re.sub(r"\n{3,}", "\n\n", text).replace("lacuna._core.", "").rstrip() + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(PACKAGE.parent))
    (PACKAGE / "_core.pyi").write_text(make_stub())
