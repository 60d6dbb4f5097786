"""Several ranks train as one: the same order, losses and predictions to rounding."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from program import lacuna, succeed
from rank_files import ENVIRONMENT, IS_MISSING, start_ranks, torchrun, torchrun_words, train_ranks
from train_files import lines, make_tables, status, words

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")

# 60 training samples with missing labels and weights in batches of 13: the last one has 8.
HARD = {"train__batch": 13, "train__epochs": 2, "train__weight_column": "weight", "model__dropout": 0.3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return folder, make_tables(folder, "tables")


def command(data, out, **changes):
    """The words that start a run in `out`, less the settings that its model does not have."""
    folder, split = data
    given = words(folder, folder / out, screen="tables", split=split, **{**HARD, **changes})
    unknown = {"mlp": ["model.layers=1"], "factors": ["model.layers=1", "model.dropout=0.3"]}
    for setting in unknown.get(changes.get("model__name"), []):
        place = given.index(setting)
        del given[place - 1 : place + 1]
    return given


def losses(run):
    return np.array([line["loss"] for line in lines(run, "step")])


def assert_like(run, other):
    """The same steps, validations and evaluation, to rounding in f32."""
    assert len(losses(run)) == len(losses(other)) > 0
    np.testing.assert_allclose(losses(run), losses(other), rtol=1e-4)
    for a, b in zip(lines(run, "epoch"), lines(other, "epoch"), strict=True):
        for label, scores in a["validation"].items():
            assert scores["count"] == b["validation"][label]["count"]
            assert scores["mse"] == pytest.approx(b["validation"][label]["mse"], rel=1e-3)
    a, b = (json.loads((path / "evaluation.json").read_text())["parts"]["test"]["labels"] for path in (run, other))
    for label in a:
        assert a[label]["model"]["mse"] == pytest.approx(b[label]["model"]["mse"], rel=1e-3)


@pytest.mark.parametrize("ranks, changes", [
    (2, {"model__layers": 2}),  # in f64, and for merge pairwise too: train/group_test.cpp
    (4, {"model__name": "mlp"}),
    (2, {"train__batch": 59}),  # the last batch has one sample, and none for rank 1
    (2, {"train__accumulate": 2}),
    (2, {"model__name": "wild_type", "train__hide": 0.4}),  # every rank hides the same genes
    (2, {"model__name": "factors", "train__hide": 0.4}),  # and shrinks the same rows once
])  # fmt: skip
def test_ranks_take_the_steps_of_one_process(data, ranks, changes):
    folder = data[0]
    name = "-".join(f"{key}-{value}" for key, value in changes.items())
    succeed(*command(data, name, **changes))
    said = train_ranks(ranks, *command(data, f"{name}-ranks", **changes))
    assert said.stdout.count("\nrun: ") == 1  # rank 0 alone speaks
    assert status(folder / f"{name}-ranks") == "finished"
    assert_like(folder / name, folder / f"{name}-ranks")


def test_a_run_goes_on_with_another_number_of_ranks(data):
    """Two ranks are stopped inside an epoch; one process goes on, as a run that was never stopped."""
    folder = data[0]
    settings = {"train__epochs": 40, "train__lr": 1e-4}
    succeed(*command(data, "whole", **settings))
    run = folder / "parts"
    started = subprocess.Popen(torchrun_words(2, *command(data, "parts", **settings)), env=ENVIRONMENT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while started.poll() is None and len(lines(run, "step")) < 7:
        time.sleep(0.02)
    assert started.poll() is None, "it ended before it was stopped"
    started.send_signal(signal.SIGTERM)
    said, errors = started.communicate(timeout=100)
    assert status(run) == "stopped", errors
    assert "go on with: lacuna train --resume" in said
    # torchrun turns every code into 1; the run's folder knows.
    assert lacuna("info", run, "--exit-code").returncode == 75
    before = len(lines(run, "step"))
    assert before < len(losses(folder / "whole"))
    succeed("train", "--resume", "--out", run)
    assert lacuna("info", run, "--exit-code").returncode == 0
    assert_like(folder / "whole", run)


def test_more_ranks_go_on_with_a_run_of_one(data):
    folder = data[0]
    succeed(*command(data, "one", train__epochs=1))
    # A run that has one more epoch to go, as its config says.
    run = folder / "more"
    shutil.copytree(folder / "one", run)
    text = (run / "config.yaml").read_text().split("\n", 1)[1].replace("  epochs: 1\n", "  epochs: 2\n")
    (run / "config.yaml").write_text(text)
    info = json.loads((run / "run.json").read_text())
    info.pop("checksum", None)
    info.pop("metrics_end", None)
    (run / "run.json").write_text(json.dumps({**info, "status": "stopped"}))
    train_ranks(2, "train", "--resume", "--out", run)
    succeed(*command(data, "both", train__epochs=2))
    assert_like(folder / "both", run)


def test_ranks_evaluate_as_one(data, tmp_path):
    folder = data[0]
    run = folder / "judged"
    succeed(*command(data, "judged", train__epochs=1))
    said = succeed("evaluate", run)
    shutil.copytree(run, tmp_path / "run")
    again = train_ranks(2, "evaluate", tmp_path / "run")
    assert again.stdout == said


def numbers(found, path=()):
    """{path: number} of a JSON file."""
    if isinstance(found, (dict, list)):
        items = found.items() if isinstance(found, dict) else enumerate(found)
        return {key: value for name, inner in items for key, value in numbers(inner, (*path, name)).items()}
    return {path: found} if isinstance(found, (int, float)) else {}


@pytest.fixture(scope="module")
def movie(tmp_path_factory):
    """The config of a training on a recording."""
    folder = tmp_path_factory.mktemp("movie")
    recording, config = folder / "recording", folder / "config.yaml"
    succeed("generate", "recording", recording, "--sessions", 2, "--minutes", 2, "--side", 17, "--units", 3, "--seed", 1)
    succeed("split", recording, "--name", "trials", "--seed", 1)
    config.write_text(f"recording: {recording}\nwindow: {{lags: 2}}\nmodel: {{channels: 2, temporal: 2, layers: 1}}\n"
                      "train: {device: cpu, epochs: 1, batch: 64}\n")
    return config


def test_ranks_evaluate_a_recording_as_one(movie, tmp_path):
    run = tmp_path / "run"
    train_ranks(2, "train", movie, "--out", run)

    def found():
        return numbers(json.loads((run / "recording_evaluation.json").read_text()))

    by_two = found()
    succeed("evaluate", run)
    by_one = found()
    train_ranks(3, "evaluate", run)
    assert len(by_one) > 50 and by_two.keys() == by_one.keys() == found().keys()
    for path, value in by_one.items():  # windows lie in other batches, so products are rounded otherwise
        assert by_two[path] == pytest.approx(value, rel=1e-4, abs=1e-6, nan_ok=True), path
        assert found()[path] == pytest.approx(value, rel=1e-4, abs=1e-6, nan_ok=True), path


@pytest.fixture(scope="module")
def movie_runs(movie):
    """Two runs of one recording with other weights, of batches of 100 windows, and the rates that one process predicts by each."""
    folder = movie.parent
    for i in range(2):
        succeed("train", movie, "--set", f"train.seed={i}", "--set", "train.batch=100", "--set", "evaluate.parts=[]",
                "--out", folder / f"run{i}")  # fmt: skip
        # As many threads as a rank has: torch does not promise the same rounding with others.
        succeed("predict", folder / f"run{i}", "--out", folder / f"rates{i}", env={**os.environ, "OMP_NUM_THREADS": "1"})
    return folder


def rates(folder):
    return {one["file"]: np.load(folder / one["file"]) for one in json.loads((folder / "rates.json").read_text())["files"]}


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_predict_a_recording_as_one(movie_runs, tmp_path, ranks):
    said = train_ranks(ranks, "predict", movie_runs / "run0", "--out", tmp_path / "rates").stdout
    assert "windows in" in said and said.count("\n") == 1  # rank 0 alone speaks
    one = {path.name: path.read_bytes() for path in (movie_runs / "rates0").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "rates").iterdir()} == one
    windows = [int(np.isfinite(rows).all(1).sum()) for rows in rates(tmp_path / "rates").values()]
    assert any(count % 100 for count in windows), "every last batch is whole"


def start_predicting(runs, out):
    """Two ranks, as srun starts them, that each predict by a run of their own."""
    code = ("import os, runpy, sys; *runs, out = sys.argv[1:]; "
            "sys.argv = ['lacuna', 'predict', runs[int(os.environ['SLURM_PROCID'])], '--out', out]; "
            "runpy.run_module('lacuna', run_name='__main__')")  # fmt: skip
    return start_ranks(2, "-c", code, *runs, out)


def test_each_rank_predicts_its_batches_of_a_recording(movie_runs, tmp_path):
    """Told apart by weights that no two ranks should have."""
    for process in start_predicting([movie_runs / "run0", movie_runs / "run1"], tmp_path / "rates"):
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    first, second = rates(movie_runs / "rates0"), rates(movie_runs / "rates1")
    for file, found in rates(tmp_path / "rates").items():
        has_window = np.isfinite(first[file]).all(1)
        is_second = (np.arange(has_window.sum()) // 100 % 2 == 1)[:, None]
        assert is_second.any() and not np.array_equal(first[file], second[file], equal_nan=True)
        np.testing.assert_array_equal(found[has_window], np.where(is_second, second[file][has_window], first[file][has_window]))
        assert np.isnan(found[~has_window]).all()


def test_a_rank_that_cannot_predict_a_recording_ends_all(movie_runs, tmp_path):
    processes = start_predicting([movie_runs / "run0", tmp_path / "nowhere"], tmp_path / "rates")
    errors = [process.communicate(timeout=100)[1] for process in processes]
    assert all(process.returncode not in (0, 75) for process in processes), errors
    assert "nowhere" in errors[1] and not (tmp_path / "rates" / "rates.json").exists()
    refused = torchrun(2, "predict", movie_runs / "run0", "--out", movie_runs / "rates1")
    assert refused.returncode != 0 and refused.stderr.count("rates1 holds something already") == 1


@pytest.mark.parametrize("which", [["--all-pairs"], ["--all-pairs", "--top", "7", "--by", "first"]])
def test_ranks_predict_as_one(data, tmp_path, which):
    run = data[0] / "predicts"
    if not run.exists():
        succeed(*command(data, "predicts", train__epochs=1))
    succeed("predict", run, *which, "--out", tmp_path / "one.csv")
    said = train_ranks(3, "predict", run, *which, "--out", tmp_path / "three.csv").stdout
    assert (tmp_path / "three.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert "66 samples" in said and said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.csv", "three.csv"]
    refused = torchrun(2, "predict", run, "--all-pairs", "--out", tmp_path / "two.npz")
    assert refused.returncode != 0 and "several ranks write .csv" in refused.stderr


def test_what_ranks_cannot_do(data):
    refused = torchrun(2, *command(data, "refused", model__norm="batch_graph"))
    assert refused.returncode != 0
    assert "model.norm is batch_graph, which couples the samples of a batch, but there are 2 ranks" in refused.stderr
    assert not (data[0] / "refused").exists()
    alone = torchrun(2, "info", data[0] / "tables")
    assert alone.returncode != 0 and alone.stderr.count("only evaluate, predict, profile, train share their work") == 1


def test_where_srun_puts_the_ranks():
    slurm = {"SLURM_JOB_ID": "1234", "SLURM_STEP_ID": "2", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8",
             "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_STEP_NODELIST": "gpu[07-08],old"}  # fmt: skip
    batch_file = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}  # itself, outside of srun
    asked = [slurm, {**slurm, "SLURM_STEP_ID": "3"}, {}, batch_file]
    code = (f"import json; from lacuna._ranks import Place; found = [Place.of(one) for one in {asked}]; "
            "print(json.dumps([place and place.__dict__ for place in found]))")  # fmt: skip
    told = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    first, next_step, *alone = json.loads(told.stdout)
    assert alone == [None, None]
    port = first.pop("port")
    assert 1024 < port < 65536 and port != next_step["port"]
    assert first == {"rank": 5, "world": 8, "local_rank": 1, "local_world": 4, "address": "gpu07", "attempt": "0",
                     "has_host": False}  # fmt: skip
