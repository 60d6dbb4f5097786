"""Runs the program that was built: LACUNA_PROGRAM, or build/lacuna of this checkout."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("LACUNA_PROGRAM", ROOT / "build" / "lacuna"))


def lacuna(*arguments, before=(), **options):
    """The finished process. `before`: words in front of the program, such as `setpriv ...`."""
    if not PROGRAM.exists():
        pytest.skip(f"no program at {PROGRAM}; run `make build`")
    command = [*before, PROGRAM, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)


def succeed(*arguments, **options):
    """What it prints when all goes well."""
    done = lacuna(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(*arguments, code=1, **options):
    """The message of a failure: one line on stderr, the right exit code, nothing that looks like a crash."""
    done = lacuna(*arguments, **options)
    lines = done.stderr.splitlines()
    assert done.returncode == code, (done.returncode, done.stderr)
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    assert "terminate" not in done.stderr and "Sanitizer" not in done.stderr
    return lines[0]
