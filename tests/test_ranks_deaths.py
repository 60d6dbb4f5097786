"""A rank that dies ends all, with its number; what was trained is kept, and goes on."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from program import lacuna, new_screen, succeed
from rank_files import (ENVIRONMENT, IS_LONG, IS_MISSING, SECONDS_TO_END, ranks_of, start_ranks, torchrun_words, train_ranks,
                        wait_for_steps)  # fmt: skip
from train_files import assert_same_bits, assert_same_story, lines, status

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")

# Computes without an end, and asks nobody whether it should: what a signal or a lost rank cannot interrupt.
ENDLESS = """
import os, pathlib, sys, torch, lacuna

class Endless(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(500, 500))

    def forward(self, removed, ptr):
        pathlib.Path(f"{out}.{os.environ['SLURM_PROCID']}").touch()
        while True:
            self.table @ self.table

screen, out = sys.argv[1:]
config = {"split": "random", "train": {"device": "cpu", "batch": 8}, "evaluate": {"baselines": False, "bootstrap": 0}}
lacuna.train(Endless(), screen, config, out=out)
"""


def write_config(folder, model, train):
    path = folder / "config.yaml"
    path.write_text(f"screen: {folder / 'screen'}\nmodel: {{name: hetero_gin, {model}}}\n"
                    f"train: {{device: cpu, epochs: 1000, {train}, log_every: 1, checkpoint_minutes: 100}}\n"
                    "evaluate: {baselines: false, bootstrap: 0}\n")
    return path


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deaths")
    new_screen(folder / "screen")
    return write_config(folder, "width: 8, layers: 2", "batch: 8")


@pytest.fixture
def processes():
    """A test that fails leaves none behind."""
    found = []
    yield found
    for process in found:
        if process.poll() is None:
            ranks = ranks_of(process).values()
            process.kill()
            for number in filter(is_alive, ranks):
                os.kill(number, signal.SIGKILL)
        process.wait()


@pytest.fixture
def start(processes):
    """Two ranks by torchrun."""

    def start(config, run, *words, options=()):
        words = torchrun_words(2, "train", config, "--out", run, *words, options=options)
        processes.append(subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    return start


@pytest.fixture
def start_both(processes):
    """Two ranks by the test itself, as srun does it."""

    def start_both(*words):
        processes.extend(start_ranks(2, *words))
        return processes

    return start_both


def is_alive(number):
    try:
        return pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def info(run):
    return " ".join(succeed("info", run).split())


def saved_step(run):
    """How many steps the last checkpoint has seen."""
    data = (run / "checkpoints" / "last.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["lacuna"])["train"]["step"]


def ticks(process):
    """What it has computed."""
    return sum(map(int, pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


def wait_until_it_waits(process):
    before = -1
    while (now := ticks(process)) != before:
        before = now
        time.sleep(0.5)


def wait_until_it_computes(process):
    begin = ticks(process)
    while ticks(process) < begin + os.sysconf("SC_CLK_TCK"):  # for a second
        assert process.poll() is None
        time.sleep(0.05)


def assert_it_ends(process, *messages):
    """By itself and in time, with one of these."""
    _, errors = process.communicate(timeout=SECONDS_TO_END)
    assert process.returncode == 1, errors
    assert any(f"error: {message}" in errors for message in messages), errors


def test_of_three_ranks_all_name_the_one_that_was_lost(config, tmp_path, processes):
    run = tmp_path / "run"
    processes.extend(start_ranks(3, "-m", "lacuna", "train", config, "--out", run))
    wait_for_steps(processes[0], run, 5)
    processes[2].kill()
    for process in processes[:2]:
        assert_it_ends(process, "rank 2 has gone")
    assert "rank 2 has gone" in json.loads((run / "run.json").read_text())["message"]


@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_rank_ends_all(config, tmp_path, start, dies):
    run = tmp_path / "run"
    process = start(config, run)
    wait_for_steps(process, run, 5)
    ranks = ranks_of(process)
    assert set(ranks) == {0, 1}
    assert "state running; " in info(run)
    os.kill(ranks[dies], signal.SIGKILL)
    _, errors = process.communicate(timeout=SECONDS_TO_END)
    assert process.returncode != 0
    assert not any(is_alive(number) for number in ranks.values())
    # torchrun's words: it may be faster with its SIGTERM, and the other one stops without any.
    assert f"rank      : {dies} (local_rank: {dies})\n  exitcode  : -9 (pid: {ranks[dies]})" in errors, errors
    if dies == 1:  # rank 0 lived on to write down how far it came
        assert status(run) in ("failed", "stopped")
        assert saved_step(run) == len(lines(run, "step"))
    else:  # its run says that it runs, but nobody holds it: as for a single process that was killed
        assert status(run) == "running"
        assert "state killed; " in info(run) and "--resume" in info(run)
        assert lacuna("info", run, "--exit-code").returncode == 1


@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_rank_ends_who_waits_for_it(config, tmp_path, start_both, dies):
    """In a collective: a rank that is held still is waited for."""
    run = tmp_path / "run"
    ranks = start_both("-m", "lacuna", "train", config, "--out", run)
    wait_for_steps(ranks[0], run, 5)
    ranks[dies].send_signal(signal.SIGSTOP)
    wait_until_it_waits(ranks[1 - dies])
    ranks[dies].kill()
    assert_it_ends(ranks[1 - dies], f"rank {dies} has gone", f"rank {1 - dies} has lost another rank")
    if dies == 1:
        assert status(run) == "failed" and saved_step(run) == len(lines(run, "step"))
        assert lacuna("info", run, "--exit-code").returncode == 1


@pytest.mark.skipif(not IS_LONG, reason="takes a minute; make test-all runs it")
@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_rank_ends_who_is_in_a_long_step(tmp_path, start_both, dies):
    """A step of fifteen seconds, which is abandoned; no call of it has failed yet."""
    run = tmp_path / "run"
    new_screen(tmp_path / "screen", "--samples", 200, size="yeast")
    config = write_config(tmp_path, "width: 128, layers: 3", "batch: 32")
    ranks = start_both("-m", "lacuna", "train", config, "--out", run)
    wait_for_steps(ranks[0], run, 1)
    wait_until_it_computes(ranks[1 - dies])
    ranks[dies].kill()
    assert_it_ends(ranks[1 - dies], f"rank {dies} has gone")
    assert len(lines(run, "step")) == 1  # the second one was not over
    if dies == 1:
        assert status(run) == "failed" and saved_step(run) == 1


@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_rank_ends_who_computes_without_an_end(config, tmp_path, start_both, dies):
    """In a module of one's own, which nothing interrupts: the rank ends without a checkpoint."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    ranks = start_both(tmp_path / "endless.py", config.parent / "screen", tmp_path / "run")
    deadline = time.monotonic() + 200
    while not all((tmp_path / f"run.{rank}").exists() for rank in (0, 1)):
        assert all(rank.poll() is None for rank in ranks) and time.monotonic() < deadline
        time.sleep(0.05)
    ranks[dies].kill()
    assert_it_ends(ranks[1 - dies], f"rank {dies} has gone (killed, or failed with a message of its own); rank {1 - dies} ends")


@pytest.mark.parametrize("gets", [0, 1])
def test_sigusr1_to_one_rank_stops_all(config, tmp_path, start_both, gets):
    run = tmp_path / "run"
    ranks = start_both("-m", "lacuna", "train", config, "--out", run)
    wait_for_steps(ranks[0], run, 5)
    ranks[gets].send_signal(signal.SIGUSR1)
    said = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [75, 75], said
    assert "go on with: lacuna train --resume" in said[0][0] and said[1][0] == ""  # rank 0 alone speaks
    assert status(run) == "stopped" and saved_step(run) == len(lines(run, "step"))
    assert lacuna("info", run, "--exit-code").returncode == 75


def test_sigusr1_to_torchrun(config, tmp_path, start):
    """As docs/cluster.md says; SIGTERM is in test_ranks.py."""
    run = tmp_path / "run"
    process = start(config, run, options=["--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1"])
    wait_for_steps(process, run, 5)
    process.send_signal(signal.SIGUSR1)
    _, errors = process.communicate(timeout=60)
    assert status(run) == "stopped", errors
    assert saved_step(run) == len(lines(run, "step"))
    assert lacuna("info", run, "--exit-code").returncode == 75


@pytest.mark.parametrize("kills, epochs", [(2, 24), pytest.param(10, 60, marks=pytest.mark.skipif(
    not IS_LONG, reason="takes a minute; make test-all runs it"))])  # fmt: skip
def test_torchrun_restarts_where_a_rank_died(config, tmp_path, start, kills, epochs):
    """Of 20 steps an epoch: inside epochs, rank 1 and rank 0 in turn. The weights are those of a run that was never killed."""
    run, whole, words = tmp_path / "run", tmp_path / "whole", ["--set", f"train.epochs={epochs}"]
    process = start(config, run, *words, "--resume", options=["--max-restarts", kills])
    for kill in range(kills):
        wait_for_steps(process, run, 4 + 40 * kill)
        old = ranks_of(process)
        os.kill(old[(kill + 1) % 2], signal.SIGKILL)
        while len(set(ranks_of(process).values()) - set(old.values())) < 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert status(run) == "finished"
    assert [line["step"] for line in lines(run, "step")] == list(range(1, 20 * epochs + 1))
    train_ranks(2, "train", config, "--out", whole, *words)
    assert_same_bits(run, whole)
    assert_same_story(run, whole)
