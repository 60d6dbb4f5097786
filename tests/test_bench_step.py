"""`lacuna bench step` and bench/step.py: the forms that are timed beside each other predict the same."""

import importlib.util
import json
import subprocess
import sys

import pytest
from program import PROGRAM, ROOT, fail, has_torch, succeed, write_config


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_config(tmp_path_factory.mktemp("step"), "width: 8, layers: 2, output: global")


def test_every_batch_size_starts_from_the_same_weights(config, tmp_path):
    def predictions(batches):
        out = tmp_path / "steps.json"
        succeed("bench", "step", config, "--batch", batches, "--steps", 2, "--warm", 0, "--json", out)
        return {one["batch"]: one for one in json.loads(out.read_text())}

    several, alone = predictions("3,7"), predictions("7")
    assert several[7]["predicted"] == pytest.approx(alone[7]["predicted"], rel=1e-6)
    assert len(several[3]["ms"]) == 2 and not several[3]["recorded"]
    assert len(several[7]["removed"]) == len(several[7]["labels"]) == 7


def test_peak_memory_counts_weights_and_optimiser(config, tmp_path):
    """On the CPU too, as it does for the forms beside it: a step holds weights, gradients and two moments."""
    weights, out = tmp_path / "weights.safetensors", tmp_path / "steps.json"
    succeed("bench", "step", config, "--batch", "1,2", "--steps", 1, "--warm", 0, "--set", "model.width=1024", "--json", out,
            "--weights", weights)
    for one in json.loads(out.read_text()):
        assert one["peak_bytes"] >= 4 * weights.stat().st_size > 100e6, one["batch"]


def test_a_python_without_packages_is_told_so():
    done = subprocess.run([sys.executable, "-S", "-E", ROOT / "bench/step.py"], capture_output=True, text=True)  # -S: no packages
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "torch_geometric" in done.stderr and sys.executable in done.stderr and "another Python" in done.stderr


def test_errors_name_the_culprit(config):
    assert "100000 samples" in fail("bench", "step", config, "--batch", 100000)
    assert "--batch" in fail("bench", "step", config, "--batch", 0, code=2)
    assert "--batch" in fail("bench", "step", config, "--batch", 8, "--set", "train.batch=4", code=2)
    assert "--batch" in fail("bench", "step", config, "--set", "train.batch=auto", code=2)


def test_the_batch_is_the_configs_when_not_given(config):
    assert "\n    4 " in succeed("bench", "step", config, "--set", "train.batch=4", "--steps", 1, "--warm", 0)


def test_all_forms_predict_the_same(tmp_path):
    if not importlib.util.find_spec("torch_geometric"):
        pytest.skip("no PyG")
    if not has_torch():
        pytest.skip("no build with torch")
    out = tmp_path / "step.json"
    command = [sys.executable, ROOT / "bench/step.py", "--lacuna", PROGRAM, "--size", "tiny", "--precision", "f32",
               "--device", "cpu", "--width", 16, "--batch", "1,12", "--form", "usual,shared", "--steps", 1, "--warm", 1,
               "--json", out]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert [(one["merge"], one["form"], one["batch"]) for one in results] == [
        (merge, form, batch)
        for merge in ("sum", "pairwise")
        for batch in (1, 12)
        for form in ("lacuna", "usual", "shared")
    ]
    for one in results:
        assert one["difference"] < 1e-3, one  # in f32; an untrained model predicts small differences of large sums
        assert len(one["ms"]) == 1
