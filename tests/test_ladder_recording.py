"""`lacuna bench ladder RECORDING --train --peers` and scripts/demo-recordings: every row is there, what is wrong is named."""

import importlib.util
import os
import subprocess
import sys

import pytest
from program import ROOT, fail, has_torch, succeed
from recording_files import bench_ladder

QUICK = ["--batch", 16, "--lags", 4, "--seconds", 0.01]
SMALL = ["--set", "model.channels=3", "--set", "model.temporal=2", "--set", "model.layers=1", "--set", "train.device=cpu"]


@pytest.fixture(scope="module")
def movies(tmp_path_factory):
    path = tmp_path_factory.mktemp("ladder") / "movies"
    succeed("generate", "recording", path, "--sessions", 2, "--minutes", 0.3, "--side", 17, "--units", 3, "--seed", 5)
    return path


def ladder(movies, folder, *words):
    measured, text = bench_ladder(movies, folder, *QUICK, *words)
    return text, measured, {row["name"]: row for row in measured["rungs"]}


def test_every_rung_trains_the_same_steps(movies, tmp_path):
    if not has_torch():
        assert "needs torch" in fail("bench", "ladder", movies, "--train", "--out", tmp_path)
        return
    rungs = ["disk:u8@worker", "disk:u8@device", "ram:bf16", "disk:chunks@device", "tiered@worker"]
    text, measured, rows = ladder(movies, tmp_path, "--train", "--steps", 2, "--rounds", 1, "--rungs", ",".join(rungs), *SMALL)
    assert "ms/step" in text and "over ready" in text and "trained: core_readout" in text
    assert "core_readout" in measured["trained"]
    assert rows["ready batch"]["train_ms_per_step"] > 0 and "train_over_ready" not in rows["ready batch"]
    ready = rows["ready batch"]["train_ms_per_step"]
    for rung in rungs:
        assert rows[rung]["train_over_ready"] == pytest.approx(rows[rung]["train_ms_per_step"] / ready - 1)
        assert rows[rung]["exact"]
    differences = [rows[rung].get("train_difference") for rung in rungs]
    assert differences[0] is None  # the others are compared with it
    assert differences[1] == differences[3] == differences[4] == 0  # the same numbers, and so the same weights
    assert 0 < differences[2] < 0.05  # bf16 is rounded


def test_lags_and_field_come_from_the_config(movies, tmp_path):
    if not has_torch():
        pytest.skip("built without torch")
    config = tmp_path / "c.yaml"
    config.write_text("recording: elsewhere\nwindow: {lags: 7, inputs: [behavior]}\n")
    out = tmp_path / "out"
    out.mkdir()
    words = ["bench", "ladder", movies, "--batch", 16, "--seconds", 0.01, "--rungs", "disk:u8@device", "--train", "--config",
             config, "--steps", 1, "--rounds", 1, *SMALL, "--out", out]
    assert "windows of 7 lags" in succeed(*words)
    assert "windows of 3 lags" in succeed(*words, "--lags", 3)
    config.write_text("screen: elsewhere\n")
    assert "config of a screen" in fail("bench", "ladder", movies, "--train", "--config", config, "--out", out)


def test_what_the_command_decides_is_refused(movies, tmp_path):
    if not has_torch():
        pytest.skip("built without torch")
    for key in ("recording=x", "rung=ram:u8", "train.batch=3", "tiered.hot=1GB"):
        message = fail("bench", "ladder", movies, "--train", "--set", key, "--out", tmp_path, code=2)
        assert key.split("=")[0] in message and "leave it out" in message
    assert "did you mean 'model.channels'" in fail("bench", "ladder", movies, "--train", "--set", "model.chanels=3", "--out",
                                                   tmp_path, code=2)
    assert "is for screens" in fail("bench", "ladder", movies, "--samples", 3, "--out", tmp_path, code=2)


def test_peers_stand_beside_the_rungs(movies, tmp_path):
    if not importlib.util.find_spec("torch"):
        pytest.skip("this Python has no torch")
    text, measured, rows = ladder(movies, tmp_path, "--peers", "--python", sys.executable, "--rungs",
                                  "ram:u8@device,ram:u8@worker")
    peers = {(peer["kind"], peer["dtype"], peer["workers"]) for peer in measured["peers"]}
    assert peers == {(kind, dtype, workers) for kind in ("memmap", "tensors") for dtype in ("u8", "f32") for workers in (0, 2)}
    assert all(peer["windows_per_s"] > 0 for peer in measured["peers"])
    assert {"memcpy loop", "gather and cast"} <= rows.keys()
    for line in ("% of the memcpy loop", "% of the gather and cast", "DataLoader, memmap, f32, 2 workers", "x as fast"):
        assert line in text


def test_the_demo_ends_with_a_report(tmp_path):
    """The whole script, on a recording and a training that are as small as can be."""
    done = subprocess.run([ROOT / "scripts" / "demo-recordings"], capture_output=True, text=True,
                          env={**os.environ, "OUT": str(tmp_path / "demo"), "MINUTES": "0.3", "STEPS": "5", "SECONDS_A_RUNG": "0.01",
                               "PYTHON": sys.executable})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    commands = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("$ ")]
    wanted = ["generate", "split", "info", "plan", "prepare", "verify", "bench"]
    assert commands[:7] == wanted
    if has_torch():
        assert commands[7:] == ["train", "profile", "report"]
        assert "learned fields correlate" in done.stdout
        page = (tmp_path / "demo" / "report.html").read_text()
        section = page[page.index('<section id="ladder">') : page.index('<section id="config">')]
        assert "<td>disk:chunks@device</td>" in section and "<td>memcpy loop</td>" in section and "<svg" in section
        assert "Measured on another recording" not in section
