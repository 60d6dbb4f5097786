"""Runs the program that was built: LACUNA_PROGRAM, or build/lacuna of this checkout."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("LACUNA_PROGRAM", ROOT / "build" / "lacuna"))
BUILD = PROGRAM.parent  # where the other programs of the same build lie
os.environ.setdefault("LACUNA_PYTHON", sys.executable)  # what the program starts: python3 may have no packages
TORCH_PROGRAM = BUILD / "lacuna-torch"  # what it becomes where a call needs torch; not there in a build without torch


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


def together(calls, run=succeed):
    """The results of several calls, lists of arguments; as many run at once as there are cores."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda arguments: run(*arguments), calls))


def fail(*arguments, code=1, **options):
    """The message of a failure: one line on stderr, the right exit code, nothing that looks like a crash."""
    done = lacuna(*arguments, **options)
    lines = done.stderr.splitlines()
    assert done.returncode == code, (done.returncode, done.stderr)
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    assert "terminate" not in done.stderr and "Sanitizer" not in done.stderr
    return lines[0]


def has_torch():
    """Whether the program was built with torch."""
    return "needs torch, which this build has not" not in lacuna("--help").stdout


def new_screen(screen, *options, size="tiny", seed=1):
    """A synthetic screen with a split `random`; gives its path back."""
    succeed("generate", "screen", screen, "--size", size, "--seed", seed, *options)
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", 1)
    return screen


def write_config(folder, model, train=""):
    """A new screen in `folder`, and the config of a training on it."""
    if not has_torch():
        pytest.skip("a build without torch")
    path = folder / "config.yaml"
    path.write_text(f"screen: {new_screen(folder / 'screen')}\nmodel: {{name: hetero_gin, {model}}}\n"
                    f"train: {{device: cpu{train}}}\n")
    return path


def edit_manifest(directory, change):
    """Changes the manifest of a screen or a store on purpose: without its checksum it opens, as not checked."""
    path = pathlib.Path(directory) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest.pop("checksum", None)
    change(manifest)
    path.write_text(json.dumps(manifest))


def accept_file(screen, file, *parts):
    """A file was changed on purpose: its checksum, and that of these parts of the fingerprint which are hashes of its data
    (names of nodes; the one label), become those of what lies there."""
    xxhash = pytest.importorskip("xxhash")
    path = pathlib.Path(screen) / file
    data = numpy.load(path).tobytes() if path.suffix == ".npy" else path.read_bytes()

    def accept(manifest):
        manifest["files"][file]["xxh3"] = xxhash.xxh3_64_hexdigest(path.read_bytes())
        for part in parts:
            assert part in manifest["fingerprint"]
            manifest["fingerprint"][part] = xxhash.xxh3_64_hexdigest(data)

    edit_manifest(screen, accept)


class Started:
    """The program in the background, to be watched and disturbed; nice, so that it does not outrun the test.

    What it is doing is read from its files, never guessed from a clock: a machine may be slow or busy. `is_nice` is false
    for programs that run long enough without it.
    """

    def __init__(self, *arguments, is_nice=True, **options):
        words = [*(["nice", "-n", "10"] if is_nice else []), PROGRAM, *arguments]  # one process: nice becomes the program
        self.process = subprocess.Popen([str(word) for word in words], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **options)

    def wait_for(self, condition):
        """False when the process ended before."""
        deadline = time.monotonic() + 280
        while not condition():
            if self.process.poll() is not None:
                return condition()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        return True

    def end(self, number):
        """Sends a signal, and waits for the exit code."""
        self.process.send_signal(number)
        self.output, self.errors = self.process.communicate(timeout=280)
        return self.process.returncode
