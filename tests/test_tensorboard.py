"""Event files, read back by TensorBoard itself."""

import math
import os
import subprocess

import pytest
from tensorboard.backend.event_processing import event_accumulator

from program import PROGRAM


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
