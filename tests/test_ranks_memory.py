"""What ranks read lies in memory once, however many of them read it: files that are mapped, masks and frames that are held."""

import os
import pathlib
import re
import signal
import subprocess

import pytest
from program import succeed
from rank_files import ENVIRONMENT, IS_MISSING, ranks_of, torchrun_words, wait_for_steps

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")

MODELS = {"screen": "{name: hetero_gin, width: 8, layers: 2}", "edges": "{name: hetero_gin, width: 8, layers: 1, output: global}", "recording": "{channels: 2, temporal: 2, layers: 1}"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A screen whose masks take 8 MB with a store of them, one with more edges, and a recording with 5 MB of frames."""
    folder = tmp_path_factory.mktemp("memory")
    screen, recording = folder / "screen", folder / "recording"
    succeed("generate", "screen", screen, "--size", "mini", "--samples", 2000, "--seed", 1)
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", 1)
    succeed("generate", "screen", folder / "edges", "--size", "small", "--samples", 2000, "--seed", 1)
    succeed("split", folder / "edges", "--name", "random", "--by", "random", "--seed", 1)
    succeed("prepare", screen, "--rung", "disk:u8", "--out", folder / "store")
    succeed("generate", "recording", recording, "--sessions", 1, "--minutes", 2.5, "--side", 17, "--units", 3, "--seed", 1)
    succeed("split", recording, "--name", "trials", "--seed", 1)
    return folder


def resident(process, name):
    """(size, Rss, Pss) in kB of what a process has mapped whose file is called so."""
    sums, is_it = {"Size:": 0, "Rss:": 0, "Pss:": 0}, False
    for line in pathlib.Path(f"/proc/{process}/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            is_it = name in line
        elif is_it and line.split()[0] in sums:
            sums[line.split()[0]] += int(line.split()[1])
    return list(sums.values())


def start(data, kind, rung, run):
    store = f"store: {data / 'store'}\n" if kind == "screen" and rung.startswith("disk") else ""
    window = "window: {lags: 2}\n" if kind == "recording" else ""
    config = data / f"{kind}-{rung.replace(':', '-')}.yaml"
    config.write_text(f"{'recording' if kind == 'recording' else 'screen'}: {data / kind}\nrung: {rung}\n{store}{window}model: {MODELS[kind]}\n"
                      "train: {device: cpu, epochs: 1000, batch: 64, log_every: 1}\n"
                      + ("" if kind == "recording" else "evaluate: {baselines: false, bootstrap: 0}\n"))
    return subprocess.Popen(torchrun_words(2, "train", config, "--out", run), env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind, rung, name, least", [
    ("screen", "disk:u8", "/store/data.mdb", 4000),
    ("screen", "ram:u8", "memfd:lacuna", 4000),
    ("edges", "kernel", "memfd:lacuna", 400),  # the plan of its graph
    ("recording", "ram:u8", "memfd:lacuna", 4000),
])  # fmt: skip
def test_what_is_read_lies_in_memory_once(data, tmp_path, kind, rung, name, least):
    """Both ranks have read much of it: were it copied, it would show."""
    process = start(data, kind, rung, tmp_path / "run")
    try:
        wait_for_steps(process, tmp_path / "run", 40)
        maps = [resident(number, name) for number in ranks_of(process).values()]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
    print(f"{kind} {rung}: size, resident and share of each rank, kB: {maps}")
    size = max(of[0] for of in maps)
    assert size > least
    assert min(rss for _, rss, _ in maps) > 0.3 * size
    assert sum(pss for *_, pss in maps) <= 1.05 * size


def test_killed_ranks_leave_nothing_behind(data, tmp_path):
    before = set(os.listdir("/dev/shm"))
    process = start(data, "screen", "ram:u8", tmp_path / "run")
    wait_for_steps(process, tmp_path / "run", 3)
    for number in [process.pid, *ranks_of(process).values()]:
        os.kill(number, signal.SIGKILL)
    process.communicate(timeout=100)
    assert {name for name in os.listdir("/dev/shm") if "lacuna" in name or "torch" in name} <= before
