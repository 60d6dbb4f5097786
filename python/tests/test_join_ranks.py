"""lacuna.join_ranks(): ranks of a script of one's own, as torchrun starts them."""

import os
import subprocess
import sys
from pathlib import Path

import torch

import lacuna

SCRIPT = """
import sys, torch, torch.distributed as distributed, lacuna
lacuna.join_ranks()
lacuna.join_ranks()  # once more: nothing happens
number = torch.tensor([10.0 ** distributed.get_rank()])
distributed.all_reduce(number)
sys.stdout.write(f"{distributed.get_world_size()} {number.item()}\\n")  # at once: both write to one pipe
"""


def test_alone_nothing_happens(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    lacuna.join_ranks()
    assert not torch.distributed.is_initialized()
    monkeypatch.setenv("WORLD_SIZE", "2")  # as Lightning starts its processes, and connects them itself
    lacuna.join_ranks()
    assert not torch.distributed.is_initialized()


def test_two_ranks_of_torchrun_are_connected(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    known = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).resolve().parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=known, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["2 11.0", "2 11.0", ""]
