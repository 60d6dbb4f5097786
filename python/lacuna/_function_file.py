"""Functions as FILE.py:FUNCTION, which the program calls in a process of its own."""

from __future__ import annotations

import builtins
import inspect
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from . import _core


def named_functions(config, folder: Path):
    """The same config with a name for every function. One of a file is named there; one of a notebook is written into
    ``folder`` first, which stays: the program compares it later."""
    if isinstance(config, Mapping):
        return {key: named_functions(value, folder) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [named_functions(value, folder) for value in config]
    return _named(config, folder) if callable(config) else config


def _named(function: Callable, folder: Path) -> str:
    name = getattr(function, "__name__", "")
    if not inspect.isfunction(function) or function.__qualname__ != name or not name.isidentifier():
        raise _core.UsageError(f"transform: {function!r} is not a plain function with a name; write it as one, with def")
    file = inspect.getsourcefile(function)
    if file is not None and Path(file).is_file() and "ipykernel_" not in file:
        return f"{Path(file).resolve()}:{name}"
    text = _whole_source(function, name)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{name}.py"
    if not written.exists() or written.read_text() != text:
        written.write_text(text)
    return f"{written.resolve()}:{name}"


def _whole_source(function: Callable, name: str) -> str:
    """Its source, and the imports that it takes from the notebook."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise _core.UsageError(f"transform: the source of {name}() is nowhere; write it into a file") from error
    imports, missing = [], list(function.__code__.co_freevars)
    for used in inspect.getclosurevars(function).globals.items():
        word, value = used
        if isinstance(value, ModuleType):
            imports.append(f"import {value.__name__} as {word}\n")
        elif not hasattr(builtins, word):
            missing.append(word)
    if missing:
        raise _core.UsageError(
            f"transform: {name}() uses {', '.join(missing)} of the notebook, which is not there in the process that calls it; "
            "define it inside the function, or write both into a file"
        )
    return "".join(sorted(imports)) + "\n\n" + source
