"""Calls of the program `lacuna`, for what it does as a whole: its words, its progress, its errors."""

from __future__ import annotations

import os
import subprocess
import sys

from . import _core
from .__main__ import environment, program


def call(*words: object, show: bool = True) -> str:
    """Runs ``lacuna WORDS...`` and returns what it printed. Its progress and notes go to stderr while it runs.

    Raises lacuna.UsageError (exit code 2) or lacuna.Error with the program's words.
    """
    command = [str(program()), *(os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words)]
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert done.stdout is not None and done.stderr is not None
    said, error = [], ""
    try:
        for line in done.stderr:
            if line.startswith("error: "):
                error = line.removeprefix("error: ").strip()
            elif show:
                sys.stderr.write(line)
            said.append(line)
        out = done.stdout.read()
        code = done.wait()
    except BaseException:
        done.terminate()  # Ctrl-C: the program stops as after its own, with nothing half written
        done.wait()
        raise
    if code == 0:
        return out
    kind = _core.UsageError if code == 2 else _core.Error
    raise kind(error or f"`lacuna {' '.join(command[1:])}` ended with {code}: {''.join(said).strip()[-500:]}")
