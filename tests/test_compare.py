"""`lacuna compare` and what every run says of the baselines, against NumPy and across kills and signals."""

import csv
import functools
import json
import os
import random
import signal

import numpy as np
import pytest
import program
from program import Started, lacuna
from seeds import seed_of

CONFIG = """
screen: {screen}
model: {{name: hetero_gin, width: 8, layers: 1, output: global, dropout: 0}}
train: {{epochs: 2, batch: 32, warmup_steps: 0, device: cpu}}
evaluate: {{bootstrap: 50}}
"""
# Tiny work: a second thread only waits, and beside other programs it waits long.
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}
succeed = functools.partial(program.succeed, env=ALONE)
fail = functools.partial(program.fail, env=ALONE)
STRENGTHS = [10000, 3000, 1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    screen = folder / "screen"
    succeed("generate", "screen", screen, "--size", "tiny", "--samples", 400, "--seed", 1)
    for by in ("random", "pair"):
        succeed("split", screen, "--name", by, "--by", by, "--seed", 1)
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(screen=screen))
    done = lacuna("train", "--help")
    if "needs torch" in done.stdout + done.stderr:
        pytest.skip("this build has no torch")
    return path


@pytest.fixture(scope="module")
def compared(config, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared") / "out"
    words = ["compare", config, "--seeds", 2, "--splits", "random,pair", "--vary", "train.lr=1e-3,3e-3", "--out", out]
    return out, words, succeed(*words)


def evaluation(run):
    return json.loads((run / "evaluation.json").read_text())


def test_every_combination_is_a_run(compared):
    out, words, text = compared
    runs = {path.name for path in out.iterdir() if path.is_dir()}
    assert runs == {
        f"{split}_train.lr={lr}_seed={seed}" for split in ("random", "pair") for lr in ("1e-3", "3e-3") for seed in (1, 2)
    }
    for run in runs:
        assert evaluation(out / run)["split"] == run.split("_")[0]
    assert "8 of 8 runs are finished" in text


def test_the_summary_is_the_spread_over_seeds(compared):
    out, _, text = compared
    with open(out / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["predictor"] for row in rows} == {"model", "mean", "gene", "pair", "ridge", "ridge_pairs", "network",
                                                  "mlp"}
    for row in rows:
        values = []
        for seed in (1, 2):
            label = evaluation(out / f"{row['split']}_train.lr={row['train.lr']}_seed={seed}")
            label = label["parts"][row["part"]]["labels"][row["label"]]
            scores = label["model"] if row["predictor"] == "model" else label["baselines"][row["predictor"]]
            if scores[row["metric"]] is not None:
                values.append(scores[row["metric"]])
        assert int(row["runs"]) == len(values)
        if values:
            expected = [np.mean(values), np.std(values, ddof=1), min(values), max(values)]
            found = [float(row[key]) for key in ("mean", "sd", "min", "max")]
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
            if row["predictor"] not in ("model", "mlp"):
                assert float(row["sd"]) == 0
    assert {row["predictor"] for row in rows} <= set(text.split())


def test_nothing_is_run_twice(compared):
    out, words, _ = compared
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/*.json")}
    text = succeed(*words)
    assert "8 of 8 runs are finished" in text and "run 1/8" not in text
    assert times == {path: path.stat().st_mtime_ns for path in out.glob("*/*.json")}


def ranks(values):
    order = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(order[2])
    return (ends - (order[2] - 1) / 2)[order[1]]


def test_scores_are_those_of_the_stored_predictions(compared):
    run = compared[0] / "pair_train.lr=1e-3_seed=2"
    for part, scores in evaluation(run)["parts"].items():
        predicted = np.load(run / f"predictions/{part}.predicted.npy")[:, 0].astype(float)
        measured = np.load(run / f"predictions/{part}.measured.npy")[:, 0].astype(float)
        model = scores["labels"]["gene_interaction"]["model"]
        assert model["count"] == scores["samples"] == len(measured)
        assert model["mse"] == pytest.approx(np.mean((predicted - measured) ** 2))
        assert model["pearson"] == pytest.approx(np.corrcoef(predicted, measured)[0, 1])
        assert model["spearman"] == pytest.approx(np.corrcoef(ranks(predicted), ranks(measured))[0, 1])


def test_intervals_hold_the_scores(compared):
    """Of the random split: those of a few held-out pairs need not."""
    run = compared[0] / "random_train.lr=1e-3_seed=2"
    for scores in evaluation(run)["parts"].values():
        model = scores["labels"]["gene_interaction"]["model"]
        for metric, (low, high) in model["interval"].items():
            assert low < model[metric] < high


def closed_form_ridge(screen, split, part):
    """MSE on a part of the ridge on genes whose strength is best on validation, by dense normal equations."""
    removed, ptr = np.load(screen / "samples/removed.npy"), np.load(screen / "samples/ptr.npy")
    labels, parts = np.load(screen / "samples/label.npy").astype(float), np.load(screen / f"splits/{split}.npy")
    x = np.zeros((len(labels), int(removed.max()) + 2))
    x[:, -1] = 1
    for sample in range(len(labels)):
        x[sample, removed[ptr[sample] : ptr[sample + 1]]] = 1
    train = parts == 0

    def errors(strength, chosen):
        penalty = np.diag([strength] * (x.shape[1] - 1) + [0])
        weights = np.linalg.solve(x[train].T @ x[train] + penalty, x[train].T @ labels[train])
        return np.mean((x[parts == chosen] @ weights - labels[parts == chosen]) ** 2)

    best = min(STRENGTHS, key=lambda strength: errors(strength, 1))
    return best, errors(best, part)


@pytest.mark.parametrize("split", ["random", "pair"])
def test_the_ridge_is_the_closed_form(config, compared, split):
    strength, mse = closed_form_ridge(config.parent / "screen", split, 2)
    labels = evaluation(compared[0] / f"{split}_train.lr=1e-3_seed=1")["parts"]["test"]["labels"]
    ridge = labels["gene_interaction"]["baselines"]["ridge"]
    assert ridge["mse"] == pytest.approx(mse, rel=1e-5)
    assert ridge["note"] == f"strength {strength}, the best of 11 on validation"


def files_in(folder):
    return sum(path.is_file() for path in folder.rglob("*"))


def state_of(run):
    if not (run / "run.json").exists():
        return "nothing"
    return "finished" if json.loads((run / "run.json").read_text())["status"] == "finished" else "begun"


def test_killed_at_any_time_it_ends_with_the_same_scores(config, compared, tmp_path):
    """Killed when so many of its files are there: soon after the start of a run, and three times anywhere."""
    random.seed(seed_of("killed at any time"))
    out = tmp_path / "out"
    words = ["compare", config, "--seeds", 2, "--splits", "random", "--vary", "train.lr=1e-3", "--out", out]
    runs = [f"random_train.lr=1e-3_seed={seed}" for seed in (1, 2)]
    whole = sum(files_in(compared[0] / run) for run in runs)
    states = set()
    for target in [5, *sorted(random.randrange(whole) for _ in range(3))]:
        comparing = Started(*words, env=ALONE)
        assert comparing.wait_for(lambda: files_in(out) >= target)
        comparing.end(signal.SIGKILL)
        states |= {state_of(out / run) for run in runs}
    assert "begun" in states
    succeed(*words)
    for run in runs:
        assert evaluation(out / run)["parts"] == evaluation(compared[0] / run)["parts"]


def test_a_signal_stops_it_and_it_goes_on(config, tmp_path):
    run = tmp_path / "out" / "random_seed=1"
    comparing = Started("compare", config, "--seeds", 1, "--set", "train.epochs=100000", "--out", run.parent,
                        is_nice=False, env=ALONE)  # fmt: skip
    assert comparing.wait_for((run / "metrics.jsonl").exists)
    assert comparing.end(signal.SIGTERM) == 75, comparing.errors
    assert "0 of 1 runs are finished" in comparing.output and "the same command goes on" in comparing.output
    assert json.loads((run / "run.json").read_text())["status"] == "stopped"
    assert (run / "checkpoints/last.safetensors").exists()


@pytest.mark.parametrize(
    "words, code, named",
    [
        (["--splits", "gene"], 1, "--name gene --by gene --seed 1"),
        (["--vary", "train.lrr=1,2"], 2, "train.lrr"),
        (["--vary", "model.name=mlp,gnn"], 2, "gnn"),
        (["--vary", "model.name=mlp,dango", "--vary", "model.layers=1,2"], 2, "model.layers"),
        (["--vary", "train.lr"], 2, "key=value"),
        (["--vary", "split=random,pair"], 2, "--splits"),
        (["--set", "train.seed=4"], 2, "--seeds"),
        (["--seeds", "0"], 2, "--seeds"),
    ],
)
def test_errors_name_the_culprit(config, tmp_path, words, code, named):
    assert named in fail("compare", config, "--out", tmp_path / "out", *words, code=code)
    assert not (tmp_path / "out").exists()


def test_models_are_compared_over_one_config(config, tmp_path):
    """Settings that a model does not have are left out of its runs, with a note."""
    out = tmp_path / "out"
    words = ["compare", config, "--seeds", 1, "--vary", "model.name=hetero_gin,mlp", "--set", "train.epochs=1", "--out", out]
    done = lacuna(*words, env=ALONE)
    assert done.returncode == 0 and "2 of 2 runs are finished" in done.stdout, done.stderr
    assert "note: model mlp has no model.layers, model.output: left out of its runs" in done.stderr
    assert "model hetero_gin has no" not in done.stderr
    configs = {name: (out / f"random_model.name={name}_seed=1/config.yaml").read_text() for name in ("hetero-gin", "mlp")}
    assert "layers: 1" in configs["hetero-gin"] and "layers" not in configs["mlp"]
    assert all("width: 8" in text for text in configs.values())
    again = lacuna(*words, env=ALONE)
    assert again.returncode == 0 and "run 1/2" not in again.stdout


def test_another_grid_is_refused_with_the_difference(config, compared):
    out, words, _ = compared
    message = fail(*words, "--set", "train.epochs=3")
    assert "its train.epochs is '2', here '3'" in message
    fewer = [1 if before == "--seeds" else word for before, word in zip([None, *words], words)]
    assert "it has 2 seeds, this one 1" in fail(*fewer)


def test_shards_share_the_grid(config, tmp_path):
    words = ["compare", config, "--seeds", 3, "--out", tmp_path / "out", "--set", "evaluate.baselines=false"]
    assert "1 of 3 runs are finished" in succeed(*words, "--shard", "1/2")
    assert "3 of 3 runs are finished" in succeed(*words, "--shard", "2/2")
    summary = (tmp_path / "out" / "summary.csv").read_text()
    assert "3 of 3 runs are finished" in succeed(*words)
    assert (tmp_path / "out" / "summary.csv").read_text() == summary
    assert "'3/2' is no shard" in fail(*words, "--shard", "3/2", code=2)


def test_the_call_that_sums_up_trains_what_no_shard_has(config, tmp_path):
    words = ["compare", config, "--seeds", 2, "--out", tmp_path / "out", "--set", "evaluate.baselines=false"]
    assert "1 of 2 runs are finished" in succeed(*words, "--shard", "2/2")
    done = lacuna(*words)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "run 1/2: " in said and "run 2/2: " not in said
    assert "2 of 2 runs are finished" in said
