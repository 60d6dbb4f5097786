"""Event files, read back by TensorBoard itself."""

import json
import math
import os
import signal
import subprocess

import pytest
from tensorboard.backend.event_processing import event_accumulator

from program import BUILD, Started, new_screen


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """What EventWriter.WritesARunThatWasResumed of run_test writes."""
    tests = BUILD / "run_test"
    if not tests.exists():
        pytest.skip(f"no {tests}; run `scripts/build release`")
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
train: {{epochs: 1000000, batch: 16, device: cpu, log_every: 3}}
evaluate: {{baselines: false, bootstrap: 0}}
"""


@pytest.mark.skipif(not (BUILD / "liblacuna_torch.so").exists(), reason="a build without torch")
def test_curves_of_an_interrupted_run(tmp_path):
    """`lacuna train --tensorboard`, stopped, resumed and stopped again, shows what metrics.jsonl says. The run is so long
    that no signal comes too late."""
    new_screen(tmp_path / "screen", seed=5)
    (tmp_path / "c.yaml").write_text(CONFIG.format(screen=tmp_path / "screen"))
    run = tmp_path / "run"

    def values(kind, name):
        """{step: value} of the whole lines of metrics.jsonl, of which no step has two."""
        path = run / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []
        found = [(line["step"], line[name]) for line in lines if line["kind"] == kind]
        assert len(dict(found)) == len(found)
        return dict(found)

    reached = []
    for words in ([tmp_path / "c.yaml"], ["--resume"]):
        epochs = len(values("epoch", "step")) + 2
        training = Started("train", *words, "--out", run, "--tensorboard", is_nice=False)
        assert training.wait_for(lambda: len(values("epoch", "step")) >= epochs)
        assert training.end(signal.SIGTERM) == 75, training.errors
        reached.append(max(values("step", "step")))
    assert reached[1] > reached[0]
    read = event_accumulator.EventAccumulator(str(run / "tensorboard"), {event_accumulator.SCALARS: 0}).Reload()
    for tag, expected in (("train/loss", values("step", "loss")), ("train/epoch_loss", values("epoch", "train_loss"))):
        scalars = read.Scalars(tag)
        assert [scalar.step for scalar in scalars] == sorted(expected)
        assert [scalar.value for scalar in scalars] == pytest.approx([expected[s] for s in sorted(expected)], rel=1e-5)
