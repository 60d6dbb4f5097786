"""The command `lacuna`, and ``python -m lacuna``: becomes the program that was installed with the package."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def program() -> Path:
    """Where the program lies: beside the package's library, or in the build tree of a checkout."""
    package = Path(__file__).resolve().parent
    places = [package / "bin" / "lacuna", package.parent.parent / "build" / "lacuna"]
    if found := next((place for place in places if place.is_file()), None):
        return found
    raise SystemExit(f"error: the program lacuna is in none of {', '.join(str(p.parent) for p in places)}; `make build`")


def main() -> None:
    path = program()
    environment = dict(os.environ, LACUNA_PYTHON=os.environ.get("LACUNA_PYTHON", sys.executable))
    torch = importlib.util.find_spec("torch")  # which may lie in another folder than the package
    if torch is not None and torch.origin is not None:
        folders = [str(Path(torch.origin).parent / "lib"), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    os.execve(path, ["lacuna", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
