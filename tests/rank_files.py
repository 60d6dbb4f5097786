"""Trainings by several ranks: the program inside Python processes that torchrun starts."""

import os
import subprocess
import sys

import pytest
from program import BUILD, ROOT, TORCH_PROGRAM

# Behind each other on two cores: one thread a rank, and no search for a network.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "LACUNA_LIBRARY": str(BUILD), "OMP_NUM_THREADS": "1"}
IS_MISSING = not TORCH_PROGRAM.exists()


def torchrun_words(ranks, *words, options=()):
    """The command that starts so many ranks on this machine."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *options, "-m", "lacuna"]
    return [str(word) for word in [*start, *words]]


def torchrun(ranks, *words, options=(), **more):
    """The finished torchrun."""
    if IS_MISSING:
        pytest.skip("a build without torch")
    return subprocess.run(torchrun_words(ranks, *words, options=options), capture_output=True, text=True, timeout=280,
                          env={**ENVIRONMENT, **more})


def train_ranks(ranks, *words, **more):
    done = torchrun(ranks, *words, **more)
    assert done.returncode == 0, done.stderr
    return done
