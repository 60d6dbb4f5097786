"""What ranks spend on communication (`lacuna profile`), and how long a step of so many would take (`lacuna plan --ranks`)."""

import json
import subprocess
import sys

import pytest
from program import ROOT, fail, succeed, write_config
from rank_files import IS_MISSING, train_ranks

pytestmark = pytest.mark.skipif(IS_MISSING, reason="a build without torch")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_config(tmp_path_factory.mktemp("plan"), "width: 16, layers: 2", ", batch: 16")


@pytest.fixture(scope="module")
def profiles(config):
    """{batch: folder} of one process with all samples of a batch, and with a rank's share."""
    folders = {batch: config.parent / f"batch{batch}" for batch in (16, 8)}
    for batch, folder in folders.items():
        succeed("profile", config, "--steps", 3, "--set", f"train.batch={batch}", "--out", folder)
    return folders


def test_a_profile_of_two_ranks_says_what_each_waited(config, tmp_path):
    said = train_ranks(2, "profile", config, "--steps", 4, "--out", tmp_path).stdout
    profile = json.loads((tmp_path / "profile.json").read_text())
    first, second = profile["ranks"]
    for rank in (first, second):
        assert rank["waited_ms"] > 0 and rank["alone_ms"] > 0
    parts = {part["category"]: part["ms"] for part in profile["cpu"]}
    assert parts["communication"] == pytest.approx(first["waited_ms"])
    assert sum(parts.values()) == pytest.approx(profile["wall_ms_per_step"], rel=0.01)
    assert profile["gradient_buckets"] == 1 and profile["gradient_bytes"] > 1000
    table = said[said.index("\ncommunication, ms a step: ") + 1 :].splitlines()
    assert "of gradients in one bucket" in table[0]
    assert table[1].split() == ["rank", "waited", "sums", "alone", "hidden", "for", "others"]
    for number, (line, rank) in enumerate(zip(table[2:4], (first, second))):
        row = [float(word) for word in line.split()]
        waited, alone = rank["waited_ms"], rank["alone_ms"]
        expected = [number, waited, alone, max(alone - waited, 0), max(waited - alone, 0)]
        assert row == pytest.approx(expected, abs=1e-3)
    # It is of several ranks, and not what a plan begins with.
    screen = config.parent / "screen"
    assert "was measured with 2 ranks" in fail("plan", screen, "--ranks", 2, "--batch", 16, "--profile", tmp_path)


def test_gradients_are_counted(config, profiles):
    profile = json.loads((profiles[16] / "profile.json").read_text())
    run = config.parent / "run"
    succeed("train", config, "--set", "train.epochs=1", "--set", "evaluate.baselines=false", "--out", run)
    parameters = json.loads((run / "run.json").read_text())["parameters"]
    assert profile["gradient_bytes"] == 4 * parameters
    assert profile["threads"] >= 1 and profile["peak_bytes"] > 4 * 3 * parameters and "ranks" not in profile


def test_a_step_of_ranks_is_made_of_measured_parts(config, profiles):
    screen = config.parent / "screen"
    words = ("plan", screen, "--batch", 16, "--ranks", 2, "--profile", profiles[8], "--profile", profiles[16], "--link", "1MB")
    plan = json.loads(succeed(*words, "--json"))["step_of_ranks"]
    share, whole = (json.loads((profiles[batch] / "profile.json").read_text()) for batch in (8, 16))
    assert (plan["share"], plan["batch"]) == (8, 16)
    assert plan["alone_ms"] == whole["wall_ms_per_step"]
    assert plan["arithmetic_ms"] == pytest.approx(plan["crowding"] * share["wall_ms_per_step"])
    assert plan["sent_bytes"] == share["gradient_bytes"]  # 2 (R - 1) / R is 1 for two
    assert plan["floor_ms"] == pytest.approx(share["gradient_bytes"] / 1e6 * 1000)
    assert plan["hidden_ms"] == 0  # of one bucket
    assert plan["step_ms"] == pytest.approx(plan["arithmetic_ms"] + plan["communication_ms"])
    assert plan["memory_bytes"] == share["peak_bytes"]
    text = succeed(*words)
    assert "2 ranks, 8 of 16 samples each: a step of about" in text and "1.00 MB/s (--link)" in text
    assert "hidden: nothing, since the gradients fill one bucket" in text
    measured = succeed(*words[:-2])
    assert "measured: 32 MB between two threads over TCP" in measured


def test_what_is_missing_is_said(config, profiles, tmp_path):
    screen = config.parent / "screen"
    assert "`lacuna profile CONFIG --set train.batch=4 --out DIRECTORY`" in succeed("plan", screen, "--batch", 16, "--ranks", 4)
    wrong = fail("plan", screen, "--batch", 16, "--ranks", 4, "--profile", profiles[8])
    assert "each of 4 ranks takes 4 of the 16 samples" in wrong and "batch8/profile.json has batch 8" in wrong
    assert "there is no profile" in fail("plan", screen, "--ranks", 2, "--profile", tmp_path)
    assert "--profile is for several --ranks" in fail("plan", screen, "--profile", profiles[8], code=2)
    assert "--link" in fail("plan", screen, "--ranks", 2, "--link", "1GB", code=2)
    succeed("generate", "screen", tmp_path / "other", "--size", "mini", "--samples", 100, "--seed", 1)
    other = fail("plan", tmp_path / "other", "--batch", 16, "--ranks", 2, "--profile", profiles[8])
    assert "was measured on another screen" in other


def test_a_step_of_ranks_on_a_recording(tmp_path):
    movies, other = tmp_path / "movies", tmp_path / "other"
    for path, seed in ((movies, 3), (other, 4)):
        succeed("generate", "recording", path, "--sessions", 2, "--minutes", 0.3, "--side", 17, "--units", 5, "--seed", seed)
    succeed("split", movies, "--name", "trials", "--seed", 1)
    (tmp_path / "config.yaml").write_text(
        f"recording: {movies}\nsplit: trials\nwindow: {{lags: 4}}\nmodel: {{channels: 4, temporal: 2, layers: 1, "
        "first_kernel: 5}\ntrain: {batch: 16, device: cpu}\n")
    for batch in (8, 16):
        succeed("profile", tmp_path / "config.yaml", "--steps", 3, "--set", f"train.batch={batch}", "--out", tmp_path / f"b{batch}")
    profiles = ("--profile", tmp_path / "b8", "--profile", tmp_path / "b16")
    words = ("plan", movies, "--batch", 16, "--lags", 4, "--ranks", 2, *profiles, "--link", "1MB")
    found = json.loads(succeed(*words, "--json"))
    plan, share = found["step_of_ranks"], json.loads((tmp_path / "b8" / "profile.json").read_text())
    assert (plan["share"], plan["batch"], plan["ranks"]) == (8, 16, 2) and found["rungs"]
    assert plan["arithmetic_ms"] == pytest.approx(plan["crowding"] * share["wall_ms_per_step"])
    assert plan["floor_ms"] == pytest.approx(share["gradient_bytes"] / 1e6 * 1000)
    assert plan["memory_bytes"] == share["peak_bytes"] > 0
    text = succeed(*words)
    assert "picked: " in text and "2 ranks, 8 of 16 samples each: a step of about" in text
    assert "was measured on another recording" in fail("plan", other, *words[2:])
    # The batch is that of recordings, 256, where none is given.
    assert "--set train.batch=64 " in succeed("plan", movies, "--lags", 4, "--ranks", 4)


def test_ranks_are_measured_beside_one_process(tmp_path):
    words = [sys.executable, ROOT / "bench" / "ranks.py", "--quick", "--json", tmp_path / "found.json"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "found.json").read_text()).values()
    assert found["ratio"] == pytest.approx(found["one"] / found["ranks"])
    assert 0 < found["floor"] < found["planned"] and found["bytes"] > 0
    assert done.stdout.count("\n|") == 3
