"""`lacuna prepare CONFIG`: what the transforms of a training make once, and the store of its rung, in one call; a training
then reads what `lacuna transform` would have written."""

import json
import os

import pytest
from checkpoint_files import tensors
from program import fail, has_torch, succeed

os.environ.setdefault("OMP_NUM_THREADS", "1")
CONFIG = """
recording: {recording}
window: {{lags: 4, inputs: [gaze, mine], stimulus: {stimulus}}}
transforms:
{transforms}
rung: {rung}
store: {store}
model: {{name: core_readout, channels: 2, temporal: 2, layers: 1, first_kernel: 5, behaviour_width: 2}}
train: {{epochs: 1, steps_an_epoch: 4, batch: 8, validation_windows: 40, device: cpu}}
evaluate: {{bootstrap: 0, baselines: false}}
"""
TRANSFORMS = """
  gaze: {{from: behavior, ops: [{{columns: {{take: [0, 1]}}}}, {{standardise: {{over: recording}}}}]}}
  mine: {{from: robs, role: behaviour, ops: [{{python: '{folder}/mine.py:past'}}, symlog]}}
  stim: {{from: stim, ops: {frames}}}
"""


def new_recording(path, *more):
    if not has_torch():
        pytest.skip("built without torch")
    succeed("generate", "recording", path, "--sessions", 1, "--minutes", 0.4, "--side", 17, "--units", 3, *more)
    return path


@pytest.fixture
def recording(tmp_path):
    path = new_recording(tmp_path / "rec", "--seed", 4)
    succeed("split", path, "--name", "trials", "--seed", 1)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef past(robs):\n    return np.cumsum(robs, 0).astype('f4') / len(robs)\n")
    return path


def write(folder, recording, frames, rung, transforms=TRANSFORMS, store='""'):
    config = folder / "config.yaml"
    made = transforms.format(folder=folder, frames=frames)
    config.write_text(CONFIG.format(recording=recording, stimulus="stim", transforms=made or '  ""', rung=rung, store=store))
    return config


def weights(run):
    return {key: value.tobytes() for key, value in tensors(run / "checkpoints/last.safetensors").items()}


CROP = "[{crop: {y: 2, x: 2, height: 11, width: 13}}]"


@pytest.mark.parametrize("frames,rung", [("[whiten]", "disk:f32"), (CROP, "disk:chunks")])
def test_a_training_reads_what_was_prepared(recording, tmp_path, frames, rung):
    store = tmp_path / "store" if rung == "disk:chunks" else '""'
    config = write(tmp_path, recording, frames, rung, store=store)
    said = fail("train", config, "--out", tmp_path / "none")
    assert f"`lacuna prepare {config}` writes it" in said and "mine" in said, said
    said = fail("train", config, "--set", "train.seed=2", "--out", tmp_path / "none")
    assert f"`lacuna prepare {config} --set train.seed=2`" in said, said
    said = succeed("prepare", config)
    assert "1 sessions written, 0 there already" in said and "rec.derived/" in said
    assert ("disk:chunks, 1 sessions" in said) == (rung == "disk:chunks")
    assert "0 sessions written, 1 there already" in succeed("prepare", config)
    succeed("train", config, "--out", tmp_path / "run")
    # The same from a recording that was transformed by hand: the same numbers, bit for bit.
    by_hand = tmp_path / "by_hand.yaml"
    by_hand.write_text(TRANSFORMS.format(folder=tmp_path, frames=frames))
    succeed("transform", recording, tmp_path / "all", "--config", by_hand)
    if rung == "disk:chunks":
        succeed("prepare", tmp_path / "all", "--rung", rung, "--out", tmp_path / "other")
        store = tmp_path / "other"
    config = write(tmp_path, tmp_path / "all", frames, rung, transforms="", store=store)
    succeed("train", config, "--out", tmp_path / "again")
    assert weights(tmp_path / "run") == weights(tmp_path / "again") and weights(tmp_path / "run")


LATE = "\n  gaze: {{from: behavior, ops: [symlog]}}\n  mine: {{from: gaze, ops: [difference]}}\n  stim: {{from: stim, ops: {frames}}}\n"


@pytest.mark.parametrize("frames,rungs", [
    ("[{crop: {y: 1, x: 1, height: 14, width: 15}}, {crop: {y: 1, x: 1, height: 11, width: 13}}, normalise]",
     ["ram:u8", "disk:u8", "disk:chunks", "ram:bf16", "disk:f32", "tiered"]),
    ("[{resize: {height: 9, width: 8}}, {cast: {dtype: u8, round: true}}]", ["disk:u8", "ram:chunks"]),
])
def test_frames_of_a_window_are_cropped_and_resized_when_they_are_read(recording, tmp_path, frames, rungs):
    """Nothing of them is written; the numbers are those of a recording that was transformed before."""
    by_hand = tmp_path / "by_hand.yaml"
    by_hand.write_text(LATE.format(frames=frames.replace(", normalise", "")))
    succeed("transform", recording, tmp_path / "all", "--config", by_hand)
    trained = {}
    for rung in rungs:
        for source, transforms in ((recording, LATE), (tmp_path / "all", "")):
            store = '""'
            if rung.endswith("chunks") or rung == "disk:f32":
                store = tmp_path / f"{source.name}-{rung[5:]}"
                succeed("prepare", source, "--rung", "disk:" + rung.split(":")[1], "--out", store)
            config = write(tmp_path, source, frames, rung, transforms=transforms, store=store)
            run = tmp_path / f"{source.name}-{rung}"
            succeed("train", config, "--out", run, "--set", "tiered.hot=400000")
            trained[source.name, rung] = weights(run)
        assert trained["rec", rung] == trained["all", rung], rung
    assert not (tmp_path / "rec.derived").exists()


def test_what_a_rung_cannot_give_of_frames_is_written(recording, tmp_path):
    resized = "[{resize: {height: 9, width: 8}}, {cast: {dtype: u8, round: true}}]"
    for frames, rung in ((resized, "ram:bf16"), ("[{resize: {height: 9, width: 8}}]", "disk:f32"), ("[difference]", "disk:f32")):
        config = write(tmp_path, recording, frames, rung, transforms=LATE)
        said = fail("train", config, "--out", tmp_path / "run")
        assert "transforms of stim are written once" in said and "lacuna prepare" in said, said
    succeed("prepare", config)
    succeed("train", config, "--out", tmp_path / "run")


def test_a_new_session_prepares_only_itself(recording, tmp_path):
    config = write(tmp_path, recording, "[{crop: {height: 9, width: 9}}, {python: '%s/mine.py:past'}]" % tmp_path, "disk:f32")
    succeed("prepare", config)
    derived = next((tmp_path / "rec.derived").iterdir())
    before = {path: path.stat().st_mtime_ns for path in derived.glob("*/*/*.npy")}
    new_recording(recording, "--seed", 5, "--first-session", 1, "--add")
    succeed("split", recording, "--name", "trials", "--remove")
    succeed("split", recording, "--name", "trials", "--seed", 1)
    said = fail("train", config, "--out", tmp_path / "run")
    assert "is not in it" in said and "lacuna prepare" in said
    assert "1 sessions written, 1 there already" in succeed("prepare", config)
    assert before.items() <= {path: path.stat().st_mtime_ns for path in derived.glob("*/*/*.npy")}.items()
    assert len(json.loads((derived / "manifest.json").read_text())["sessions"]) == 2
    succeed("train", config, "--out", tmp_path / "run")


def test_other_transforms_lie_elsewhere_and_inputs_need_nothing(recording, tmp_path):
    for number, frames in enumerate(("[whiten]", "[{whiten: {epsilon: 0.1}}]")):
        succeed("prepare", write(tmp_path, recording, frames, "disk:f32"))
        assert len(list((tmp_path / "rec.derived").iterdir())) == number + 1
    late = "\n  gaze: {{from: behavior, ops: [symlog]}}\n  mine: {{from: gaze, ops: [difference]}}\n"
    said = succeed("prepare", write(tmp_path, recording, "", "disk:u8", transforms=late))
    assert "nothing is to be prepared" in said
    config = write(tmp_path, recording, "[whiten]", "disk:f32")
    assert "use --set rung" in fail("prepare", config, "--rung", "disk:bf16", code=2)
    assert "--set store=STORE" in fail("prepare", write(tmp_path, recording, "", "disk:chunks", transforms=late))
    assert "--rung is required" in fail("prepare", recording, code=2)
