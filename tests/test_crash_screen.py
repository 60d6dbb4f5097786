"""A screen is there as a whole or not at all, whenever its writer dies and whatever the system refuses."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import pytest
from program import PROGRAM, Started, fail, lacuna, succeed


def generate(path):
    return ["generate", "screen", path, "--size", "small", "--samples", 3000, "--seed", 1]


def files_in(path):
    return sum(file.is_file() for file in path.rglob("*"))


def test_killed_writers_leave_nothing_that_reads_as_a_screen(tmp_path, seed):
    """Killed when so many of its files are there: at the first of them, and anywhere."""
    succeed(*generate(tmp_path / "first"))
    whole = files_in(tmp_path / "first")
    files = {path: path.read_bytes() for path in (tmp_path / "first").rglob("*.npy")}
    states = set()
    for target in [1, *(random.randrange(whole + 2) for _ in range(5))]:
        path = tmp_path / "screen"
        shutil.rmtree(path, ignore_errors=True)
        writing = Started(*generate(path))
        writing.wait_for(lambda: files_in(path) >= target)
        writing.end(signal.SIGKILL)
        if (path / "manifest.json").exists():
            succeed("info", path, "--check")
            states.add("finished")
            continue
        words = fail("info", path)
        assert "unfinished" in words or "no such directory" in words or "no manifest.json" in words
        states.add("unfinished")
        succeed(*generate(path))  # the same command starts afresh
        succeed("info", path, "--check")
        for file, data in files.items():
            assert (path / file.relative_to(tmp_path / "first")).read_bytes() == data
    assert "unfinished" in states


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    path = tmp_path / "screen"
    first = Started("generate", "screen", path, "--size", "small", "--samples", 300000, "--seed", 1)
    assert first.wait_for(lambda: files_in(path) > 1)
    first.process.send_signal(signal.SIGSTOP)  # it holds still, and its lock
    try:
        assert not (path / "manifest.json").exists(), "it ended before it was held"
        words = fail("generate", "screen", path, "--size", "tiny", "--samples", 100)
        assert f"{path}: in use by another program" in words
        assert f"process {first.process.pid} on " in words and "--samples 300000 --seed 1); wait until" in words
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(280) == 0
    assert json.loads(succeed("info", path, "--json", "--check"))["samples"]["count"] == 300000


def test_killed_splits_leave_the_screen_whole(tmp_path, seed):
    """Killed as soon as a file of the new split is seen, or any time before."""
    path = tmp_path / "screen"
    succeed(*generate(path))
    known = set()
    for round in range(8):
        name = f"s{round}"
        splitting = Started("split", path, "--name", name, "--by", "random")
        deadline = time.monotonic() + random.choice([random.uniform(0, 0.05), 60])
        splitting.wait_for(lambda: list((path / "splits").glob(name + ".*")) or time.monotonic() > deadline)
        splitting.end(signal.SIGKILL)
        splits = {split["name"] for split in json.loads(succeed("info", path, "--json", "--check"))["splits"]}
        assert known <= splits <= known | {name}
        if name not in splits:
            succeed("split", path, "--name", name, "--by", "random")  # what the dead one left is no obstacle
        known.add(name)


def test_splits_added_at_once_are_all_there(tmp_path):
    path = tmp_path / "screen"
    succeed(*generate(path))
    for round in range(3):
        adding = [subprocess.Popen([str(PROGRAM), "split", path, "--name", f"s{round}-{i}", "--by", "random"],
                                   stdout=subprocess.DEVNULL) for i in range(4)]
        assert [process.wait() for process in adding] == [0, 0, 0, 0]
    splits = {split["name"] for split in json.loads(succeed("info", path, "--json", "--check"))["splits"]}
    assert {f"s{round}-{i}" for round in range(3) for i in range(4)} <= splits


def file_limit(limit):
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}


@pytest.mark.parametrize("limit", [0, 10, 200, 1000, 3000, 10000, 17000, 100000, 1000000])
def test_any_limit_on_file_sizes(tmp_path, limit):
    """The write that fails may be of the first manifest or of any array."""
    out = tmp_path / "out"
    if limit < 1000000:
        assert "File too large" in fail(*generate(out), **file_limit(limit))
        fail("info", out)
        succeed(*generate(out))
    else:
        succeed(*generate(out), **file_limit(limit))
    succeed("info", out, "--check")


def test_a_manifest_that_cannot_be_replaced_stays(tmp_path):
    path = tmp_path / "screen"
    succeed(*generate(path))
    before = (path / "manifest.json").read_bytes()
    limit = 6000
    assert 3128 < limit < len(before)  # the split fits, the manifest does not
    assert "manifest.json" in fail("split", path, "--name", "x", "--by", "random", **file_limit(limit))
    assert (path / "manifest.json").read_bytes() == before
    succeed("split", path, "--name", "x", "--by", "random")
    succeed("info", path, "--check")


def memory_limit(megabytes):
    limit = megabytes << 20
    return {
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        "env": os.environ | {"LACUNA_THREADS": "1"},
    }


@pytest.fixture(scope="module")
def least_memory():
    """In megabytes, what the program needs to start: with its libraries, which may be large."""
    low, high = 0, 8192
    while high - low > 1:
        middle = (low + high) // 2
        starts = lacuna("--version", **memory_limit(middle)).returncode == 0
        low, high = (low, middle) if starts else (middle, high)
    return high


@pytest.mark.parametrize("megabytes", [0, 10, 20, 30, 40])
def test_little_memory_is_an_error_not_a_crash(tmp_path, least_memory, megabytes):
    """Allocations and mappings fail somewhere inside; what comes out is a line."""
    limited = memory_limit(least_memory + megabytes)
    words = fail("generate", "screen", tmp_path / "out", "--size", "yeast", "--samples", 300000, "--seed", 1, **limited)
    assert "memory" in words
