"""lacuna.train on several ranks, which torchrun starts with this file as their script."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import lacuna

pytest.importorskip("pandas")
CONFIG = {
    "split": "random",
    # 120 samples: of the last batch, which has one, rank 1 gets nothing.
    "train": {"epochs": 2, "batch": 17, "lr": 1e-2, "log_every": 1},
    "evaluate": {"baselines": False, "bootstrap": 0},
}


class Counting(torch.nn.Module):
    """Two layers, and a buffer that depends on the samples that were seen."""

    def __init__(self, genes, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.table = torch.nn.EmbeddingBag(genes, 8, mode="sum", include_last_offset=True)
        self.head = torch.nn.Sequential(torch.nn.ELU(), torch.nn.Linear(8, 1))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.steps, self.signal_at, self.fails, self.noise, self.starts = 0, None, False, [], []

    def forward(self, removed, ptr):
        if self.training:
            self.starts.append(int(self.seen))
            self.seen += removed.sum()
            self.noise.append(torch.rand(()).item())
            self.steps += 1
            if self.steps == self.signal_at:
                assert not self.fails, "mine alone"
                os.kill(os.getpid(), 15)
        return self.head(self.table(removed, ptr))


def sums(model):
    return {name: value.double().abs().sum().item() for name, value in model.state_dict().items()}


def main(screen, out, signal_at, fails):
    """One rank: rank 0's weights and buffers are those of all."""
    rank = int(os.environ["RANK"])
    model = Counting(len(lacuna.Screen.open(screen).genes), seed=1 + rank)
    model.signal_at = int(signal_at) if rank == 1 else None
    model.fails = fails == "True"
    run = lacuna.train(model, screen, CONFIG, out=out)
    Path(f"{out}.{rank}").write_text(repr((sums(model), model.noise, run.status, model.starts)))


def torchrun(screen, out, signal_at=0, fails=False):
    # With the package that is under test, and without looking for a network.
    known = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    return subprocess.run([*words, str(screen), str(out), str(signal_at), str(fails)], capture_output=True, text=True, timeout=200,
                          env=known)  # fmt: skip


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    screen = lacuna.Screen.generate(tmp_path_factory.mktemp("ranks") / "tiny", seed=4)
    screen.make_split("random", fractions=(0.6, 0.2, 0.2), seed=1)
    return screen


@pytest.fixture(scope="module")
def alone(screen, tmp_path_factory):
    model = Counting(len(screen.genes), seed=1)
    return model, lacuna.train(model, screen, CONFIG, out=tmp_path_factory.mktemp("alone") / "run", show=False)


def test_two_ranks_take_the_steps_of_one(screen, alone, tmp_path):
    model, run = alone
    done = torchrun(screen.path, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch 2/2") == 1  # rank 0 alone speaks
    first, second = (ast.literal_eval((tmp_path / f"run.{rank}").read_text()) for rank in (0, 1))
    assert first[0] == second[0] and first[2] == second[2] == "finished"
    assert first[3] == second[3] and len(set(first[3])) > 10  # every step begins with rank 0's buffers
    for name, value in sums(model).items():
        if name == "seen":  # rank 0's samples, about half of all
            assert 0 < first[0][name] < value
        else:
            assert first[0][name] == pytest.approx(value, rel=1e-4)
    assert len(first[1]) == len(second[1]) and not set(first[1]) & set(second[1])  # dropout would draw other numbers
    theirs = lacuna.Run.open(tmp_path / "run")
    np.testing.assert_allclose(theirs.metrics()["train_loss"], run.metrics()["train_loss"], rtol=1e-5)
    np.testing.assert_allclose(theirs.predictions("test")["predicted"], run.predictions("test")["predicted"], atol=1e-5)


def test_a_signal_to_one_rank_stops_all_and_one_process_goes_on(screen, alone, tmp_path):
    done = torchrun(screen.path, tmp_path / "run", signal_at=6)
    assert done.returncode != 0 and not (tmp_path / "run.0").exists(), done.stderr
    assert "exitcode  : 75" in done.stderr, done.stderr
    stopped = lacuna.Run.open(tmp_path / "run")
    assert stopped.status == "stopped"
    _, about = lacuna._core.read_checkpoint(stopped.checkpoint("last"))
    step = json.loads(about["lacuna"])["train"]["step"]
    assert 6 <= step < 16  # Python may hear a signal a step later
    model = Counting(len(screen.genes), seed=9)  # the checkpoint's weights come in their place
    run = lacuna.train(model, screen, CONFIG, out=tmp_path / "run", resume=True, show=False)
    assert run.status == "finished"
    assert model.steps == 16 - step
    np.testing.assert_allclose(run.predictions("test")["predicted"], alone[1].predictions("test")["predicted"], atol=1e-5)


def test_what_one_rank_raises_ends_all(screen, tmp_path):
    done = torchrun(screen.path, tmp_path / "run", signal_at=3, fails=True)
    assert done.returncode != 0 and "AssertionError: mine alone" in done.stderr, done.stderr
    assert not (tmp_path / "run.0").exists() and "epoch 1/" not in done.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
