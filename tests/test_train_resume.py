"""A training that is stopped or killed, and goes on as if it had not been."""

import random
import signal
import time

import numpy as np
import pytest
from program import Started, lacuna, succeed, together
from train_files import assert_same_bits, assert_same_story, error, lines, status, train, words


def test_resuming_a_finished_run_changes_nothing(reference):
    before = {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}
    done = lacuna("train", "--resume", "--out", reference)
    assert done.returncode == 0 and "finished" in done.stderr
    assert before == {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}


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


def kill_many_times(folder, accumulate, chance):
    changes = dict(train__accumulate=accumulate, train__epochs=8, train__checkpoint_minutes=0.0003, train__batch=6)
    whole = train(folder, folder / f"whole-{accumulate}", **changes)
    steps = lines(whole, "step")[-1]["step"]
    out = folder / f"killed-{accumulate}"
    arguments = words(folder, out, **changes)
    kills = 0
    for target in sorted(chance.sample(range(1, steps * 3 // 4), 7)):
        started = Started(*arguments)
        alive = started.wait_for(lambda: any(line["step"] >= target for line in lines(out)[-1:]))
        assert alive
        time.sleep(chance.uniform(0, 0.02))
        kills += started.end(signal.SIGKILL) == -signal.SIGKILL
        arguments = ["train", "--resume", "--out", out]
    assert kills >= 5, "the training is too short to be killed"
    assert lacuna(*arguments).returncode == 0
    assert status(out) == "finished"
    assert_same_bits(out, whole)
    assert_same_story(out, whole)


def test_killed_many_times_it_ends_in_the_same_bits(folder, seed):
    together([(folder, accumulate, random.Random(seed + accumulate)) for accumulate in (1, 3)], kill_many_times)


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
    """A test that was itself started by nohup inherits an ignored SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def events(run):
    """What TensorBoard reads: {tag: [(step, value)]}"""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(run / "tensorboard"), size_guidance={accumulator.SCALARS: 0}).Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


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


def test_tensorboard_shows_the_metrics(reference):
    found = events(reference)
    for tag, member in (("train/loss", "loss"), ("train/lr", "lr"), ("train/grad_norm", "grad_norm")):
        assert [step for step, _ in found[tag]] == [line["step"] for line in lines(reference, "step")]
        assert np.allclose([value for _, value in found[tag]], [line[member] for line in lines(reference, "step")])
    pearson = [line["validation"]["gene_interaction"]["pearson"] for line in lines(reference, "epoch")]
    assert np.allclose([value for _, value in found["validation/pearson/gene_interaction"]], pearson)


def test_nohup_is_respected(folder):
    """A program that was started with SIGHUP ignored keeps ignoring it."""
    out = folder / "nohup"
    started = Started(*words(folder, out, train__epochs=1000), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert started.wait_for(lambda: len(lines(out, "step")) >= 2)
    started.process.send_signal(signal.SIGHUP)
    there = len(lines(out, "step"))
    assert started.wait_for(lambda: len(lines(out, "step")) >= there + 5)
    assert started.end(signal.SIGTERM) == 75, started.errors


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
    for attempt in range(5):  # an end takes a tenth of a second: the signal may come too late once, not five times
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


def test_one_process_trains_a_run(folder):
    out = folder / "busy"
    started = Started(*words(folder, out, train__epochs=1000))
    assert started.wait_for(lambda: len(lines(out)) > 0)
    started.process.send_signal(signal.SIGSTOP)
    assert "add --resume" in error(1, *words(folder, out))
    assert "is being trained by another process" in error(1, "train", "--resume", "--out", out)
    started.process.send_signal(signal.SIGCONT)
    assert started.end(signal.SIGTERM) == 75
