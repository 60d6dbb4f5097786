"""Trainings by several ranks: the program inside Python processes that torchrun starts."""

import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest
from program import BUILD, ROOT, TORCH_PROGRAM
from train_files import lines

# Behind each other on two cores: one thread a rank, and no search for a network.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "LACUNA_LIBRARY": str(BUILD), "OMP_NUM_THREADS": "1"}
IS_MISSING = not TORCH_PROGRAM.exists()
IS_LONG = bool(os.environ.get("LACUNA_TEST_ALL"))  # make test-all
# What ranks have to end once another one has died: ten seconds are promised, but a machine that is busy with other tests
# may need them to start a process.
SECONDS_TO_END = 10 if IS_LONG else 60


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


def start_ranks(count, *words):
    """The processes as srun starts them: there is no torchrun that ends the others, or takes their exit codes."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    known = {**ENVIRONMENT, "SLURM_STEP_NUM_TASKS": str(count), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return [subprocess.Popen([sys.executable, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**known, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)})
            for rank in range(count)]  # fmt: skip


def ranks_of(process):
    """{rank: process number} of the ranks that a torchrun has started."""
    found = {}
    for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        try:
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        known = dict(variable.split(b"=", 1) for variable in variables if b"=" in variable)
        if b"RANK" in known:
            found[int(known[b"RANK"])] = int(child)
    return found


def wait_for_steps(process, run, count):
    deadline = time.monotonic() + 200
    while len(lines(run, "step")) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
