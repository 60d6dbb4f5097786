"""A flipped byte in each kind of file of a recording and of what is made from it, trained on each rung: never silent.

A training on a damaged copy names the file and stops, or it ends in the very weights and scores of one on the whole copy,
because the byte is not served. Bytes that are served have to stop it."""

import json
import os
import random
import re
import shutil

import numpy as np
import pytest
from checkpoint_files import tensors
from program import has_torch, lacuna, succeed
from seeds import seed_of

os.environ.setdefault("OMP_NUM_THREADS", "1")
STORES = {"disk:bf16": "bf16", "disk:f32": "f32", "disk:chunks": "chunks", "ram:chunks": "chunks"}
RUNGS = ["ram:u8", "ram:bf16", "ram:f32", "ram:chunks", "disk:u8", "disk:bf16", "disk:f32", "disk:chunks", "tiered"]
SETTINGS = {
    "recording": "rec", "window.lags": 4, "window.inputs": "[gaze, behavior]", "model.channels": 2, "model.temporal": 1,
    "model.layers": 1, "model.first_kernel": 3, "model.behaviour_width": 2, "train.epochs": 1, "train.batch": 128,
    "train.warmup_steps": 2, "train.device": "cpu", "train.threads": 1, "evaluate.baselines": "false",
    "evaluate.bootstrap": 0, "tiered.hot": 120_000,  # one of two sessions: its frames are 103,680 bytes
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`rec`, derived from `source` (most of its fields stay there), with a split, and stores of its frames."""
    if not has_torch():
        pytest.skip("built without torch")
    folder = tmp_path_factory.mktemp("flips")
    succeed("generate", "recording", folder / "source", "--sessions", 2, "--minutes", 0.1, "--side", 17, "--units", 3,
            "--seed", 5)
    (folder / "gaze.yaml").write_text("transforms:\n  gaze: {from: behavior, ops: [{columns: {take: [0, 1]}}, symlog]}\n"
                                      "  stim: {from: stim, ops: [{crop: {y: 2, x: 2, height: 12, width: 12}}]}\n")
    succeed("transform", "source", "rec", "--config", "gaze.yaml", cwd=folder)
    succeed("split", folder / "rec", "--name", "trials", "--seed", 1)
    for form in ("bf16", "f32", "chunks"):
        succeed("prepare", "rec", "--rung", f"disk:{form}", "--out", form, cwd=folder)
    (folder / "config.yaml").write_text("recording: rec\n")
    return folder


def train(folder, rung):
    """(the finished process, all bytes of the weights and scores that it gave)"""
    settings = {**SETTINGS, "rung": rung, **({"store": STORES[rung]} if rung in STORES else {})}
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    done = lacuna("train", "config.yaml", "--out", out, *(word for item in settings.items() for word in
                                                        ("--set", "=".join(map(str, item)))), cwd=folder)
    if done.returncode != 0:
        return done, None
    found = tensors(out / "checkpoints" / "last.safetensors")
    evaluation = json.loads((out / "recording_evaluation.json").read_text())
    return done, {name: value.tobytes() for name, value in found.items()} | {"scores": json.dumps(evaluation["parts"])}


@pytest.fixture(scope="module")
def references(folder):
    """What a training on each rung gives where nothing is damaged."""
    found = {}
    for rung in RUNGS:
        done, found[rung] = train(folder, rung)
        assert done.returncode == 0, (rung, done.stderr)
    return found


def kinds(folder, rung):
    """One file of each kind that a training on this rung could read: {kind: path}."""
    store = folder / STORES[rung] if rung in STORES else None
    files = {}
    for base in filter(None, (folder / "rec", folder / "source", store)):
        for path in sorted(path for path in base.rglob("*") if path.is_file()):
            kind = (base.name, re.sub(r"^.*/c/.*$", "shard", str(path.relative_to(base))).split("/")[-1],
                    "manifest of a session" if path.name == "manifest.json" and path.parent != base else "")
            files.setdefault(kind, path)
    return files


def flip(path, place, bit):
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("rung", RUNGS)
def test_never_silent(folder, references, rung):
    chance = random.Random(seed_of(f"flips {rung}"))
    files = kinds(folder, rung)
    frames = [path for kind, path in files.items()
              if kind[0] != "source" and kind[1].startswith(("stim.", "manifest", "shard", "zarr"))]
    # Fields beside the movie are read by the same code on every rung: a few of them on each, all of them on all together.
    others = sorted(path for path in files.values() if path not in frames)[RUNGS.index(rung) :: len(RUNGS)]
    for path in frames + others:
        place, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        whole = path.read_bytes()
        flip(path, place, bit)
        done, found = train(folder, rung)
        path.write_bytes(whole)
        words = (path.relative_to(folder), place, bit, done.stderr)
        if found is None:
            *notes, error = done.stderr.splitlines()
            assert done.returncode == 1 and error.startswith("error: ") and all(n.startswith("note: ") for n in notes), words
            assert str(path.parent.relative_to(folder)) in done.stderr or path.parent.parent.name in done.stderr, words
        else:
            assert found == references[rung], words


# Of which file a byte is served on which rung: a flip in the middle of it has to stop the training.
SERVED = [("rec/{}/images/stim.npy", ["ram:u8", "ram:bf16", "ram:f32", "disk:u8", "tiered"]),
          ("bf16/{}/images/stim.npy", ["disk:bf16"]), ("f32/{}/images/stim.npy", ["disk:f32"]),
          ("chunks/{}/images/stim.zarr/c/0/0/0", ["disk:chunks", "ram:chunks"]),
          ("source/{}/images/robs.npy", RUNGS[:2]), ("source/{}/images/dfs.npy", RUNGS[2:4]),
          ("source/{}/images/behavior.npy", RUNGS[4:6]), ("rec/{}/images/gaze.npy", RUNGS[6:8]),
          ("source/{}/images/trial.npy", RUNGS[8:]), ("source/{}/images/time.npy", RUNGS[:1]),
          ("source/{}/images/tracked.npy", RUNGS[1:2]), ("rec/splits/trials.npy", RUNGS[2:3])]


@pytest.mark.parametrize("rung", RUNGS)
def test_what_is_served_stops_it(folder, references, rung):
    for pattern, rungs in SERVED:
        if rung not in rungs:
            continue
        path = folder / pattern.format("m1_000")
        whole = path.read_bytes()
        flip(path, served_byte(folder, path), 2)
        done, found = train(folder, rung)
        path.write_bytes(whole)
        assert found is None and done.returncode == 1, (pattern, "was trained on in silence")
        assert str(path.relative_to(folder)) in done.stderr, done.stderr


def served_byte(folder, path):
    """A byte of a row in the middle of a training trial of m1_000/images (of a shard: one of a packed chunk)."""
    if path.suffix != ".npy":
        return path.stat().st_size // 3
    covered = json.loads((folder / "rec/manifest.json").read_text())["splits"][0]["segments"]
    first = [one["session"] + "/" + one["segment"] for one in covered].index("m1_000/images")
    begin = sum(one["frames"] for one in covered[:first])
    training = np.flatnonzero(np.load(folder / "rec/splits/trials.npy")[begin : begin + covered[first]["frames"]] == 0)
    row = int(training[len(training) // 2]) + (begin if path.parent.name == "splits" else 0)
    rows = np.load(path, mmap_mode="r")
    return path.stat().st_size - rows.nbytes + row * (rows.nbytes // len(rows))
