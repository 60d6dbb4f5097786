"""`lacuna bench loader`: what it counts is there, what is wrong is named."""

import json
import shutil

import numpy as np
import pytest
from program import accept_file, lacuna


def bench(*words):
    done = lacuna("bench", "loader", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "small"
    made = lacuna("generate", "screen", path, "--size", "small", "--samples", 20000, "--seed", 1)
    assert made.returncode == 0, made.stderr
    return path


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_counts_are_those_of_the_arrays(screen, threads):
    result = bench(screen, "--batch", 28, "--threads", threads, "--epochs", 3)
    samples = len(np.load(screen / "samples/ptr.npy")) - 1
    removed = len(np.load(screen / "samples/removed.npy"))
    batches = -(-samples // 28)
    assert result["samples"] == samples
    assert len(result["epochs"]) == 3
    # Removed genes and ptr as 4-byte integers, a 4-byte label.
    assert result["bytes_per_batch"] == pytest.approx((4 * removed + 4 * (samples + batches) + 4 * samples) / batches)
    assert result["samples_per_second"] > 0


def test_columns_add_their_bytes(screen):
    plain = bench(screen, "--epochs", 1)["bytes_per_batch"]
    more = bench(screen, "--epochs", 1, "--columns", "truth_gene,truth_noise")["bytes_per_batch"]
    batches = -(-20000 // 28)
    width = sum(np.load(screen / f"samples/{name}.npy").itemsize for name in ("truth_gene", "truth_noise"))
    assert more - plain == pytest.approx(20000 * width / batches)


def test_memory_does_not_grow_from_epoch_to_epoch(screen):
    own = [epoch["own_memory_bytes"] for epoch in bench(screen, "--epochs", 50)["epochs"]]
    assert own[-1] - own[0] < 1 << 20


def test_a_part_of_a_split(screen):
    done = lacuna("split", screen, "--name", "thirds", "--by", "random", "--seed", 1)
    assert done.returncode == 0, done.stderr
    parts = np.load(screen / "splits/thirds.npy")
    assert bench(screen, "--split", "thirds:test")["samples"] == (parts == 2).sum()
    done = lacuna("bench", "loader", screen, "--split", "thirds:tset")
    assert done.returncode == 1 and "tset" in done.stderr
    done = lacuna("bench", "loader", screen, "--split", "halves:test")
    assert done.returncode == 1 and "halves" in done.stderr and "thirds" in done.stderr


@pytest.mark.parametrize(
    "words, code, named",
    [
        (["--split", "random"], 2, "NAME:PART"),
        (["--columns", "nothing"], 1, "no column 'nothing'"),
        (["--batch", "0"], 2, "--batch"),
        (["--threads", "-1"], 2, "--threads"),
        (["--epochs", "0"], 2, "--epochs"),
        (["--batch", "4294967296", "--prefetch", "4294967296"], 1, "4,294,967,296 batches ahead (--prefetch) of "),
    ],
)
def test_errors_name_the_culprit(screen, words, code, named):
    done = lacuna("bench", "loader", screen, *words)
    assert done.returncode == code
    assert done.stderr.startswith("error: ") and named in done.stderr and done.stderr.count("\n") == 1


def test_a_gene_out_of_range_is_named_with_its_sample(screen, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(screen, broken)
    removed = np.load(broken / "samples/removed.npy", mmap_mode="r+")
    ptr = np.load(broken / "samples/ptr.npy")
    removed[ptr[1234]] = 5000
    removed.flush()
    accept_file(broken, "samples/removed.npy")
    done = lacuna("bench", "loader", broken)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {broken}: sample 1234 removes gene index 5000, but the screen has 1000 genes")


def test_help_has_an_example():
    assert "lacuna bench loader demo" in lacuna("bench", "loader", "--help").stdout
