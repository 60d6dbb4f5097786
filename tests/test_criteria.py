"""lacuna bench criteria: what it answers without a GPU, and that it can say no."""

import json
import os
import re
import sys

import pytest
from program import lacuna, succeed

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: a second thread only waits


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    screen = tmp_path_factory.mktemp("criteria") / "screen"
    succeed("generate", "screen", screen, "--size", "tiny", "--seed", 2)
    return screen


def ask(screen, *words):
    """-> the exit code, and verdict and figure by number"""
    out = screen.parent / "work"
    out.mkdir(exist_ok=True)
    file = screen.parent / "criteria.json"
    result = lacuna("bench", "criteria", screen, "--samples", 60, "--batch", 8, "--steps", 2, "--out", out,
                    "--set", "model.width=8", "--set", "train.device=cpu", "--json", file, *words)
    assert list(out.iterdir()) == []  # nothing stays behind
    return result, {one["number"]: one for one in json.loads(file.read_text())} if file.exists() else {}


def test_what_can_be_asked_without_a_gpu(screen):
    result, answers = ask(screen, "--python", sys.executable)
    verdicts = {number: one["verdict"] for number, one in answers.items()}
    # Two steps of a tiny model are timed: the second answer is the one that the figures give, whichever they are.
    ratio = float(re.search(r"; usual form [0-9.]+ ms, ([0-9.]+) times as long", answers[2]["figure"])[1])
    speed = verdicts.pop(2)
    assert speed in {"pass", "FAIL"} if ratio == 1.0 else speed == ("pass" if ratio > 1 else "FAIL"), answers[2]
    assert verdicts == {1: "left out", 3: "pass", 4: "left out", 5: "pass", 6: "pass"}
    assert result.returncode == (1 if speed == "FAIL" else 0), result.stderr
    assert "no GPU" in answers[1]["figure"] and "no GPU" in answers[4]["figure"]
    assert "all bits equal" in answers[3]["figure"]
    assert answers[6]["figure"].startswith("0 of")
    assert all(one["question"] in result.stdout and one["figure"] in result.stdout for one in answers.values())


def test_without_python_the_usual_form_is_left_out(screen):
    result, answers = ask(screen, "--python", screen / "nowhere")
    assert result.returncode == 0
    assert answers[2]["verdict"] == "left out" and "nowhere" in answers[2]["figure"]


def test_a_training_that_breaks_is_no(screen):
    result, answers = ask(screen, "--python", screen / "nowhere", "--set", "train.lr=1e30", "--set", "train.clip=0")
    assert result.returncode == 1
    assert answers[5]["verdict"] == "FAIL" and "not finite" in answers[5]["figure"]
    assert answers[3]["verdict"] == "FAIL"
    assert answers[6]["verdict"] == "left out"


def test_a_batch_that_is_too_large_is_refused(screen):
    result = lacuna("bench", "criteria", screen, "--samples", 20, "--batch", 50, "--out", screen.parent)
    assert result.returncode == 1 and "--samples" in result.stderr


def test_a_setting_that_an_option_decides_is_refused(screen):
    for setting in ["train.batch=2", "rung=disk:u8", "split=other"]:
        result = lacuna("bench", "criteria", screen, "--set", setting, "--out", screen.parent)
        assert result.returncode == 2 and f"--set {setting}" in result.stderr, result.stderr
    assert "--batch" in lacuna("bench", "criteria", screen, "--set", "train.batch=2").stderr
