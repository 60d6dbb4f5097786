"""torchrun restarts examples/lightning_screen.py where a rank dies; this file is the script that it starts."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lacuna

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lightning_screen.py"
# Of 21 steps, 7 an epoch, with a checkpoint every other step: behind one and between two, at the ends of epochs, in the first
# step and in the last. The ranks die in turn.
DEATHS = [1, 4, 5, 7, 8, 11, 14, 15, 18, 21]


def load():
    spec = importlib.util.spec_from_file_location("lightning_screen", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(screen, folder, *deaths):
    """One rank of one attempt, of which one dies where `deaths` says; behind them one that trains to the end."""
    attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    dies = attempt < len(deaths) and attempt % 2 == rank
    torch.manual_seed(1 + rank)
    load().train(lacuna.Screen.open(screen), Path(folder), devices=2, die_at=int(deaths[attempt]) if dies else None)
    Path(folder, f"ended{rank}").write_text(str(attempt))


def torchrun(screen, folder, deaths):
    folder.mkdir()
    known = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).resolve().parents[1]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", len(deaths),
             __file__, screen, folder, *deaths]  # fmt: skip
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, env=known)
    assert done.returncode == 0, done.stderr
    assert [(folder / f"ended{rank}").read_text() for rank in (0, 1)] == [str(len(deaths))] * 2
    return load().seen(folder), torch.load(folder / "epoch=2-step=20.ckpt", weights_only=False)["state_dict"]


@pytest.mark.skipif(not os.environ.get("LACUNA_TEST_ALL"), reason="takes a minute; make test-all runs it")
def test_torchrun_restarts_lightning(tmp_path):
    """The samples of every step and the weights are those of a training that was never killed."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    screen = lacuna.Screen.generate(tmp_path / "screen", size="tiny", seed=1)
    screen.make_split("random", fractions=(0.8, 0.1, 0.1))
    whole, weights = torchrun(screen.path, tmp_path / "whole", [])
    broken, its_weights = torchrun(screen.path, tmp_path / "broken", DEATHS)
    assert broken == whole and len(whole) == 2 * 21
    torch.testing.assert_close(its_weights, weights, rtol=0, atol=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
