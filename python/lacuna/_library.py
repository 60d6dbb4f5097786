"""Finds liblacuna_torch.so and hands it to torch; from then on torch.ops.lacuna holds the operators."""

from __future__ import annotations

import os
import sys
from pathlib import Path

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        f"lacuna needs torch, which {sys.executable} has not; `{sys.executable} -m pip install torch`, of the minor version "
        "that this lacuna was built for"
    ) from error

_NAME = "liblacuna_torch.so"


def candidates() -> list[Path]:
    """Where the library may lie: LACUNA_LIBRARY alone if it is set, else an installation, else the build tree."""
    if chosen := os.environ.get("LACUNA_LIBRARY"):
        path = Path(chosen)
        return [path / _NAME if path.is_dir() else path]
    package = Path(__file__).resolve().parent
    prefixes = [p for p in package.parents if (p / "bin").is_dir()] + [Path(sys.prefix)]
    installed = [prefix / lib / _NAME for prefix in prefixes for lib in ("lib", "lib64", "lib/x86_64-linux-gnu")]
    return [package / "lib" / _NAME, package / _NAME, *installed, package.parent.parent / "build" / _NAME]


def load() -> Path:
    """Loads the library once and returns its path; ImportError says what to do where that fails."""
    tried = candidates()
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        places = ", ".join(dict.fromkeys(str(path.parent) for path in tried))
        raise ImportError(
            f"lacuna: {_NAME} is in none of {places}; build it with `make`, "
            f"or set LACUNA_LIBRARY to the library or its folder"
        )
    check_torch(found)
    try:
        torch.ops.load_library(str(found))
    except OSError as error:
        raise ImportError(
            f"lacuna: {found} does not load into torch {torch.__version__}: {error}; "
            f"build it against this torch (`make PYTHON={sys.executable}`)"
        ) from error
    return found


def check_torch(library: Path) -> None:
    """ImportError where the library was built for another minor version of torch: it would fail on some symbol."""
    note = library.resolve().parent / "built_for_torch"
    built = note.read_text().strip() if note.is_file() else ""
    if built and _minor(built) != _minor(torch.__version__):
        raise ImportError(
            f"lacuna: {library} was built for torch {_minor(built)}, but this is torch {torch.__version__}; install the "
            f"lacuna that was built for it (`{sys.executable} -m pip install --force-reinstall --no-deps SOURCE` builds one)"
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def version() -> str:
    """Of the library that was loaded."""
    return torch.ops.lacuna.version()


def has_cuda() -> bool:
    """Whether the library was built with its CUDA half."""
    return torch.ops.lacuna.has_cuda()
