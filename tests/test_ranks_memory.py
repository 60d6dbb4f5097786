"""What ranks map from files lies in memory once, however many of them read it."""

import pathlib
import re
import signal
import subprocess

import pytest
from program import succeed
from rank_files import ENVIRONMENT, IS_MISSING, ranks_of, torchrun_words, wait_for_steps

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")


def resident(process, folder):
    """{file: (Rss, Pss) in kB} of what a process has mapped of a folder's files."""
    found, name = {}, None
    for line in pathlib.Path(f"/proc/{process}/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            path = line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) > 5 else ""
            name = path if path.startswith(str(folder)) else None
        elif name and line.startswith(("Rss:", "Pss:")):
            rss, pss = found.get(name, (0, 0))
            size = int(line.split()[1])
            found[name] = (rss + size, pss) if line.startswith("Rss:") else (rss, pss + size)
    return found


def test_a_store_lies_in_memory_once(tmp_path):
    """Masks of 8 MB, which both ranks have read after an epoch of 19 steps."""
    screen, store, run = tmp_path / "screen", tmp_path / "store", tmp_path / "run"
    succeed("generate", "screen", screen, "--size", "mini", "--samples", 2000, "--seed", 1)
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", 1)
    succeed("prepare", screen, "--rung", "disk:u8", "--out", store)
    config = tmp_path / "config.yaml"
    config.write_text(f"screen: {screen}\nrung: disk:u8\nstore: {store}\n"
                      "model: {name: hetero_gin, width: 8, layers: 2}\n"
                      "train: {device: cpu, epochs: 1000, batch: 64, log_every: 1}\n"
                      "evaluate: {baselines: false, bootstrap: 0}\n")
    process = subprocess.Popen(torchrun_words(2, "train", config, "--out", run), env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        wait_for_steps(process, run, 25)
        maps = [resident(number, tmp_path) for number in ranks_of(process).values()]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
    data = [file for file in maps[0] if pathlib.Path(file).name == "data.mdb"]
    assert data and data[0] in maps[1]
    size = pathlib.Path(data[0]).stat().st_size / 1024
    both = [of[data[0]][1] for of in maps]
    print(f"{size:.0f} kB on disk; {both} kB in memory by rank, each file counted once")
    assert sum(both) <= 1.05 * size
    assert min(of[data[0]][0] for of in maps) > 0.3 * size  # both have read much of it: were it copied, it would show
