"""Recordings through the program: generate, split, info, and what it says of damaged ones."""

import filecmp
import json
import signal

import numpy as np
import pytest
from program import Started, fail, succeed

SMALL = ("--minutes", 0.2, "--side", 17, "--units", 4)


def generate(path, *options, sessions=2, seed=1):
    succeed("generate", "recording", path, "--sessions", sessions, "--seed", seed, *SMALL, *options)
    return path


@pytest.fixture
def recording(tmp_path):
    return generate(tmp_path / "rec")


def info(path):
    return json.loads(succeed("info", path, "--json"))


def test_the_same_options_give_the_same_bytes(tmp_path, recording):
    again = generate(tmp_path / "again")
    files = [p.relative_to(recording) for p in recording.rglob("*.npy")]
    assert len(files) > 40
    assert all(filecmp.cmp(recording / f, again / f, shallow=False) for f in files)
    assert info(recording)["fingerprint"] == info(again)["fingerprint"]
    assert info(generate(tmp_path / "other", seed=2))["fingerprint"] != info(again)["fingerprint"]


def test_default_sizes(tmp_path):
    succeed("generate", "recording", tmp_path / "rec", "--sessions", 1, "--minutes", 0.1)
    stim = np.load(tmp_path / "rec/m1_000/images/stim.npy", mmap_mode="r")
    assert stim.shape == (720, 51, 51) and stim.dtype == np.uint8
    assert np.load(tmp_path / "rec/m1_000/images/behavior.npy").shape == (720, 42)
    session = info(tmp_path / "rec")["sessions"][0]
    assert 23 <= session["units"] <= 181 and session["rate"] == 120
    truth = np.load(tmp_path / "rec/truth/m1_000.spatial.npy")
    assert truth.shape == (session["units"], 51, 51)
    np.testing.assert_allclose((truth**2).sum((1, 2)), 1, rtol=1e-5)


def test_info_counts_what_lies_there(recording):
    said = info(recording)
    fields = {f["name"]: f for f in said["fields"]}
    for name, dtype in [("stim", "u8"), ("robs", "u8"), ("dfs", "bits"), ("behavior", "f32"), ("time", "f64")]:
        arrays = [np.load(p) for p in recording.glob(f"m*/*/{name}.npy")]
        assert fields[name]["dtype"] == dtype
        assert fields[name]["bytes"] == sum(a.nbytes for a in arrays)
    nan = sum(np.isnan(np.load(p)).any(1).sum() for p in recording.glob("m*/*/behavior.npy"))
    assert fields["behavior"]["nan_rows"] == nan > 0
    trial = np.load(recording / "m1_000/images/trial.npy")
    assert said["sessions"][0]["trials"] == len(set(trial[trial >= 0]))
    text = succeed("info", recording)
    assert "m2_001" in text and "NaN rows" in text and "attention" not in text


def test_splits_keep_trials_and_stimuli_whole(recording):
    said = succeed("split", recording, "--name", "trials", "--seed", 3, "--fractions", "0.6,0.2,0.2")
    assert "train" in said and "trials" in said
    parts = np.load(recording / "splits/trials.npy")
    at, of_stimulus = 0, {}
    for one in json.loads((recording / "manifest.json").read_text())["splits"][0]["segments"]:
        folder = recording / one["session"] / one["segment"]
        trial, stimulus = np.load(folder / "trial.npy"), np.load(folder / "stimulus.npy")
        own = parts[at:at + one["frames"]]
        at += one["frames"]
        assert (own[trial < 0] == 255).all()
        for number in set(trial[trial >= 0]):
            assert len(set(own[trial == number])) == 1
        for number in set(stimulus[stimulus >= 0]):
            of_stimulus.setdefault(number, set()).update(own[stimulus == number])
    assert at == len(parts) and all(len(p) == 1 for p in of_stimulus.values())
    assert set(parts) == {0, 1, 2, 255}
    assert "has a split 'trials' already" in fail("split", recording, "--name", "trials")
    assert "by trial or by file" in fail("split", recording, "--name", "x", "--by", "gene", code=2)
    assert "is taken out" in succeed("split", recording, "--name", "trials", "--remove")


def test_sessions_are_added_once(recording):
    before = info(recording)["fingerprint"]
    generate(recording, "--add", "--first-session", 2, sessions=1)
    after = info(recording)["fingerprint"]
    assert len(after) == 3 and all(after[part] == value for part, value in before.items())
    message = fail("generate", "recording", recording, "--sessions", 1, *SMALL, "--add", "--first-session", 2)
    assert "session 'm1_002' is there already" in message
    assert info(recording)["fingerprint"] == after


def test_a_truncated_field_is_named(recording):
    file = recording / "m1_000/images/robs.npy"
    file.write_bytes(file.read_bytes()[:-1])
    for command in [("info", recording), ("split", recording, "--name", "x")]:
        assert "m1_000/images/robs.npy" in fail(*command)


def test_a_missing_file_is_named(recording):
    (recording / "m2_001/flicker/stim.npy").unlink()
    assert "m2_001/flicker/stim.npy: missing" in fail("info", recording)


def test_a_changed_byte_is_found(recording):
    succeed("split", recording, "--name", "trials")
    kinds = {p.name: p for p in sorted(recording.rglob("*.npy"))}  # one file of each name
    assert len(kinds) > 20
    for file in kinds.values():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
        message = fail("info", recording, "--check")
        assert str(file) in message, message
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
    succeed("info", recording, "--check")


@pytest.mark.parametrize("options,words", [
    (("--minutes", "0.001"), "at least 600 bins"),
    (("--side", "5"), "frames of 5 pixels"),
])
def test_options_that_cannot_work(tmp_path, options, words):
    assert words in fail("generate", "recording", tmp_path / "r", *options, code=2)
    assert not (tmp_path / "r").exists()


def test_a_kill_while_sessions_are_added_leaves_the_recording_as_it_was(recording):
    before = {p: p.read_bytes() for p in recording.rglob("*") if p.is_file()}
    added = ("generate", "recording", recording, "--sessions", 3, "--minutes", 1, "--units", 40, "--add",
             "--first-session", 2)
    for session in ("m1_002", "m2_003"):  # one while it writes its first session, one later
        started = Started(*added)
        assert started.wait_for(lambda: (recording / session / "images/stim.npy").exists())
        started.end(signal.SIGKILL)
        assert all(path.read_bytes() == data for path, data in before.items())
        assert len(info(recording)["sessions"]) == 2
        succeed("info", recording, "--check")
    succeed(*added)
    assert len(info(recording)["sessions"]) == 5
    succeed("info", recording, "--check")
