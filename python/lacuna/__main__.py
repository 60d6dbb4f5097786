"""The command `lacuna`, and ``python -m lacuna``: becomes the program that was installed with the package, or, where torchrun
or srun have started several, one rank of it (_ranks.py)."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path


def program() -> Path:
    """Where the program lies: inside the installed package, in the build tree of a checkout, or under the prefix of `make install`."""
    package = Path(__file__).resolve().parent
    places = [package / "bin" / "lacuna", package.parent.parent / "build" / "lacuna"]
    places += [prefix / "bin" / "lacuna" for prefix in package.parents[2:4]]  # PREFIX/lib/python3.11/site-packages/lacuna
    if library := os.environ.get("LACUNA_LIBRARY"):
        path = Path(library)
        places.insert(0, (path if path.is_dir() else path.parent) / "lacuna")
    if found := next((place for place in places if place.is_file()), None):
        return found
    raise SystemExit(f"error: the program lacuna is in none of {', '.join(str(p.parent) for p in places)}; `make build`")


def environment() -> dict[str, str]:
    """That of this process, with this Python for what needs one, torch's version, and torch's folder on the library path:
    torch may lie in another site-packages than the package. torch is not imported, which takes seconds."""
    known = dict(os.environ)
    known.setdefault("LACUNA_PYTHON", sys.executable)
    torch = importlib.util.find_spec("torch")
    known["LACUNA_TORCH_VERSION"] = ""
    if torch is not None and torch.origin is not None:
        folder = Path(torch.origin).parent
        known["LD_LIBRARY_PATH"] = ":".join(filter(None, [known.get("LD_LIBRARY_PATH", ""), str(folder / "lib")]))
        version = re.search(r"^__version__ = ['\"](.+)['\"]", (folder / "version.py").read_text(), re.MULTILINE)
        known["LACUNA_TORCH_VERSION"] = version[1] if version else "of an unknown version"
    return known


def main() -> None:
    if os.environ.get("WORLD_SIZE", "1") != "1" or os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        from lacuna._ranks import Place, run  # the command runs this file without its package

        if place := Place.of(os.environ):
            run(place, sys.argv[1:])
    os.execve(program(), ["lacuna", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
