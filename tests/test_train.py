"""lacuna train and evaluate as a user meets them: what a run holds, how it ends, and how it goes on."""

import json
import os
import random
import re
import shutil
import signal
import time

import numpy as np
import pytest
from checkpoint_files import tensors
from program import Started, accept_file, lacuna, succeed

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a tiny screen lies, `screen`, and one from tables, `tables`."""
    folder = tmp_path_factory.mktemp("train")
    succeed("generate", "screen", folder / "screen", "--size", "tiny", "--seed", 1)
    succeed("split", folder / "screen", "--name", "random", "--by", "random", "--seed", 1)
    make_tables(folder, "tables")
    return folder


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
    config.write_text("{}\n")
    settings = {**TINY, "screen": folder / screen, **{key.replace("__", "."): value for key, value in changes.items()}}
    result = ["train", config, "--out", out]
    for key, value in settings.items():
        result += ["--set", f"{key}={value}"]
    return result + (["--tensorboard"] if tensorboard else [])


def train(folder, out, **changes):
    succeed(*words(folder, out, **changes))
    return out


def setting(run, section, key):
    """A value of the run's config.yaml, as text."""
    inside = (run / "config.yaml").read_text().split(f"\n{section}:\n")[1].split("\n")
    return next(line.split(":", 1)[1].strip() for line in inside if line.startswith(f"  {key}:"))


def status(run):
    return json.loads((run / "run.json").read_text())["status"]


def lines(run, kind=None):
    """Whole lines of metrics.jsonl; the last may still be on its way."""
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
    """No step or epoch is missing or told twice, and what depends on the weights is the same."""
    for kind, values in (("step", ("step", "epoch", "loss", "lr", "grad_norm")), ("epoch", ("step", "epoch", "validation"))):
        a, b = ([{value: line[value] for value in values} for line in lines(path, kind)] for path in (run, other))
        assert a == b
    for a, b in zip(lines(run, "epoch"), lines(other, "epoch")):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=1e-9)


@pytest.fixture(scope="module")
def reference(folder):
    """Never interrupted."""
    return train(folder, folder / "reference", tensorboard=True)


def test_a_run_is_complete(folder, reference):
    assert setting(reference, "train", "batch") == "8" and setting(reference, "train", "clip") == "10"  # given, and not
    assert setting(reference, "model", "name") == "hetero_gin" and setting(reference, "model", "merge") == "sum"
    info = json.loads((reference / "run.json").read_text())
    assert info["status"] == "finished" and info["format"] == "lacuna.run" and info["device"] == "cpu"
    assert info["screen"]["samples"] == 200 and info["screen"]["genes"] == 40 and info["screen"]["fingerprint"]
    assert info["parameters"] == sum(value.size for value in weights(reference).values())
    assert info["lacuna"] and info["torch"] and info["started"] <= info["ended"] and "--set" in info["command"]
    steps = lines(reference, "step")
    assert [line["step"] for line in steps] == list(range(1, 81))  # 160 samples, 20 batches, 4 epochs
    epochs = lines(reference, "epoch")
    assert [line["epoch"] for line in epochs] == [0, 1, 2, 3] and epochs[-1]["train_loss"] < epochs[0]["train_loss"]
    assert epochs[0]["validation"]["gene_interaction"]["count"] == 20
    evaluation = json.loads((reference / "evaluation.json").read_text())
    assert evaluation["checkpoint"] == "best_pearson" and set(evaluation["parts"]) == {"validation", "test"}
    best = max(line["validation"]["gene_interaction"]["pearson"] for line in epochs)
    found = evaluation["parts"]["validation"]["labels"]["gene_interaction"]["model"]
    assert found["pearson"] == pytest.approx(best, abs=1e-6)
    predicted, measured = (np.load(reference / "predictions" / f"test.{what}.npy") for what in ("predicted", "measured"))
    assert predicted.shape == measured.shape == (20, 1) and predicted.dtype == np.float32
    numbers = np.load(reference / "predictions" / "test.sample.npy")
    labels = np.load(folder / "screen" / "samples" / "label.npy")
    assert np.array_equal(labels.reshape(len(labels), -1)[numbers], measured)


def test_epoch_loss_is_the_mean_of_its_steps(reference):
    for epoch in lines(reference, "epoch"):
        losses = [line["loss"] for line in lines(reference, "step") if line["epoch"] == epoch["epoch"]]
        assert epoch["train_loss"] == pytest.approx(np.mean(losses), rel=1e-6)  # 20 batches of 8


def test_the_config_of_a_run_repeats_it(folder, reference):
    succeed("train", reference / "config.yaml", "--out", folder / "again")
    assert_same_bits(folder / "again", reference)
    succeed("train", reference / "config.yaml", "--set", "train.seed=2", "--set", "train.epochs=1", "--out", folder / "seed")
    assert not np.array_equal(weights(folder / "seed")["table"], weights(reference)["table"])


def test_help_lists_every_setting(reference):
    text = succeed("train", "--help")
    for line in (reference / "config.yaml").read_text().splitlines():
        assert line.startswith("#") or f"  {line.split(':')[0].strip()}:" in text, line
    assert "zero_weight: 0.1" in text  # of another model


def test_a_damaged_file_of_a_run_is_named(reference, tmp_path):
    """By everything that reads it; the middle byte of each file is changed."""
    run = tmp_path / "run"
    readers = {"info": ["info", run], "report": ["report", run, "--out", tmp_path / "report.html"],
               "evaluate": ["evaluate", run], "resume": ["train", "--resume", "--out", run],
               "again": ["train", run / "config.yaml", "--out", tmp_path / "again"]}
    for name, who in [("run.json", "info report evaluate resume"), ("config.yaml", "info report evaluate resume again"),
                      ("metrics.jsonl", "info report resume")]:
        shutil.copytree(reference, run)
        contents = bytearray((run / name).read_bytes())
        contents[len(contents) // 2] ^= 1
        (run / name).write_bytes(contents)
        for reader in who.split():
            assert f"{run / name} is damaged" in error(1, *readers[reader]), reader
        shutil.rmtree(run)
    assert list(tmp_path.iterdir()) == []


def error(code, *arguments):
    done = lacuna(*arguments)
    assert done.returncode == code, (done.returncode, done.stderr)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last


def test_calls_that_cannot_be(folder, reference):
    out = folder / "never"
    assert "did you mean 'train.epochs'" in error(2, *words(folder, out, train__epochz=3))
    assert "did you mean 'model.width'" in error(2, *words(folder, out, model__widht=3))
    assert "mse, logcosh, huber" in error(2, *words(folder, out, train__loss="mae"))
    assert "'none'" in error(1, *words(folder, out, split="none"))
    assert "no label 'x'; it has: gene_interaction" in error(1, *words(folder, out, labels="[x]"))
    assert "nowhere" in error(1, *words(folder, out, screen="nowhere"))
    assert "no column or label 'w8'" in error(1, *words(folder, out, train__weight_column="w8"))
    assert "key=value" in error(2, *words(folder, out), "--set", "train.lr")
    assert "--out" in error(2, "train", "--resume")
    assert "--set goes with a CONFIG" in error(2, "train", "--resume", "--out", reference, "--set", "train.lr=1")
    assert "key '.lr' has an empty part" in error(2, *words(folder, out), "--set", ".lr=3")
    assert "'test' twice" in error(2, *words(folder, out, evaluate__parts="[test, test]"))
    for command in (["evaluate"], ["predict", "--all-pairs", "--out", out], ["export", "--embeddings", "--out", out]):
        assert "gpu" in error(2, *command, reference, "--device", "gpu")
    assert "holds no run" in error(1, "train", "--resume", "--out", out)
    assert not out.exists()  # nothing is left of a call that failed
    assert "add --resume" in error(1, *words(folder, reference))
    assert status(reference) == "finished"


def test_resuming_a_finished_run_changes_nothing(reference):
    before = {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}
    done = lacuna("train", "--resume", "--out", reference)
    assert done.returncode == 0 and "finished" in done.stderr
    assert before == {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", [
    "train --set train.lr=1 HERE", "profile --set train.lr=1 HERE", "bench step --set train.lr=1 --batch 3 HERE",
    "compare --out x --set train.lr=1 --vary train.clip=1,2 --splits random HERE",
    "bench criteria --set train.lr=1 HERE", "bench ladder --train --set train.lr=1 --rungs kernel HERE",
    "predict --out x.csv --all-triples-with A,B HERE",
])
def test_an_option_takes_no_word_that_follows_its_value(tmp_path, command):
    assert "nothing-here" in error(1, *command.replace("HERE", str(tmp_path / "nothing-here")).split())


@pytest.fixture(scope="module")
def long_reference(folder):
    """Never interrupted; long enough for one like it to be stopped on the way, by whoever is slow to look."""
    return train(folder, folder / "long", tensorboard=True, train__epochs=16)


def test_one_command_starts_a_run_and_goes_on(folder, long_reference):
    out = folder / "requeued"
    arguments = [*words(folder, out, train__epochs=16), "--resume"]
    started = Started(*arguments)  # there is none yet
    assert started.wait_for(lambda: len(lines(out, "step")) >= 27)
    assert started.end(signal.SIGTERM) == 75, started.errors
    message = error(1, *words(folder, out, train__epochs=16, train__lr=1e-2), "--resume")
    assert "its train.lr is '0.003', here '0.01'" in message and str(out) in message
    assert "its model.norm is 'layer', here 'batch_graph'" in error(
        1, *words(folder, out, train__epochs=16, model__norm="batch_graph"), "--resume")
    assert status(out) == "stopped"  # and nothing has happened
    succeed(*arguments)
    assert_same_bits(out, long_reference)
    assert_same_story(out, long_reference)
    done = lacuna(*arguments)
    assert done.returncode == 0 and "nothing to resume" in done.stderr


def test_a_run_can_be_used_from_any_directory(folder, tmp_path):
    (tmp_path / "config.yaml").write_text("screen: screen\ntrain: {epochs: 1}\nmodel: {width: 8, layers: 1}\n")
    (tmp_path / "screen").symlink_to(folder / "screen")
    (tmp_path / "elsewhere").mkdir()
    call = ["train", "config.yaml", "--set", "evaluate.baselines=false", "--out", "run"]
    succeed(*call, cwd=tmp_path)
    assert f"screen: {tmp_path}/screen\n" in (tmp_path / "run" / "config.yaml").read_text()
    succeed("evaluate", "../run", cwd=tmp_path / "elsewhere")
    assert "nothing to resume" in lacuna(*call, "--resume", cwd=tmp_path).stderr  # the same place in other words


@pytest.fixture
def seed():
    """Printed by pytest when a test fails."""
    chosen = int.from_bytes(os.urandom(4), "little")
    print("seed", chosen)
    random.seed(chosen)
    return chosen


@pytest.mark.parametrize("accumulate", [1, 3])
def test_killed_many_times_it_ends_in_the_same_bits(folder, seed, accumulate):
    changes = dict(train__accumulate=accumulate, train__epochs=8, train__checkpoint_minutes=0.0003, train__batch=6)
    whole = train(folder, folder / f"whole-{accumulate}", **changes)
    steps = lines(whole, "step")[-1]["step"]
    out = folder / f"killed-{accumulate}"
    arguments = words(folder, out, **changes)
    kills = 0
    for target in sorted(random.sample(range(1, steps * 3 // 4), 7)):
        started = Started(*arguments)
        alive = started.wait_for(lambda: any(line["step"] >= target for line in lines(out)[-1:]))
        assert alive
        time.sleep(random.uniform(0, 0.02))
        kills += started.end(signal.SIGKILL) == -signal.SIGKILL
        arguments = ["train", "--resume", "--out", out]
    assert kills >= 5, "the training is too short to be killed"
    assert lacuna(*arguments).returncode == 0
    assert status(out) == "finished"
    assert_same_bits(out, whole)
    assert_same_story(out, whole)


def test_killed_before_its_first_checkpoint_it_starts_again(folder, long_reference):
    out = folder / "early"
    started = Started(*words(folder, out, train__epochs=16))  # a checkpoint comes after five minutes, or an epoch
    assert started.wait_for(lambda: len(lines(out)) >= 2)
    assert started.end(signal.SIGKILL) == -signal.SIGKILL
    if (out / "checkpoints" / "last.safetensors").exists():
        (out / "checkpoints" / "last.safetensors").unlink()  # the machine was slow to kill
    succeed("train", "--resume", "--out", out)
    assert_same_bits(out, long_reference)
    assert_same_story(out, long_reference)


def default_hangup():
    """A test that was itself started by nohup inherits a SIGHUP that does nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_signals_stop_it_with_a_checkpoint(folder, long_reference):
    """One run, stopped four times, in the middle of an epoch as a rule."""
    out = folder / "stopped"
    arguments = words(folder, out, tensorboard=True, train__epochs=16)
    reached = 0
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
        started = Started(*arguments, preexec_fn=default_hangup)
        assert started.wait_for(lambda: len(lines(out, "step")) >= reached + 27)
        assert started.end(number) == 75, started.errors
        assert status(out) == "stopped" and "--resume" in started.output
        assert reached == 0 or f"going on at step {reached}" in started.errors
        reached = lines(out, "step")[-1]["step"]
        assert reached < 320
        arguments = ["train", "--resume", "--out", out, "--tensorboard"]
    done = lacuna(*arguments)
    assert done.returncode == 0 and f"going on at step {reached}" in done.stderr
    assert_same_bits(out, long_reference)
    assert_same_story(out, long_reference)
    assert events(out)["train/loss"] == events(long_reference)["train/loss"]


def test_nohup_is_respected(folder):
    """Who started it so that it ignores SIGHUP gets what they asked for."""
    out = folder / "nohup"
    started = Started(*words(folder, out, train__epochs=1000), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert started.wait_for(lambda: len(lines(out, "step")) >= 2)
    started.process.send_signal(signal.SIGHUP)
    there = len(lines(out, "step"))
    assert started.wait_for(lambda: len(lines(out, "step")) >= there + 5)
    assert started.end(signal.SIGTERM) == 75, started.errors


def events(run):
    """What TensorBoard reads: {tag: [(step, value)]}"""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(run / "tensorboard"), size_guidance={accumulator.SCALARS: 0}).Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_tensorboard_shows_the_metrics(reference):
    found = events(reference)
    for tag, member in (("train/loss", "loss"), ("train/lr", "lr"), ("train/grad_norm", "grad_norm")):
        assert [step for step, _ in found[tag]] == [line["step"] for line in lines(reference, "step")]
        assert np.allclose([value for _, value in found[tag]], [line[member] for line in lines(reference, "step")])
    pearson = [line["validation"]["gene_interaction"]["pearson"] for line in lines(reference, "epoch")]
    assert np.allclose([value for _, value in found["validation/pearson/gene_interaction"]], pearson)


@pytest.fixture(scope="module")
def slow_ends(folder):
    """A screen whose validation takes longer than its training, and a run on it."""
    succeed("generate", "screen", folder / "wide", "--size", "tiny", "--samples", 1300, "--query-pairs", 45, "--seed", 2)
    succeed("split", folder / "wide", "--name", "random", "--by", "random", "--fractions", "0.03,0.9,0.07", "--seed", 1)
    changes = dict(screen="wide", train__epochs=2, evaluate__baselines="true", evaluate__bootstrap=50)
    return changes, train(folder, folder / "wide-run", **changes)


@pytest.mark.parametrize("when", ["validation", "evaluation"])
def test_a_signal_at_an_end(folder, slow_ends, when):
    changes, whole = slow_ends
    wanted = {"validation": lambda: len(lines(out, "step")) >= 5, "evaluation": lambda: len(lines(out, "epoch")) >= 2}
    for attempt in range(5):  # an end takes a tenth of a second: who looks at it may be too late once, not five times
        out = folder / f"end-{when}-{attempt}"
        started = Started(*words(folder, out, **changes))
        assert started.wait_for(wanted[when])
        if started.end(signal.SIGUSR1) == 75:
            break
    assert started.process.returncode == 75, started.errors
    assert status(out) == "stopped" and not (out / "evaluation.json").exists()
    succeed("train", "--resume", "--out", out)
    assert status(out) == "finished"
    assert_same_bits(out, whole)
    assert_same_story(out, whole)
    assert (out / "evaluation.json").read_bytes() == (whole / "evaluation.json").read_bytes()


def test_small_steps_take_one_thread(folder, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    threads = lambda run: json.loads((run / "run.json").read_text())["threads"]
    assert threads(train(folder, folder / "one-thread", train__epochs=1)) == 1
    if len(os.sched_getaffinity(0)) > 1:
        large = train(folder, folder / "threads", train__epochs=1, train__batch=160, model__width=64)
        assert threads(large) > 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads(train(folder, folder / "two-threads", train__epochs=1)) == 2


def test_one_process_trains_a_run(folder):
    out = folder / "busy"
    started = Started(*words(folder, out, train__epochs=1000))
    assert started.wait_for(lambda: len(lines(out)) > 0)
    started.process.send_signal(signal.SIGSTOP)
    assert "add --resume" in error(1, *words(folder, out))
    assert "is being trained by another process" in error(1, "train", "--resume", "--out", out)
    started.process.send_signal(signal.SIGCONT)
    assert started.end(signal.SIGTERM) == 75


def test_a_loss_that_is_not_finite(folder):
    out = folder / "burnt"
    message = error(1, *words(folder, out, train__lr=1e30, train__warmup_steps=0))
    assert "not finite at step 1" in message and "bad_batch.json" in message
    assert status(out) == "failed" and json.loads((out / "run.json").read_text())["message"] in message
    bad = json.loads((out / "bad_batch.json").read_text())
    assert len(bad["samples"]) == 8 and all(len(genes) == 3 for genes in bad["removed"])
    assert all(str(sample) in message for sample in bad["samples"])
    assert not (out / "checkpoints" / "last.safetensors").exists()


def change_labels(screen, samples, value):
    path = screen / "samples" / "label.npy"
    labels = np.load(path)
    labels[samples] = value
    np.save(path, labels)
    [label] = json.loads((screen / "manifest.json").read_text())["samples"]["labels"]
    accept_file(screen, "samples/label.npy", f"label {label}")


def test_a_label_that_is_infinite_is_found_before_training(folder):
    shutil.copytree(folder / "screen", folder / "infinite")
    (sample, *_) = np.flatnonzero(np.load(folder / "infinite" / "splits" / "random.npy") == 2)
    change_labels(folder / "infinite", sample, np.inf)
    assert f"of sample {sample} is infinite" in error(1, *words(folder, folder / "no-infinite", screen="infinite"))
    assert not (folder / "no-infinite").exists()


def test_only_genes_and_graph_bind_a_checkpoint(folder, reference):
    succeed("generate", "screen", folder / "other-graph", "--size", "tiny", "--seed", 7)
    succeed("split", folder / "other-graph", "--name", "random", "--by", "random", "--seed", 1)
    other = ["--out", folder / "elsewhere"]
    message = error(1, "evaluate", reference, "--screen", folder / "other-graph", *other)
    assert "edges gene.physical.gene" in message and "genes," not in message
    make_tables(folder, "other-genes")
    succeed("split", folder / "other-genes", "--name", "random", "--by", "random", "--seed", 1)
    assert error(1, "evaluate", reference, "--screen", folder / "other-genes", *other)
    before = (reference / "evaluation.json").read_bytes()
    succeed("subset", folder / "screen", folder / "fewer", "--where", "split:random=train,test")
    assert "--out" in error(2, "evaluate", reference, "--screen", folder / "fewer")
    done = lacuna("evaluate", reference, "--screen", folder / "fewer", *other)
    assert done.returncode == 0, done.stderr
    parts = json.loads((folder / "elsewhere" / "evaluation.json").read_text())["parts"]
    assert set(parts) == {"test"}
    assert before == (reference / "evaluation.json").read_bytes()
    whole = json.loads(before)["parts"]["test"]["labels"]["gene_interaction"]["model"]
    assert parts["test"]["labels"]["gene_interaction"]["model"]["mse"] == pytest.approx(whole["mse"])


def draw_anew(screen, seed):
    """Another split under the same name; gives its parts."""
    succeed("split", screen, "--name", "random", "--remove")
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", seed)
    return np.load(screen / "splits" / "random.npy").copy()


def test_a_split_that_was_drawn_anew_is_not_taken_for_the_old_one(folder, long_reference):
    screen, out = folder / "redrawn", folder / "redrawn-run"
    shutil.copytree(folder / "screen", screen)
    drawn = np.load(screen / "splits" / "random.npy").copy()
    started = Started(*words(folder, out, screen="redrawn", train__epochs=16))
    assert started.wait_for(lambda: len(lines(out)) >= 25)
    assert started.end(signal.SIGTERM) == 75
    anew = draw_anew(screen, 99)
    moved, test = np.sum(drawn != anew), anew == 2
    message = error(1, "train", "--resume", "--out", out)
    assert f"split 'random' of {screen} is not the one" in message and f"{moved} of 200 samples" in message
    assert "--seed 1`" in message and status(out) == "stopped"
    said = lacuna("evaluate", out).stderr
    assert f"{moved} of 200 samples are in another part now" in said
    assert f"{np.sum(test & (drawn == 0))} of {test.sum()} test samples remove the same genes" in said
    succeed("report", out, "--out", folder / "redrawn.html")
    kept = json.loads((out / "evaluation.json").read_text())["notes"]  # what is shown later says it, too
    assert all(f"note: {note}\n" in said for note in kept) and len(kept) >= 2
    page = (folder / "redrawn.html").read_text()
    assert "are in another part now" in page and "test samples remove the same genes" in page
    draw_anew(screen, 1)
    succeed("train", "--resume", "--out", out)
    succeed("split", screen, "--name", "random", "--remove")
    assert "no split 'random'" in error(1, "evaluate", out)
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", 1)
    assert_same_bits(out, long_reference)
    assert "part now" not in lacuna("evaluate", out).stderr


def test_a_run_goes_on_where_its_screen_has_moved(folder, long_reference):
    out = folder / "moved-run"
    shutil.copytree(folder / "screen", folder / "here")
    started = Started(*words(folder, out, screen="here", train__epochs=16))
    assert started.wait_for(lambda: len(lines(out)) >= 25)
    assert started.end(signal.SIGTERM) == 75
    (folder / "here").rename(folder / "there")
    message = error(1, "train", "--resume", "--out", out)
    assert f"no screen {folder / 'here'}" in message
    command = message.split("`lacuna ")[1].rstrip("`").replace("DIRECTORY", str(folder / "there"))
    succeed(*command.split())
    assert_same_bits(out, long_reference)
    assert f"screen: {folder}/there\n" in (out / "config.yaml").read_text()
    assert json.loads((out / "run.json").read_text())["screen"]["path"] == str(folder / "there")
    succeed("evaluate", out)


def test_samples_that_were_trained_on_are_told(folder, reference):
    drawn = np.load(folder / "screen" / "splits" / "random.npy")
    shutil.copytree(folder / "screen", folder / "drawn-anew")
    test = draw_anew(folder / "drawn-anew", 99) == 2
    seen = np.sum(test & (drawn == 0))
    assert 0 < seen < test.sum()
    done = lacuna("evaluate", reference, "--screen", folder / "drawn-anew", "--out", folder / "leaked")
    assert done.returncode == 0, done.stderr
    assert f"{seen} of {test.sum()} test samples remove the same genes as one that the run was trained on" in done.stderr


def stopped_while_the_screen_grows(folder, name):
    """A run that was stopped in its second epoch; its screen, `name`, has more samples since, the old ones in their parts."""
    shutil.copytree(folder / "screen", folder / name)
    out = folder / f"{name}-run"
    started = Started(*words(folder, out, screen=name, train__epochs=16))
    assert started.wait_for(lambda: len(lines(out)) >= 25)
    assert started.end(signal.SIGTERM) == 75
    parts = np.concatenate([np.load(folder / name / "splits" / "random.npy"), np.repeat([0, 1, 2], [32, 4, 4])])
    shutil.rmtree(folder / name)
    succeed("generate", "screen", folder / name, "--size", "tiny", "--samples", 240, "--seed", 1)
    lists = {part: np.flatnonzero(parts == code).tolist() for code, part in enumerate(["train", "validation", "test"])}
    (folder / f"{name}.json").write_text(json.dumps(lists))
    succeed("split", folder / name, "--name", "random", "--by", "file", "--file", folder / f"{name}.json")
    return out


def test_a_run_goes_on_with_new_samples(folder):
    out = stopped_while_the_screen_grows(folder, "growing")
    done = lacuna("train", "--resume", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "192 training samples, and had 160 before" in done.stderr


def test_the_batch_of_a_bad_loss_is_named_after_the_samples_have_changed(folder):
    out = stopped_while_the_screen_grows(folder, "spoilt")
    training = np.flatnonzero(np.load(folder / "spoilt" / "splits" / "random.npy") == 0)
    change_labels(folder / "spoilt", training[-1], 3e38)  # finite, but not in units of the scale that the run has
    assert "not finite" in error(1, "train", "--resume", "--out", out)
    bad = json.loads((out / "bad_batch.json").read_text())
    assert training[-1] in bad["samples"] and len(bad["samples"]) == 8


def test_batches_add_up(folder):
    """Two batches of 4 a step, or one of 8; the last step of an epoch is smaller. Without dropout."""
    changes = dict(model__dropout=0, train__epochs=1, split="random")
    one = train(folder, folder / "one", train__batch=11, **changes)
    two = train(folder, folder / "two", train__batch=4, train__accumulate=3, **changes)
    large = train(folder, folder / "large", train__batch=12, **changes)
    distance = lambda a, b: np.sqrt(sum(np.sum((weights(a)[key] - weights(b)[key]) ** 2.0) for key in weights(a)))
    assert len(lines(two, "step")) == len(lines(large, "step")) == 14
    assert distance(two, large) < 0.02 * distance(one, large)


@pytest.mark.parametrize("loss", ["logcosh", "huber"])
def test_losses(folder, loss):
    run = train(folder, folder / loss, train__loss=loss, train__epochs=2, train__precision="bf16")
    first, last = lines(run, "epoch")
    assert last["train_loss"] < first["train_loss"] < 1  # of standardised labels
    assert all(value.dtype == np.float32 for value in weights(run).values())


def test_patience(folder):
    run = train(folder, folder / "patient", train__lr=0, train__epochs=9, train__patience=2)
    assert len(lines(run, "epoch")) == 3 and status(run) == "finished"
    succeed("split", folder / "screen", "--name", "unvalidated", "--by", "random", "--fractions", "0.8,0,0.2", "--seed", 1)
    assert "no validation samples" in error(1, *words(folder, folder / "no", split="unvalidated", train__patience=2))


def test_batch_auto_counts_the_optimiser(folder):
    """Gradients and two moments a weight, whatever the batch."""
    run = folder / "auto-wide"
    done = lacuna(*words(folder, run, train__batch="auto", train__epochs=1, model__width=512))
    assert done.returncode == 0, done.stderr
    number, unit = re.search(r"beside it need ([0-9.]+) (\wB) and", done.stderr).groups()
    needed = float(number) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
    weights = (run / "checkpoints/last.safetensors").stat().st_size / 3  # beside which the moments stand
    assert needed >= 2.9 * weights > 50e6, done.stderr


def test_batch_auto(folder):
    done = lacuna(*words(folder, folder / "auto", train__batch="auto", train__epochs=1))
    assert done.returncode == 0, done.stderr
    assert 1 <= int(setting(folder / "auto", "train", "batch")) <= 160
    # Of a model as small as this one, too, the figures say something.
    figures = re.search(r"batch \d+: a step and the validation beside it need (.*) may be used", done.stderr)
    assert figures and not re.search(r"(?<![\d.])0[\d.]* [kMG]?B", figures[1]), done.stderr


def test_shuffled_graph(folder, reference):
    run = train(folder, folder / "shuffled", graph="shuffled", train__epochs=1)
    kept, shuffled = (json.loads((path / "run.json").read_text())["screen"]["fingerprint"] for path in (reference, run))
    assert kept["genes"] == shuffled["genes"] and kept["edges gene.physical.gene"] != shuffled["edges gene.physical.gene"]
    succeed("evaluate", run)
    assert json.loads((run / "run.json").read_text())["screen"]["edges"] == \
        json.loads((reference / "run.json").read_text())["screen"]["edges"]


@pytest.fixture(scope="module")
def split(folder):
    return make_tables(folder, "tables-again")


def test_several_labels_with_missing_values(folder, split):
    run = train(folder, folder / "both", screen="tables", split=split, train__epochs=2, evaluate__baselines="true")
    validation = lines(run, "epoch")[-1]["validation"]
    assert validation["first"]["count"] == 20 and validation["second"]["count"] < 20
    measured = np.load(run / "predictions" / "test.measured.npy")
    predicted = np.load(run / "predictions" / "test.predicted.npy")
    assert measured.shape == predicted.shape == (20, 2) and np.isnan(measured[:, 1]).any()
    assert np.isfinite(predicted).all() and not np.isnan(measured[:, 0]).any()
    model = json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["second"]
    kept = ~np.isnan(measured[:, 1])
    assert model["model"]["count"] == kept.sum()
    assert model["model"]["mse"] == pytest.approx(np.mean((predicted - measured)[kept, 1] ** 2.0), rel=1e-4)
    assert {"mean", "gene", "ridge", "mlp"} <= set(model["baselines"])
    one = train(folder, folder / "second", screen="tables", split=split, labels="[second]", train__epochs=1)
    assert np.load(one / "predictions" / "test.measured.npy").shape == (20, 1)


def test_weights_of_samples(folder, split):
    plain = train(folder, folder / "plain", screen="tables", split=split, train__epochs=1)
    weighted = train(folder, folder / "weighted", screen="tables", split=split, train__epochs=1, train__weight_column="weight")
    assert lines(plain, "step")[0]["loss"] != lines(weighted, "step")[0]["loss"]
    call = dict(screen="tables", split=split, train__epochs=1)
    assert "weight -1 in column 'signed'" in error(1, *words(folder, folder / "no", train__weight_column="signed", **call))
    assert "nothere" in error(1, *words(folder, folder / "no2", train__weight_column="nothere", **call))
    assert "has categories" in error(1, *words(folder, folder / "no3", train__weight_column="screen", **call))


def test_weights_may_be_any_numbers_and_only_those_of_training_count(folder, split):
    def change(rows):
        for row in rows:
            row["weight"] = 16777217 if row["part"] == "train" else ""  # f64: f32 would lose the last digit

    call = dict(split=make_tables(folder, "double", change), train__epochs=1)
    assert np.load(folder / "double" / "samples" / "weight.npy").dtype == np.float64
    plain = train(folder, folder / "unweighted", screen="double", **call)
    weighted = train(folder, folder / "double-run", screen="double", train__weight_column="weight", **call)
    for a, b in zip(lines(plain, "step"), lines(weighted, "step")):  # all weigh the same
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)


def test_a_label_named_twice_is_refused(folder, split):
    message = error(1, *words(folder, folder / "twice", screen="tables", split=split, labels="[first, second, first]"))
    assert "label 'first' is named twice" in message and not (folder / "twice").exists()


def test_a_store_with_too_few_samples_leaves_no_run(folder):
    succeed("prepare", folder / "screen", "--rung", "disk:u8", "--out", folder / "few", "--samples", "0:10")
    call = words(folder, folder / "stored", rung="disk:u8", store=folder / "few", model__layers=2, train__epochs=1)
    assert "holds samples 0 to 9" in error(1, *call)
    assert not (folder / "stored").exists()
    succeed("prepare", folder / "screen", "--rung", "disk:u8", "--out", folder / "few")  # what the message says
    succeed(*call)


def test_the_mlp_baseline_does_not_depend_on_the_models_settings(folder):
    def scores(name, **changes):
        run = train(folder, folder / name, train__epochs=1, evaluate__baselines="true", **changes)
        return json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["gene_interaction"]

    one, other = scores("mlp-one"), scores("mlp-other", train__weight_decay=0.9, train__clip=1e-3)
    assert one["baselines"]["mlp"] == other["baselines"]["mlp"] and one["model"] != other["model"]


def test_what_a_model_does_not_read_does_not_bind_its_checkpoint(folder):
    make_tables(folder, "bound")
    source = folder / "bound-source"
    edges = (source / "edges.csv").read_text().splitlines()
    for number in (1, 2):
        rng = np.random.default_rng(number)
        weighted = [f"{edge},{rng.uniform():.3f}" for edge in edges[1:]]
        (source / "weighted.csv").write_text("\n".join([edges[0] + ",weight", *weighted]) + "\n")
        np.save(source / "numbers.npy", rng.normal(size=(12, 2)).astype(np.float32))
        succeed("import", "screen", folder / f"bound-{number}", "--genes", source / "genes.csv",
                "--network", f"physical={source}/weighted.csv,weight=weight", "--features", f"x={source}/numbers.npy",
                "--samples", f"{source}/rows.csv,removed=a+b,label=first,split=part")
    (name,) = (path.stem for path in (folder / "bound-1" / "splits").glob("*.npy"))
    call = dict(screen="bound-1", split=name, train__epochs=1)
    done = lacuna(*words(folder, folder / "unbound", **call))
    assert done.returncode == 0 and "edges have values (weights) in physical: models read" in done.stderr
    succeed("evaluate", folder / "unbound", "--screen", folder / "bound-2", "--out", folder / "unbound-elsewhere")
    bound = train(folder, folder / "bound-run", model__features="beside", **call)
    message = error(1, "evaluate", bound, "--screen", folder / "bound-2", "--out", folder / "bound-elsewhere")
    assert "features gene.x" in message and "values" not in message


def test_test_labels_do_not_reach_the_training(folder, split):
    def change(rows):
        for row in rows:
            if row["part"] == "test":
                row["first"] = 1000.0

    make_tables(folder, "changed", change)
    runs = [train(folder, folder / f"leak-{screen}", screen=screen, split=split, train__epochs=2)
            for screen in ("tables", "changed")]
    assert_same_bits(*runs)
    assert_same_story(*runs)


# ---- validation that cannot judge
def tables(folder, name, change):
    """Changes the rows of the validation part."""
    def change_all(rows):
        for row in rows:
            if row["part"] == "validation":
                change(row)

    return dict(screen=name, split=make_tables(folder, name, change_all))


def checkpoints(run):
    return {path.stem for path in (run / "checkpoints").iterdir()}


@pytest.mark.parametrize("value, expected", [("5.0", {"last", "best_mse"}), ("", {"last"})])
def test_without_a_validation_pearson_the_last_weights_count(folder, value, expected):
    name = f"unjudged-{len(value)}"
    changes = {**tables(folder, name, lambda row: row.update(first=value)), "labels": "[first]"}
    done = lacuna(*words(folder, folder / f"{name}-run", **changes))
    assert done.returncode == 0, done.stderr
    assert "two different values of label first" in done.stderr and "the last weights" in done.stderr
    assert checkpoints(folder / f"{name}-run") == expected
    assert json.loads((folder / f"{name}-run" / "evaluation.json").read_text())["checkpoint"] == "last"
    assert "whose labels differ" in error(1, *words(folder, folder / "no-patience", **changes, train__patience=2))


def test_labels_that_cannot_be_judged_take_no_part(folder):
    changes = tables(folder, "half-judged", lambda row: row.update(second=""))
    run = train(folder, folder / "half-judged-run", **changes, train__epochs=6, train__lr=0.03)
    first = [line["validation"]["first"] for line in lines(run, "epoch")]
    for name, best in (("pearson", max), ("mse", min)):
        succeed("evaluate", run, "--checkpoint", f"best_{name}")
        found = json.loads((run / "evaluation.json").read_text())["parts"]["validation"]["labels"]["first"]["model"]
        assert found[name] == pytest.approx(best(line[name] for line in first), rel=1e-5)


def test_the_mlp_keeps_its_last_weights_where_nothing_is_measured(folder):
    """As without a validation part."""
    def scores(name, change):
        run = train(folder, folder / f"{name}-run", **tables(folder, name, change), labels="[first]", train__epochs=1,
                    evaluate__parts="[test]", evaluate__baselines="true")
        return json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["first"]["baselines"]["mlp"]

    missing = scores("mlp-missing", lambda row: row.update(first=""))
    without = scores("mlp-without", lambda row: row.update(first="", part="test"))
    assert missing == without
