"""What tests of recordings share: a manifest's fields read by NumPy, the command of a training, small disks and little memory."""

import json
import os
import pathlib
import shlex
import subprocess

import numpy as np
import pytest
from program import PROGRAM, succeed


def manifest(recording):
    return json.loads((recording / "manifest.json").read_text())


def fields(recording, session="s", segment="main"):
    """The fields of a segment as the manifest describes them, by name."""
    for entry in manifest(recording)["sessions"]:
        if entry["name"] == session:
            for part in entry["segments"]:
                if part["name"] == segment:
                    return {field["name"]: field for field in part["fields"]}
    raise KeyError((session, segment))


def read(recording, field, session="s", segment="main"):
    """A field's values, whatever it is stored as."""
    described = fields(recording, session, segment)[field]
    stored = np.load(recording / session / segment / f"{field}.npy")
    if described.get("packed"):
        stored = np.unpackbits(stored, axis=1, bitorder="little", count=described["shape"][1])
    return stored


def setting_words(settings):
    """{"train.batch": 8} -> --set train.batch=8"""
    return [word for item in settings.items() for word in ("--set", "=".join(map(str, item)))]


def train_words(recording, out, settings, **changes):
    """The command that starts a run. Keys of `changes` have __ for the dot."""
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    out.parent.mkdir(exist_ok=True)
    empty = out.parent / "empty.yaml"
    empty.write_text(f"recording: {recording}\n")
    return ["train", empty, "--out", out, *setting_words({**settings, "recording": recording, **changes})]


def bench_ladder(data, folder, *words, **options):
    """ladder.json of a screen or a recording, and what was printed."""
    file = folder / "ladder.json"
    out = succeed("bench", "ladder", data, "--out", folder, "--json", file, *words, **options)
    assert [path.name for path in folder.iterdir()] == ["ladder.json"], "something was left behind"
    return json.loads(file.read_text()), out


def on_a_small_disk(disk, megabytes, *words):
    """The message of a call with a folder of so much room mounted at `disk`, in which nothing may be left."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    disk.mkdir()
    command = " ".join(shlex.quote(str(word)) for word in (PROGRAM, *words))
    script = f"mount -t tmpfs -o size={megabytes}m none {disk} && {command}; echo code $?; ls -A {disk}"
    done = subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True, text=True)
    if "code" not in done.stdout or "mount:" in done.stderr:
        pytest.skip("cannot mount here")
    assert done.stdout.split() == ["code", "1"], done
    return done.stderr


def make_cgroup(megabytes, number=0):
    """A new control group with so much memory; None where none can be made."""
    for folder, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        group = pathlib.Path(folder) / f"lacuna-test-{os.getpid()}-{number}"
        try:
            group.mkdir()
            if not (group / limit).exists():  # an ordinary folder: no control groups are mounted there
                raise OSError
            (group / limit).write_text(str(megabytes << 20))
            return group
        except OSError:
            if group.exists():
                group.rmdir()
    return None
