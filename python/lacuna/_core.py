"""The library's own objects (python/core): those of the compiled module, from wherever it lies.

Installed, the compiled module stands in this file's place; this file serves a checkout, where it is in the build tree.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

from ._library import load


def _find() -> Path:
    library = load()
    folders = [library.parent, library.resolve().parent]
    for folder in folders:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            if (path := folder / f"_core{suffix}").is_file():
                return path
    raise ImportError(
        f"lacuna: the part that opens data (_core) is not in {folders[0]}; it is built where Python has nanobind: "
        f"`{sys.executable} -m pip install nanobind`, then `make build PYTHON={sys.executable}`"
    )


_spec = importlib.util.spec_from_file_location(__name__, _find())
sys.modules[__name__] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[__name__])
