"""The command `lacuna` of an installed package. It lies outside of it because importing lacuna loads torch, which takes
seconds, and which most calls of the program do not need."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def main() -> None:
    """Becomes the program; ``lacuna/__main__.py`` is run without its package."""
    package = importlib.util.find_spec("lacuna")
    if package is None or package.origin is None:
        raise SystemExit("error: the package lacuna is not there; install it again")
    spec = importlib.util.spec_from_file_location("lacuna_main", Path(package.origin).with_name("__main__.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
