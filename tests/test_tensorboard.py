"""Event files, read back by TensorBoard itself."""

import json
import math
import os
import signal
import subprocess

import pytest
from tensorboard.backend.event_processing import event_accumulator

from program import PROGRAM, succeed


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """What EventWriter.WritesARunThatWasResumed of train_test writes."""
    tests = PROGRAM.parent / "train_test"
    if not tests.exists():
        pytest.skip(f"no {tests}; train_test is built where torch is")
    folder = tmp_path_factory.mktemp("events")
    subprocess.run(
        [tests, "--gtest_filter=EventWriter.WritesARunThatWasResumed"],
        env={**os.environ, "LACUNA_EVENTS_FOLDER": str(folder)},
        check=True,
        capture_output=True,
    )
    accumulator = event_accumulator.EventAccumulator(str(folder), size_guidance={event_accumulator.SCALARS: 0})
    return accumulator.Reload()


def test_tags(events):
    tags = events.Tags()["scalars"]
    assert sorted(tags) == sorted(["loss/train", "pearson/validation", "odd/values", "odd/ümläut " + "x" * 300])


def test_values_and_times(events):
    """Steps 20 to 29 were written twice: the run that went on from step 20 counts."""
    loss = events.Scalars("loss/train")
    assert [event.step for event in loss] == list(range(40))
    for event in loss[:20]:
        assert event.value == pytest.approx(math.exp(-0.1 * event.step), rel=1e-6)
        assert event.wall_time == 1e9 + event.step
    for event in loss[20:]:
        assert event.value == -event.step
        assert event.wall_time == 2e9 + event.step
    assert [event.step for event in events.Scalars("pearson/validation")] == [0, 10]


def test_odd_values(events):
    infinite, nan = events.Scalars("odd/values")
    assert infinite.step == 10**12 and infinite.value == math.inf
    assert nan.step == 10**12 + 1 and math.isnan(nan.value)
    (last,) = events.Scalars("odd/ümläut " + "x" * 300)
    assert last.step == 2**63 - 1 and last.value == 0


CONFIG = """
screen: {screen}
split: random
model: {{name: mlp, width: 8}}
train: {{epochs: 40, batch: 16, device: cpu, log_every: 3}}
evaluate: {{baselines: false, bootstrap: 0}}
"""


@pytest.mark.skipif(not (PROGRAM.parent / "liblacuna_torch.so").exists(), reason="a build without torch")
def test_curves_of_an_interrupted_run(tmp_path):
    """`lacuna train --tensorboard`, stopped in the middle and resumed, shows what metrics.jsonl says."""
    succeed("generate", "screen", tmp_path / "screen", "--size", "tiny", "--seed", 5)
    succeed("split", tmp_path / "screen", "--name", "random", "--by", "random", "--seed", 1)
    (tmp_path / "c.yaml").write_text(CONFIG.format(screen=tmp_path / "screen"))
    run = tmp_path / "run"
    command = [PROGRAM, "train", tmp_path / "c.yaml", "--out", run, "--tensorboard"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        for line in process.stdout:
            if line.startswith("epoch   2/"):
                process.send_signal(signal.SIGTERM)
        assert process.wait() == 75
    succeed("train", "--resume", "--out", run, "--tensorboard")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}
    epochs = {line["step"]: line["train_loss"] for line in lines if line["kind"] == "epoch"}
    assert len(epochs) == 40
    read = event_accumulator.EventAccumulator(str(run / "tensorboard"), {event_accumulator.SCALARS: 0}).Reload()
    for tag, expected in (("train/loss", steps), ("train/epoch_loss", epochs)):
        scalars = read.Scalars(tag)
        assert [scalar.step for scalar in scalars] == sorted(expected)
        assert [scalar.value for scalar in scalars] == pytest.approx([expected[s] for s in sorted(expected)], rel=1e-5)
