"""What an earlier program wrote still opens and gives the same bits: a screen, stores, a run, a stopped one, a comparison.

tests/written_before/make says which program wrote the files and when they may be made anew. Every test works in a copy, and
calls the program inside of it: there the runs find their screen. Where products of matrices take part, another processor may
add in another order: then numbers agree to 1e-5, and the largest difference is printed (pytest -s); on the processor that
made them it is 0.
"""

import csv
import importlib.machinery
import importlib.util
import json
import math
import os
import pathlib
import shutil

import numpy as np
import pytest
from checkpoint_files import tensors
from program import TORCH_PROGRAM, fail, succeed

WRITTEN = pathlib.Path(__file__).resolve().parent / "written_before"
NEAR = 1e-5
# Of the baselines these know no product of matrices: their bits are the same everywhere.
EXACT = ["mean", "gene", "pair", "ridge", "ridge_pairs"]
with_torch = pytest.mark.skipif(not TORCH_PROGRAM.exists(), reason="this build has no torch")


def load_make():
    loader = importlib.machinery.SourceFileLoader("make_written_before", str(WRITTEN / "make"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


make = load_make()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of everything, in which the program is called; one thread on the CPU, as when it was written."""
    place = tmp_path / "copy"
    shutil.copytree(WRITTEN, place, ignore=shutil.ignore_patterns("make", "__pycache__"))
    for path in [place, *place.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # of a checkout that may only be read
    monkeypatch.chdir(place)
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, make.ENVIRONMENT[name])
    return place


def bytes_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_near(found, expected, what):
    """Numbers, or trees of them; where they are none they are equal."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), what
        for key in expected:
            assert_near(found[key], expected[key], f"{what}: {key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), what
        for i, value in enumerate(expected):
            assert_near(found[i], value, f"{what}[{i}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=NEAR, abs_tol=NEAR), (what, found, expected)
    else:
        assert found == expected, what


def as_before(found, expected):
    """What was said before: an evaluation may come to tell more, of other baselines too."""
    if not isinstance(expected, dict):
        return [name for name in found if name in expected] if isinstance(expected, list) and "model" in expected else found
    return {key: as_before(value, expected[key]) for key, value in found.items() if key in expected}


def story(path):
    """The lines of metrics.jsonl without what a clock says."""
    timed = ("seconds", "samples_per_s", "checksum")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in timed} for line in lines]


# ---- screens and stores
@pytest.mark.parametrize("name", ["screen", "run", "stopped", *map(make.store_of, make.RUNGS)])
def test_info_says_what_it_said(folder, name):
    assert succeed("info", name) == pathlib.Path(f"expected/info-{name}.txt").read_text()


def test_every_byte_of_the_screen_is_accepted(folder):
    succeed("info", "screen", "--check")
    label = folder / "screen/samples/label.npy"
    label.write_bytes(label.read_bytes()[:-1] + b"?")
    assert "label.npy" in fail("info", "screen", "--check")


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def assert_same_contents(anew, kept):
    """Every file but the manifest, which may come to tell more; what it says of the files and what they mean."""
    a, b = bytes_in(anew), bytes_in(kept)
    told, told_before = (json.loads(files.pop("manifest.json")) for files in (a, b))
    if a.pop("nodes/gene.aliases.txt", None):  # aliases of a table were not kept then
        del told["files"]["nodes/gene.aliases.txt"]
    assert a == b
    for member in ("files", "fingerprint"):
        assert told.get(member) == told_before.get(member)


def test_the_same_tables_and_seeds_make_the_same_screen_and_stores(folder):
    kept = folder.rename(folder.with_name("kept"))
    folder.mkdir()
    os.chdir(folder)
    shutil.copytree(kept / "tables", "tables")
    shutil.copy(kept / "few.json", "few.json")
    make.make_screen()
    make.make_stores()
    for name in ("screen", *map(make.store_of, make.RUNGS)):
        assert_same_contents(folder / name, kept / name)
    splits = zip(manifest(folder / "screen")["splits"], manifest(kept / "screen")["splits"], strict=True)
    for now, then in splits:  # more may be said of how it was drawn
        assert now["name"] == then["name"] and {**now["how"], **then["how"]} == now["how"]


@pytest.mark.parametrize("rung", make.RUNGS)
def test_a_store_is_verified_and_gone_on_with(folder, rung):
    store = make.store_of(rung)
    assert f"{make.FEW} samples" in succeed("verify", store, "--screen", "screen", "--all")
    succeed("prepare", "screen", "--rung", rung, "--out", store)
    assert f"{make.SAMPLES} samples" in succeed("verify", store, "--screen", "screen", "--all")


def train_on(rung, out):
    settings = {"split": "few", "rung": rung, "model.layers": 2, "model.savings": "false", "train.batch": 2, "train.epochs": 1,
                "train.log_every": 1, "evaluate.baselines": "false", "evaluate.bootstrap": 0}  # fmt: skip
    if rung != "kernel":
        settings["store"] = f"/proc/self/cwd/{make.store_of(rung)}"
    words = [word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))]
    succeed("train", "run.yaml", "--out", out, *words)
    weights = tensors(pathlib.Path(out, "checkpoints/last.safetensors"))
    return story(pathlib.Path(out, "metrics.jsonl")), {name: array.tobytes() for name, array in weights.items()}


@with_torch
def test_a_store_trains_to_the_bits_of_no_store(folder):
    told, weights = train_on("kernel", "on-kernel")
    assert [line["kind"] for line in told] == ["step", "step", "epoch"]
    for rung in make.RUNGS:
        assert train_on(rung, "on-" + make.store_of(rung)) == (told, weights), rung


# ---- a run that has ended
@with_torch
def test_a_run_is_evaluated_to_the_same_scores(folder):
    succeed("evaluate", "run", "--out", "again")
    found, expected = (json.loads(pathlib.Path(run, "evaluation.json").read_text()) for run in ("again", "run"))
    assert found["parts"]["test"]["resampled"] == expected["parts"]["test"]["resampled"]
    for member in ("split", "checkpoint", "bootstrap", "parts"):
        assert_near(as_before(found[member], expected[member]), expected[member], member)
    for label, scores in expected["parts"]["test"]["labels"].items():
        for name in EXACT:
            now, then = ({key: value for key, value in each["baselines"][name].items() if key != "difference"}
                         for each in (found["parts"]["test"]["labels"][label], scores))  # fmt: skip
            assert now == then, (label, name)


@with_torch
def test_a_run_is_evaluated_to_the_same_predictions(folder):
    succeed("evaluate", "run", "--out", "again")
    kept, anew = (bytes_in(folder / run / "predictions") for run in ("run", "again"))
    assert anew.keys() - kept.keys() == {"test.baseline.network.npy"} and kept.keys() <= anew.keys()
    exact = ["test.sample.npy", "test.measured.npy", *(f"test.baseline.{name}.npy" for name in EXACT)]
    for name in exact:
        assert kept[name] == anew[name], name
    draws, before = (np.load(f"{run}/predictions/test.draws.npy") for run in ("again", "run"))  # [P, rounds, L, 3]
    np.testing.assert_array_equal(draws[1:6], before[1:6])  # those of EXACT, behind the model's
    told = json.loads(pathlib.Path("again/evaluation.json").read_text())["parts"]["test"]["predictors"]
    np.save("again/predictions/test.draws.npy", np.delete(draws, told.index("network"), axis=0))
    for name in kept.keys() - set(exact):
        a, b = (np.load(f"{run}/predictions/{name}") for run in ("again", "run"))
        print(name, "differs by", np.nanmax(np.abs(a - b)))
        np.testing.assert_allclose(a, b, rtol=NEAR, atol=NEAR, err_msg=name)


@with_torch
def test_predictions_and_embeddings_are_the_same(folder):
    succeed("predict", "run", "--samples", "list.txt", "--out", "predicted.csv")
    tables = (list(csv.reader(open(name))) for name in ("predicted.csv", "expected/predicted.csv"))
    (head, *rows), (head_before, *rows_before) = tables
    assert head == head_before and [row[:3] for row in rows] == [row[:3] for row in rows_before]
    found, expected = (np.array([row[3:] for row in each], float) for each in (rows, rows_before))
    print("predictions differ by", np.max(np.abs(found - expected)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=NEAR)
    succeed("export", "run", "--embeddings", "--out", "embeddings.npz")
    found, expected = np.load("embeddings.npz"), np.load("expected/embeddings.npz")
    assert sorted(found) == sorted(expected) and found["gene_names"].tolist() == expected["gene_names"].tolist()
    for name in ("genes", "pooled", "samples"):
        print(name, "differ by", np.max(np.abs(found[name] - expected[name]), initial=0))
        np.testing.assert_allclose(found[name], expected[name], rtol=NEAR, atol=NEAR)


def test_a_report_says_what_it_said(folder):
    """Of files alone, so to the last figure: times, dates and versions are those that the run was written with."""
    succeed("report", "run", "--out", "report.html")
    assert make.words_of((folder / "report.html").read_text()) == (folder / "expected/report.txt").read_text()


# ---- a run that was stopped
def losses(lines):
    """Correlations are left out: of predictions that hardly differ they magnify what rounding does."""
    mse = lambda line: {label: scores["mse"] for label, scores in line.get("validation", {}).items()}
    return [(line["kind"], line["step"], line.get("loss", line.get("train_loss")), mse(line)) for line in lines]


@with_torch
def test_a_stopped_run_goes_on_to_the_same_weights(folder):
    succeed("train", "--resume", "--out", "stopped")
    assert json.loads((folder / "stopped/run.json").read_text())["status"] == "finished"
    names = ["stopped/checkpoints/last.safetensors", "expected/resumed.safetensors"]
    found, expected = (tensors(folder / name) for name in names)
    assert found.keys() == expected.keys()
    differences = {name: np.max(np.abs(found[name] - expected[name]), initial=0) for name in expected}
    largest = max(differences, key=differences.get)
    print("weights differ by", differences[largest], "in", largest)
    told, told_before = story(folder / "stopped/metrics.jsonl"), story(folder / "expected/resumed.jsonl")
    if differences[largest] == 0:  # validation predicts by another way than it did
        assert [(line["step"], line.get("loss")) for line in told] == [(line["step"], line.get("loss")) for line in told_before]
    # A softmax follows: the gradient is what rounding leaves, of which the optimiser makes steps of any size.
    del differences["pool.gate.bias"]
    assert max(differences.values()) <= NEAR, max(differences, key=differences.get)
    assert_near(losses(told), losses(told_before), "metrics.jsonl")


# ---- a comparison
def move_grid(folder):
    """compare.json knows its screen by its place; changed by hand, its checksum goes."""
    path = folder / "compare/compare.json"
    grid = json.loads(path.read_text())
    del grid["checksum"]
    for member in ("screens", "drawn"):
        (contents,) = grid[member].values()
        grid[member] = {str(folder / "screen"): contents}
    path.write_text(json.dumps(grid))


def times_in(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/**/*") if path.is_file()}


@with_torch
def test_a_comparison_is_shown_without_computing(folder):
    move_grid(folder)
    before, times = bytes_in(folder / "compare"), times_in(folder / "compare")
    assert succeed(*make.COMPARE) == (folder / "expected/compare.txt").read_text()
    assert times == times_in(folder / "compare")
    after = bytes_in(folder / "compare")
    assert all(after[name] == before[name] for name in ("summary.csv", "summary.json"))


@with_torch
def test_a_comparison_goes_on_with_another_seed(folder):
    before = times_in(folder / "compare")
    succeed(*make.COMPARE_MORE)
    assert before.items() <= times_in(folder / "compare").items()
    found, expected = (list(csv.DictReader(open(name))) for name in ("compare/summary.csv", "expected/extended.csv"))
    found = [row for row in found if row["predictor"] != "network"]  # which came later
    assert_near([numbers(row) for row in found], [numbers(row) for row in expected], "summary.csv")


def numbers(row):
    def number(text):
        try:
            return float(text)
        except ValueError:
            return text

    return {key: number(value) for key, value in row.items()}


@with_torch
def test_a_comparison_still_knows_its_split(folder):
    move_grid(folder)
    succeed("split", "screen", "--name", "part", "--remove")
    succeed("split", "screen", "--name", "part", "--by", "random", "--seed", 9)
    assert "split 'part'" in fail(*make.COMPARE)
