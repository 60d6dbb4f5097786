"""`lacuna plan`: sizes as NumPy counts them, picks that follow the machine, words with numbers."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from program import ROOT, accept_file, fail, has_torch, lacuna, succeed

RUNGS = "disk:u8 disk:bits disk:bf16 disk:positions ram:u8 ram:bits worker device kernel".split()

# What plan asks of the driver, with the answers of a card that does not exist.
FAKE_DRIVER = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { *device = 0; return index != 0; }
int nvmlDeviceGetName(void* device, char* name, unsigned length) { strncpy(name, "Imagined 9000", length); return 0; }
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  memory[0] = 80000000000ull; memory[1] = 70000000000ull; memory[2] = 10000000000ull; return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) { *value = 4; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) { *value = 16; return 0; }
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* value) { *value = 1500; return kind != 2; }
"""


@pytest.fixture(scope="module", params=["tiny", "small"])
def screen(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / request.param
    succeed("generate", "screen", path, "--size", request.param, "--seed", 1)
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "tiny"
    succeed("generate", "screen", path, "--size", "tiny", "--samples", 200, "--seed", 1)
    return path


def plan(screen, *words, **options):
    result = json.loads(succeed("plan", screen, *words, "--json", **options))
    result["by_rung"] = {rung["rung"]: rung for rung in result["rungs"]}
    return result


def padded(count, alignment=64):
    return -(-count // alignment) * alignment


def counts_of(screen):
    """Elements of each mask, from the files."""
    nodes = [len(file.read_text().split("\n")) - 1 for file in (screen / "nodes").glob("*.txt")]
    edges = [np.load(file).shape[1] for file in (screen / "edges").glob("*.npy") if file.name.count(".") == 3]
    return nodes + edges


def test_sizes_are_those_of_the_arrays(screen):
    result = plan(screen)
    assert list(result["by_rung"]) == RUNGS
    samples = len(np.load(screen / "samples/ptr.npy")) - 1
    counts = counts_of(screen)
    u8 = sum(padded(count) for count in counts)
    assert result["sizes"]["u8"]["record_bytes"] == u8
    assert result["sizes"]["bits"]["record_bytes"] == sum(padded(-(-count // 8)) for count in counts)
    assert result["sizes"]["bf16"]["record_bytes"] == sum(padded(2 * count) for count in counts)
    if u8 > 2048:  # large values take whole pages, 16 bytes of which are LMDB's, and a place in a leaf
        assert result["by_rung"]["disk:u8"]["disk_bytes"] == pytest.approx(
            samples * (padded(16 + 48 + u8, 4096) + 4096 / 185)
        )
    assert result["by_rung"]["ram:u8"]["memory_bytes"] >= samples * u8
    removed = len(np.load(screen / "samples/removed.npy")) / samples
    indices = int(28 * (4 * removed + 4 + 4) + 4)
    assert result["by_rung"]["kernel"]["moved_bytes_per_batch"] == indices
    assert result["by_rung"]["worker"]["moved_bytes_per_batch"] == indices + 28 * u8


def test_json_has_everything(screen):
    result = plan(screen, "--epochs", 7, "--batch", 5)
    assert (result["epochs"], result["batch"]) == (7, 5)
    assert result["samples"] == result["screen_samples"] == len(np.load(screen / "samples/ptr.npy")) - 1
    assert result["pick"] == "kernel" and result["masks_pick"] in RUNGS[:-1]
    assert result["reason"] and result["masks_reason"]
    for figure in "memory_bytes disk_free_bytes disk_write_bytes_per_second disk_read_bytes_per_second cores".split():
        assert result["machine"][figure]["value"] > 0 and result["machine"][figure]["from"]
    for rung in result["rungs"]:
        assert rung["fits"] == (rung["lacks"] == [])
        assert rung["ms_per_batch"] > 0
        batch = rung["ms_per_batch"] + rung["later_ms_per_batch"] + rung["cold_ms_per_batch"]
        assert rung["epoch_seconds"] == pytest.approx(-(-result["samples"] // 5) * batch / 1000)
        assert rung["total_seconds"] == pytest.approx(
            rung["prepare_seconds"] + rung["start_seconds"] + 7 * rung["epoch_seconds"]
        )
        assert (rung["prepare_seconds"] > 0) == rung["rung"].startswith("disk:")
    assert result["costs"]["indices_seconds_per_batch"] > 0 and result["costs"]["handed_seconds_per_batch"] > 0


def test_another_number_of_samples(tiny):
    here, there = plan(tiny), plan(tiny, "--samples", 20_000_000)
    assert there["samples"] == 20_000_000 and there["screen_samples"] == 200
    for rung in RUNGS[:4]:
        ratio = there["by_rung"][rung]["disk_bytes"] / here["by_rung"][rung]["disk_bytes"]
        assert ratio == pytest.approx(100_000)
    assert there["by_rung"]["kernel"]["memory_bytes"] == here["by_rung"]["kernel"]["memory_bytes"]
    assert any("20,000,000" in note and "200" in note for note in there["notes"])


def test_memory_and_disk_as_told(tiny):
    result = plan(tiny, "--memory", "30kB", "--disk", "1.5MB")
    assert result["machine"]["memory_bytes"] == {"value": 30_000, "from": "--memory"}
    assert result["machine"]["disk_free_bytes"] == {"value": 1_500_000, "from": "--disk"}
    assert not result["by_rung"]["worker"]["fits"] and not result["by_rung"]["ram:u8"]["fits"]
    assert "in memory with 20% margin, 30.0 kB free" in result["by_rung"]["worker"]["lacks"][0]
    assert result["pick"] == "kernel"
    nothing = plan(tiny, "--memory", "0", "--disk", "0")
    assert nothing["pick"] is None and nothing["masks_pick"] is None
    plenty = plan(tiny, "--memory", "1TiB", "--disk", "8TB")
    assert all(rung["fits"] for rung in plenty["rungs"])


def test_table_for_people(tiny):
    text = succeed("plan", tiny, "--memory", "16GB", "--disk", "258GB", "--samples", 332_313_000)
    lines = text.splitlines()
    for rung in RUNGS:
        assert sum(line.startswith(rung + " ") for line in lines) == 1, rung
    assert [line.split()[0] for line in lines if line.endswith("<- picked")] == ["kernel"]
    assert any(line.startswith("picked: kernel: nothing to store") for line in lines)
    assert "disk:u8 needs" in text and "on disk with 20% margin, 258 GB free" in text
    assert "16.0 GB" in text and "--memory" in text


def test_a_gpu_by_its_driver(tiny, tmp_path):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (tmp_path / "driver.c").write_text(FAKE_DRIVER)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, tmp_path / "driver.c"], check=True)
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    result = plan(tiny, env=environment)
    gpu = result["machine"]["gpu"]
    assert gpu["name"] == "Imagined 9000"
    assert gpu["memory_bytes"]["value"] == 70e9
    assert gpu["link_bytes_per_second"]["value"] == pytest.approx(0.8 * 16 * 1.97e9)
    assert gpu["link_bytes_per_second"]["from"] == "assumed: 80% of PCIe 4.0 x16"
    assert gpu["memory_bytes_per_second"]["from"].startswith("assumed")  # it knows no bus width
    assert result["by_rung"]["device"]["device_bytes"] > 28 * result["sizes"]["u8"]["record_bytes"]
    assert result["by_rung"]["worker"]["later_ms_per_batch"] > result["by_rung"]["kernel"]["later_ms_per_batch"] > 0
    assert any("PCIe 4.0 x16" in note for note in result["notes"])
    hidden = plan(tiny, env=environment | {"CUDA_VISIBLE_DEVICES": ""})
    assert hidden["machine"]["gpu"] is None and "CUDA_VISIBLE_DEVICES" in hidden["machine"]["gpu_from"]
    for asked in ("7", "GPU-no-such"):  # there is one, with index 0, and this driver knows no UUIDs
        absent = plan(tiny, env=environment | {"CUDA_VISIBLE_DEVICES": asked})
        assert absent["machine"]["gpu"] is None and f"has no GPU {asked}" in absent["machine"]["gpu_from"]


def test_nothing_is_left_behind(tiny, tmp_path):
    folder = tmp_path / "stores"
    folder.mkdir()
    before = sorted(path.name for path in tiny.parent.iterdir())
    (tmp_path / "tmp").mkdir()
    result = plan(tiny, "--out", folder, env={"TMPDIR": str(tmp_path / "tmp")})
    assert result["machine"]["folder"] == str(folder)
    assert list(folder.iterdir()) == [] and list((tmp_path / "tmp").iterdir()) == []
    assert sorted(path.name for path in tiny.parent.iterdir()) == before


@pytest.mark.parametrize(
    "words, code, named",
    [
        (["--memory", "plenty"], 2, "'plenty' is no number of bytes"),
        (["--disk", "-4GB"], 2, "-4GB"),
        (["--samples", "0"], 2, "--samples"),
        (["--batch", "0"], 2, "--batch"),
        (["--epochs", "0"], 2, "--epochs"),
        (["--out", "/nowhere/at/all"], 1, "/nowhere/at/all: no such folder"),
    ],
)
def test_errors_name_the_culprit(tiny, words, code, named):
    assert named in fail("plan", tiny, *words, code=code)


def test_damaged_sample_is_named(tiny, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(tiny, broken)
    removed = np.load(broken / "samples/removed.npy", mmap_mode="r+")
    removed[3 * 7] = 40
    removed.flush()
    accept_file(broken, "samples/removed.npy")
    assert "sample 7 removes gene index 40" in fail("plan", broken)


def test_help_has_an_example():
    assert "lacuna plan demo" in lacuna("plan", "--help").stdout


def test_how_long_a_training_takes_is_measured(tiny):
    if not has_torch():
        pytest.skip("a build without torch")
    succeed("split", tiny, "--name", "random", "--by", "random", "--seed", 1)
    config = ROOT / "configs" / "tiny.yaml"
    words = ("--config", config, "--set", "train.device=cpu", "--set", "train.batch=16", "--set", "train.epochs=7")
    found = plan(tiny, *words)["training"]
    assert found["epochs"] == 7 and found["steps_an_epoch"] == 10 and found["step_seconds"] > 0  # 160 samples
    assert found["seconds"] == pytest.approx(70 * found["step_seconds"]) and found["advice"] == ""
    long = succeed("plan", tiny, *words, "--set", "train.epochs=1000000000")
    assert "this takes hours on a CPU. Shorter: a GPU" in long and "steps an epoch, 1,000,000,000 epochs" in long
    same = json.loads(succeed("plan", *words, "--set", f"screen={tiny}", "--json"))  # the config names the screen
    assert same["screen_samples"] == 200 and same["training"]["steps_an_epoch"] == 10
    assert "DATA is required, or --config" in fail("plan", code=2)
    assert "with --config CONFIG it is timed" in succeed("plan", tiny)
    assert "--set goes with --config" in fail("plan", tiny, "--set", "train.epochs=7", code=2)
