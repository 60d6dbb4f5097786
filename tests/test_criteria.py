"""lacuna bench criteria: what it answers without a GPU, and that it can say no."""

import json
import os
import re
import sys

import pytest
from program import lacuna, succeed

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: a second thread only waits


RUNGS = ["disk:u8", "disk:bits", "disk:bf16", "disk:positions", "ram:u8", "ram:bits", "worker", "device", "kernel"]


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
    assert verdicts == {1: "not answered", 3: "pass", 4: "not answered", 5: "pass", 6: "pass"}
    assert result.returncode == (1 if speed == "FAIL" else 0), result.stderr
    assert "no GPU" in answers[1]["figure"] and "no GPU" in answers[4]["figure"]
    # Two programs that add in another order: near each other, and not one program compared with itself.
    numbers = answers[3]["numbers"]
    assert set(RUNGS) <= set(numbers) and 0 < numbers["largest"] < 1e-9, numbers
    assert numbers["spread"] > 1e-5  # what the samples' predictions differ by
    # The model alone is a training of its own, and every rung holds more than that.
    memory = answers[4]["numbers"]
    assert set(RUNGS) <= set(memory) and memory["model"] > 0
    trained = answers[5]["numbers"]
    assert trained["samples"] == trained["asked_samples"] == 60
    assert trained["trained"] == trained["training"] == 48 and trained["steps"] == 6  # 48 samples in batches of 8
    assert trained["validated"] == 6
    assert answers[6]["figure"].startswith("0 of")
    for one in answers.values():
        assert all(one[key] and one[key] in result.stdout for key in ("question", "compared", "figure", "bound"))


def test_without_python_its_questions_are_not_answered(screen):
    result, answers = ask(screen, "--python", screen / "nowhere")
    assert result.returncode == 0
    for number in (2, 3):
        assert answers[number]["verdict"] == "not answered" and "nowhere" in answers[number]["figure"]


def python_that(folder, does):
    """A Python that does something first where plain PyTorch is to predict: sys.argv is [script, screen, checkpoint, ...]."""
    path = folder / "python"
    path.write_text(f"""#!{sys.executable}
import pathlib, subprocess, sys
words = sys.argv[1:]
if not words[0].endswith("plain_predictions.py"):
    sys.exit("not here")
{does}
sys.exit(subprocess.run([sys.executable, *words]).returncode)
""")
    path.chmod(0o755)
    return path


def test_other_weights_in_plain_pytorch_are_a_no(screen, tmp_path):
    """That program computes from the weights: one of them is changed in the file that it reads."""
    does = """import json, struct
data = bytearray(pathlib.Path(words[2]).read_bytes())
length = int.from_bytes(data[:8], "little")
start = 8 + length + json.loads(data[8 : 8 + length])["global.score.bias"]["data_offsets"][0]
data[start : start + 4] = struct.pack("<f", struct.unpack("<f", data[start : start + 4])[0] + 1e-4)
words[2] = sys.argv[0] + ".safetensors"
pathlib.Path(words[2]).write_bytes(data)"""
    result, answers = ask(screen, "--python", python_that(tmp_path, does))
    assert result.returncode == 1
    assert answers[3]["verdict"] == "FAIL", answers[3]
    assert 0.9e-4 < answers[3]["numbers"]["largest"] < 1.1e-4, answers[3]


def test_plain_pytorch_that_breaks_is_no_answer(screen, tmp_path):
    result, answers = ask(screen, "--python", python_that(tmp_path, "sys.exit(3)"))
    assert result.returncode == 0
    assert answers[3]["verdict"] == "not answered" and "status 3" in answers[3]["figure"], answers[3]


def test_a_training_that_breaks_is_no(screen):
    result, answers = ask(screen, "--python", screen / "nowhere", "--set", "train.lr=1e30", "--set", "train.clip=0")
    assert result.returncode == 1
    assert answers[5]["verdict"] == "FAIL" and "not finite" in answers[5]["figure"]
    assert answers[3]["verdict"] == "FAIL"
    assert answers[6]["verdict"] == "not answered"


def test_a_batch_that_is_too_large_is_refused(screen):
    result = lacuna("bench", "criteria", screen, "--samples", 20, "--batch", 50, "--out", screen.parent)
    assert result.returncode == 1 and "--samples" in result.stderr


def test_a_setting_that_an_option_decides_is_refused(screen):
    for setting in ["train.batch=2", "rung=disk:u8", "split=other"]:
        result = lacuna("bench", "criteria", screen, "--set", setting, "--out", screen.parent)
        assert result.returncode == 2 and f"--set {setting}" in result.stderr, result.stderr
    assert "--batch" in lacuna("bench", "criteria", screen, "--set", "train.batch=2").stderr
