"""Ranks on a GPU. NCCL takes one rank a GPU, so with one GPU it is tried by a group of one rank, which calls the same
collectives as several and gives the bits of a process without a group; two ranks share a GPU over gloo."""

import json
import subprocess
import sys

import numpy as np
import pytest
from program import succeed
from rank_files import ENVIRONMENT, IS_MISSING, train_ranks
from test_ranks import assert_like, losses
from train_files import make_tables, words

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")

ONE_RANK = """
import sys
from lacuna._ranks import Place, run
run(Place(rank=0, world=1, local_rank=0, local_world=1, address="localhost", port=0, attempt="0", has_host=False), sys.argv[1:])
"""


def has_gpu():
    torch = pytest.importorskip("torch")
    return torch.cuda.is_available()


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not has_gpu():
        pytest.skip("no GPU")
    return request.param


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu-ranks")
    return folder, make_tables(folder, "tables")


def command(data, out, device, **changes):
    """Full batches of 20, so that all steps but the first few can be recorded."""
    folder, split = data
    return words(folder, folder / out, screen="tables", split=split, train__batch=20, train__epochs=6, train__device=device,
                 train__hide=0.3, **changes)


def call_as_one_rank(*given):
    done = subprocess.run([sys.executable, "-c", ONE_RANK, *map(str, given)], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


def test_a_group_of_one_rank_has_the_bits_of_a_process_alone(data, device):
    folder, _ = data
    given = command(data, f"one-{device}", device)
    call_as_one_rank(*given)
    alone = command(data, f"alone-{device}", device)
    succeed(*alone)
    assert len(losses(folder / f"one-{device}")) == 18
    assert np.array_equal(losses(folder / f"one-{device}"), losses(folder / f"alone-{device}"))


def test_a_step_with_nccl_is_recorded(data):
    if not has_gpu():
        pytest.skip("no GPU")
    folder, _ = data
    given = command(data, "profiled", "cuda")
    place = given.index("--out")
    call_as_one_rank("profile", *given[1:place], *given[place + 2 :], "--out", folder / "profile")
    assert json.loads((folder / "profile" / "profile.json").read_text())["recorded_ms_per_step"] > 0


def test_two_ranks_share_a_gpu(data):
    if not has_gpu():
        pytest.skip("no GPU")
    folder, _ = data
    succeed(*command(data, "one-of-gpu", "cuda"))
    train_ranks(2, *command(data, "two-of-gpu", "cuda"))
    assert_like(folder / "two-of-gpu", folder / "one-of-gpu")
