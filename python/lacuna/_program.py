"""Calls of the program `lacuna`, for what it does as a whole: its words, its progress, its errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from . import _core
from .__main__ import environment, program
from ._progress import Progress


def call(*words: object, show: bool = True, live: bool = False) -> str:
    """Runs ``lacuna WORDS...`` and returns what it printed. Its notes go to stderr while it runs, its progress becomes a
    bar where somebody looks; with ``live``, what it prints is shown line by line, too.

    Raises lacuna.UsageError (exit code 2) or lacuna.Error with the program's words. Ctrl-C ends the program as its own
    Ctrl-C does, with nothing half written.
    """
    command = [str(program()), *(os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words)]
    known = {**environment(), "LACUNA_PROGRESS": "lines"}
    printed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known) as done:
        reader = threading.Thread(target=_read, args=(done.stdout, printed, show and live), daemon=True)
        try:
            reader.start()  # both pipes are read at once: one that is full would hold the program up
            error, said = _follow(done.stderr, show)
            code = done.wait()
        except BaseException:
            done.terminate()
            done.wait()
            raise
        finally:
            if reader.ident is not None:  # it has begun
                reader.join()
    if code == 0:
        return "".join(printed)
    kind = _core.UsageError if code == 2 else _core.Error
    raise kind(error or f"`lacuna {' '.join(command[1:])}` ended with {code}: {said.strip()[-500:]}")


def _read(lines, printed: list[str], show: bool) -> None:
    for line in lines:
        printed.append(line)
        if show:
            sys.stdout.write(line)
            sys.stdout.flush()


def _follow(lines, show: bool) -> tuple[str, str]:
    """Shows the notes and the progress on stderr; gives the error's words, and all that was said."""
    error, said = "", []
    with Progress() as progress:
        for line in lines:
            if line.startswith("progress: "):
                if show and progress is not None:
                    progress.show(**json.loads(line.removeprefix("progress: ")))
                continue
            said.append(line)
            if line.startswith("error: "):
                error = line.removeprefix("error: ").strip()
            elif show:
                sys.stderr.write(line)
    return error, "".join(said)
