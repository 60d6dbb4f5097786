"""lacuna train as a user meets it: what a run holds, and what its settings do."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from program import lacuna, succeed, together
from train_files import assert_same_bits, error, lines, setting, status, train, train_all, weights, words


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


def test_the_first_line_says_how_long_and_the_run_keeps_its_threads(folder, reference):
    assert setting(reference, "train", "compute_threads") == str(json.loads((reference / "run.json").read_text())["threads"])
    done = lacuna(*words(folder, folder / "first-line", **{"train.epochs": 1}))
    first = done.stdout.splitlines()[0]
    assert re.fullmatch(r"hetero_gin with [\d,]+ parameters on cpu; about \d+ s here: [\d.]+ ms a step, 20 steps an epoch, 1 epochs, "
                        r"1 thread", first), first  # fmt: skip


def test_epoch_loss_is_the_mean_of_its_steps(reference):
    for epoch in lines(reference, "epoch"):
        losses = [line["loss"] for line in lines(reference, "step") if line["epoch"] == epoch["epoch"]]
        assert epoch["train_loss"] == pytest.approx(np.mean(losses), rel=1e-6)  # 20 batches of 8


def test_the_config_of_a_run_repeats_it(folder, reference):
    other = ["--set", "train.seed=2", "--set", "train.epochs=1"]
    together([("train", reference / "config.yaml", "--out", folder / "again"),
              ("train", reference / "config.yaml", *other, "--out", folder / "seed")])
    assert_same_bits(folder / "again", reference)
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


@pytest.mark.parametrize("command", [
    "train --set train.lr=1 HERE", "profile --set train.lr=1 HERE", "bench step --set train.lr=1 --batch 3 HERE",
    "compare --out x --set train.lr=1 --vary train.clip=1,2 --splits random HERE",
    "bench criteria --set train.lr=1 HERE", "bench ladder --train --set train.lr=1 --rungs kernel HERE",
    "predict --out x.csv --all-triples-with A,B HERE",
])
def test_an_option_takes_no_word_that_follows_its_value(tmp_path, command):
    assert "nothing-here" in error(1, *command.replace("HERE", str(tmp_path / "nothing-here")).split())


def test_a_run_can_be_used_from_any_directory(folder, tmp_path):
    (tmp_path / "config.yaml").write_text("screen: screen\ntrain: {epochs: 1}\nmodel: {width: 8, layers: 1}\n")
    (tmp_path / "screen").symlink_to(folder / "screen")
    (tmp_path / "elsewhere").mkdir()
    call = ["train", "config.yaml", "--set", "evaluate.baselines=false", "--out", "run"]
    succeed(*call, cwd=tmp_path)
    assert f"screen: {tmp_path}/screen\n" in (tmp_path / "run" / "config.yaml").read_text()
    succeed("evaluate", "../run", cwd=tmp_path / "elsewhere")
    assert "nothing to resume" in lacuna(*call, "--resume", cwd=tmp_path).stderr  # the same place in other words


def test_small_steps_take_one_thread_others_what_was_measured(folder, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    threads = lambda run: json.loads((run / "run.json").read_text())["threads"]
    assert threads(train(folder, folder / "one-thread", train__epochs=1)) == 1
    large = {"train.epochs": 1, "train.batch": 160, "model.width": 64}
    if len(os.sched_getaffinity(0)) > 1:
        done = lacuna(*words(folder, folder / "threads", **large))
        timed, taken = re.search(r"note: a step takes (.*): (\d+) threads? \(", done.stderr).groups()
        seconds = {int(count): float(value) * {"ms": 1e-3, "s": 1}[unit]
                   for value, unit, count in re.findall(r"([\d.]+) (ms|s) with (\d+)", timed)}  # fmt: skip
        assert 1 in seconds and len(seconds) > 1 and int(taken) in seconds
        assert seconds[int(taken)] <= min(seconds.values()) / 0.89  # more threads must be a tenth faster
        assert threads(folder / "threads") == int(taken)
        assert setting(folder / "threads", "train", "compute_threads") == taken
    told = train(folder, folder / "told", **large, **{"train.compute_threads": 2})
    assert threads(told) == 2 and setting(told, "train", "compute_threads") == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # where one would be taken
    assert threads(train(folder, folder / "environment", train__epochs=1)) == 2


def test_a_loss_that_is_not_finite(folder):
    out = folder / "burnt"
    message = error(1, *words(folder, out, train__lr=1e30, train__warmup_steps=0))
    assert "not finite at step 1" in message and "bad_batch.json" in message
    assert status(out) == "failed" and json.loads((out / "run.json").read_text())["message"] in message
    bad = json.loads((out / "bad_batch.json").read_text())
    assert len(bad["samples"]) == 8 and all(len(genes) == 3 for genes in bad["removed"])
    assert all(str(sample) in message for sample in bad["samples"])
    assert not (out / "checkpoints" / "last.safetensors").exists()


def test_batches_add_up(folder):
    """Two batches of 4 a step, or one of 8; the last step of an epoch is smaller. Without dropout."""
    changes = dict(model__dropout=0, train__epochs=1, split="random")
    one, two, large = train_all(
        folder, one=dict(train__batch=11, **changes), two=dict(train__batch=4, train__accumulate=3, **changes),
        large=dict(train__batch=12, **changes))
    distance = lambda a, b: np.sqrt(sum(np.sum((weights(a)[key] - weights(b)[key]) ** 2.0) for key in weights(a)))
    assert len(lines(two, "step")) == len(lines(large, "step")) == 14
    assert distance(two, large) < 0.02 * distance(one, large)


def test_losses(folder):
    losses = ("logcosh", "huber")
    for run in train_all(folder, **{loss: dict(train__loss=loss, train__epochs=2, train__precision="bf16") for loss in losses}):
        first, last = lines(run, "epoch")
        assert last["train_loss"] < first["train_loss"] < 1, run  # of standardised labels
        assert all(value.dtype == np.float32 for value in weights(run).values()), run


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


def test_batch_auto_leaves_no_trace(folder):
    """The steps that were timed on the way change nothing: the run is that of the batch by its number."""
    succeed(*words(folder, folder / "auto-timed", train__batch="auto", train__epochs=1))
    batch = setting(folder / "auto-timed", "train", "batch")
    succeed(*words(folder, folder / "auto-given", train__batch=batch, train__epochs=1))
    assert_same_bits(folder / "auto-timed", folder / "auto-given")


def test_shuffled_graph(folder, reference):
    run = train(folder, folder / "shuffled", graph="shuffled", train__epochs=1)
    kept, shuffled = (json.loads((path / "run.json").read_text())["screen"]["fingerprint"] for path in (reference, run))
    assert kept["genes"] == shuffled["genes"] and kept["edges gene.physical.gene"] != shuffled["edges gene.physical.gene"]
    succeed("evaluate", run)
    assert json.loads((run / "run.json").read_text())["screen"]["edges"] == \
        json.loads((reference / "run.json").read_text())["screen"]["edges"]


def test_a_store_with_too_few_samples_leaves_no_run(folder):
    succeed("prepare", folder / "screen", "--rung", "disk:u8", "--out", folder / "few", "--samples", "0:10")
    call = words(folder, folder / "stored", rung="disk:u8", store=folder / "few", model__layers=2, train__epochs=1)
    assert "holds samples 0 to 9" in error(1, *call)
    assert not (folder / "stored").exists()
    succeed("prepare", folder / "screen", "--rung", "disk:u8", "--out", folder / "few")  # what the message says
    succeed(*call)
