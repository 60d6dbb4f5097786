"""A rank that dies ends all, with its number; what was trained is kept."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from program import lacuna, new_screen, succeed
from rank_files import ENVIRONMENT, IS_MISSING, ranks_of, torchrun_words, wait_for_steps
from train_files import lines, status

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deaths")
    new_screen(folder / "screen")
    path = folder / "config.yaml"
    path.write_text(f"screen: {folder / 'screen'}\nmodel: {{name: hetero_gin, width: 8, layers: 2}}\n"
                    "train: {device: cpu, epochs: 1000, batch: 8, log_every: 1, checkpoint_minutes: 100}\n"
                    "evaluate: {baselines: false, bootstrap: 0}\n")
    return path


def start(config, run, *words, options=()):
    return subprocess.Popen(torchrun_words(2, "train", config, "--out", run, *words, options=options), env=ENVIRONMENT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_alive(number):
    try:
        return pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def info(run):
    return " ".join(succeed("info", run).split())


@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_rank_ends_all(config, tmp_path, dies):
    run = tmp_path / "run"
    process = start(config, run)
    wait_for_steps(process, run, 5)
    ranks = ranks_of(process)
    assert set(ranks) == {0, 1}
    assert "state running; " in info(run)
    os.kill(ranks[dies], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not any(is_alive(number) for number in ranks.values())
    assert f"rank {dies} has gone" in errors or "has lost another rank" in errors or "SIGKILL" in errors
    if dies == 1:  # rank 0 lived on to write down how far it came
        assert status(run) in ("failed", "stopped")
        assert (run / "checkpoints" / "last.safetensors").exists()
    else:  # its run says that it runs, but nobody holds it: as for a single process that was killed
        assert status(run) == "running"
        assert "state killed; " in info(run) and "--resume" in info(run)
        assert lacuna("info", run, "--exit-code").returncode == 1


def test_torchrun_restarts_where_a_rank_died(config, tmp_path):
    run = tmp_path / "run"
    process = start(config, run, "--set", "train.epochs=24", "--resume", options=["--max-restarts", "3"])
    for dies, steps in ((1, 4), (0, 40)):
        wait_for_steps(process, run, steps)
        old = ranks_of(process)
        os.kill(old[dies], signal.SIGKILL)
        while len(set(ranks_of(process).values()) - set(old.values())) < 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
    said, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert status(run) == "finished"
    steps = [line["step"] for line in lines(run, "step")]
    assert steps == list(range(1, len(steps) + 1))
