"""Trainings on tiny screens: their config, their command, and what a run's files say."""

import json
import os

import numpy as np
import pytest
from checkpoint_files import tensors
from program import accept_file, lacuna, succeed, together

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: a second thread only waits

TINY = {
    "split": "random",
    "model.width": 8,
    "model.layers": 1,
    "model.dropout": 0.2,
    "train.epochs": 4,
    "train.batch": 8,
    "train.lr": 3e-3,
    "train.warmup_steps": 5,
    "train.log_every": 1,
    "evaluate.baselines": "false",
    "evaluate.bootstrap": 0,
}


def make_tables(folder, name, change=None):
    """Twelve genes, a hundred samples, two labels with missing values, columns of weights, a split. `change` gets the
    rows before they are written."""
    rng = np.random.default_rng(3)
    genes = [f"g{i}" for i in range(12)]
    edges = sorted({tuple(sorted(rng.choice(12, 2, replace=False))) for _ in range(25)})
    rows = []
    for number in range(100):
        a, b = rng.choice(12, 2, replace=False)
        rows.append({
            "a": genes[a], "b": genes[b],
            "first": round(float(a - b + rng.normal()), 3), "second": round(float(a * b + rng.normal()), 3),
            "weight": round(float(rng.uniform(0.5, 2)), 3), "signed": float(rng.choice([-1, 1])),
            "part": ["train", "train", "train", "validation", "test"][number % 5]})
        if number % 7 == 0:
            rows[-1]["second"] = ""
    if change:
        change(rows)
    source = folder / f"{name}-source"
    source.mkdir()
    (source / "genes.csv").write_text("\n".join(["gene", *genes]) + "\n")
    (source / "edges.csv").write_text("source,target\n" + "".join(f"{genes[a]},{genes[b]}\n" for a, b in edges))
    lines = [",".join(rows[0])] + [",".join(str(value) for value in row.values()) for row in rows]
    (source / "rows.csv").write_text("\n".join(lines) + "\n")
    succeed("import", "screen", folder / name, "--genes", source / "genes.csv",
            "--network", f"physical={source}/edges.csv", "--samples",
            f"{source}/rows.csv,removed=a+b,label=first+second,numbers=weight+signed,split=part")
    (split,) = (folder / name / "splits").glob("*.npy")
    return split.stem


def words(folder, out, screen="screen", tensorboard=False, **changes):
    """The command that starts a run. Keys of `changes` have __ for the dot."""
    config = folder / "empty.yaml"
    if not config.exists():  # another call may be reading it
        config.write_text("{}\n")
    settings = {**TINY, "screen": folder / screen, **{key.replace("__", "."): value for key, value in changes.items()}}
    result = ["train", config, "--out", out]
    for key, value in settings.items():
        result += ["--set", f"{key}={value}"]
    return result + (["--tensorboard"] if tensorboard else [])


def train(folder, out, **changes):
    succeed(*words(folder, out, **changes))
    return out


def train_all(folder, **runs):
    """Several runs at once, {name: changes}."""
    together([words(folder, folder / name, **changes) for name, changes in runs.items()])
    return [folder / name for name in runs]


def error(code, *arguments):
    done = lacuna(*arguments)
    assert done.returncode == code, (done.returncode, done.stderr)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last


def setting(run, section, key):
    """A value of the run's config.yaml, as text."""
    inside = (run / "config.yaml").read_text().split(f"\n{section}:\n")[1].split("\n")
    return next(line.split(":", 1)[1].strip() for line in inside if line.startswith(f"  {key}:"))


def status(run):
    return json.loads((run / "run.json").read_text())["status"]


def lines(run, kind=None):
    """Whole lines of metrics.jsonl; the last may not be complete yet."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    return [line for line in found if kind in (None, line["kind"])]


def weights(run, name="last"):
    return {key: value for key, value in tensors(run / "checkpoints" / f"{name}.safetensors").items()
            if not key.startswith("optimizer.")}


def assert_same_bits(run, other, names=("last", "best_pearson", "best_mse")):
    for name in names:
        a, b = (tensors(path / "checkpoints" / f"{name}.safetensors") for path in (run, other))
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].tobytes() == b[key].tobytes(), (name, key)


def assert_same_story(run, other):
    """No step or epoch is missing or logged twice, and what depends on the weights is the same."""
    for kind, values in (("step", ("step", "epoch", "loss", "lr", "grad_norm")), ("epoch", ("step", "epoch", "validation"))):
        a, b = ([{value: line[value] for value in values} for line in lines(path, kind)] for path in (run, other))
        assert a == b
    for a, b in zip(lines(run, "epoch"), lines(other, "epoch")):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=1e-9)


def change_labels(screen, samples, value):
    path = screen / "samples" / "label.npy"
    labels = np.load(path)
    labels[samples] = value
    np.save(path, labels)
    [label] = json.loads((screen / "manifest.json").read_text())["samples"]["labels"]
    accept_file(screen, "samples/label.npy", f"label {label}")
