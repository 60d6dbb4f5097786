"""Transforms of fields against NumPy, op by op and composed; recordings derived from others."""

import json

import numpy as np
import pytest
from program import edit_manifest, fail, succeed

RATE = 120

CONFIG = """
transforms:
  normal: {from: stim, ops: [normalise]}
  quarter: {from: stim, ops: [{normalise: {mean: 100, scale: 51}}, {scale: {by: 0.25}}]}
  cropped: {from: stim, ops: [{crop: {y: 3, x: 2, height: 7, width: 9}}]}
  small: {from: stim, ops: [{resize: {height: 5, width: 6}}]}
  small_bytes: {from: stim, ops: [{resize: {height: 5, width: 6}}, {cast: {dtype: u8, round: true}}]}
  channel: {from: stim, ops: [{unsqueeze: {axis: 0}}]}
  halved: {from: stim, ops: [normalise, {cast: {dtype: bf16}}]}
  gaze: {from: behavior, ops: [{columns: {take: [0, 1, 3]}}]}
  logs: {from: gaze, ops: [{scale: {by: 7}}, symlog]}
  signs: {from: gaze, ops: [split_relu]}
  steps: {from: behavior, ops: [{columns: {take: [4, 5]}}, {difference: {lag: 2}}]}
  smooth: {from: robs, role: other, ops: [{smooth: {sigma: 1.5}}]}
  past: {from: robs, role: other, ops: [{smooth: {sigma: 2, causal: true}}]}
  anywhere: {from: robs, role: other, across_trials: true, ops: [{smooth: {sigma: 1.5}}]}
  history: {from: robs, role: other, ops: [{basis: {functions: 4, lags: 10}}]}
  twice: {from: robs, role: other, ops: [{smooth: {sigma: 1}}, difference]}
  largest: {from: gaze, ops: [max_norm]}
  largest_of_all: {from: gaze, ops: [{max_norm: {over: recording, rows: all}}]}
  standard: {from: gaze, ops: [{standardise: {over: session, split: trials}}]}
  joined: {from: [gaze, robs, signs], role: behaviour, ops: [{scale: {by: 2}}]}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("transforms") / "rec"
    succeed("generate", "recording", path, "--sessions", 2, "--minutes", 0.3, "--side", 17, "--units", 3, "--seed", 5)
    succeed("split", path, "--name", "trials", "--seed", 1, "--fractions", "0.5,0.3,0.2")
    return path


@pytest.fixture(scope="module")
def derived(recording):
    config = recording.parent / "config.yaml"
    config.write_text(CONFIG)
    said = succeed("transform", recording, recording.parent / "out", "--config", config)
    assert "2 sessions written" in said
    return recording.parent / "out"


def manifest(path):
    return json.loads((path / "manifest.json").read_text())


def segments(path):
    for session in manifest(path)["sessions"]:
        for segment in session["segments"]:
            yield session["name"], segment["name"]


def own(path, segment, field):
    return np.load(path.joinpath(*segment) / f"{field}.npy")


def pieces(recording, segment):
    """Ranges of rows that filters stay within: trials without gaps, and what lies between them."""
    trial, time = own(recording, segment, "trial"), own(recording, segment, "time")
    outside = trial < 0
    gap = (np.diff(time) > 1.5 / RATE) & ~(outside[1:] & outside[:-1])
    cut = np.flatnonzero((np.diff(trial) != 0) | gap) + 1
    return np.split(np.arange(len(trial)), cut)


def filtered(x, rows, function):
    out = np.concatenate([function(x[r].astype(float)) for r in rows])
    return out.astype("f4")


def smoothed(x, sigma, causal=False):
    reach = int(np.ceil(4 * sigma))
    t = np.arange(len(x))
    distance = t[:, None] - t[None, :]
    weight = np.exp(-distance**2 / (2 * sigma**2)) * (np.abs(distance) <= reach)
    if causal:
        weight = weight * (distance >= 0)
    return weight @ x / weight.sum(1, keepdims=True)


def differences(x, lag=1):
    out = np.zeros_like(x)
    out[lag:] = x[lag:] - x[:-lag]
    return out


def basis(x, functions, lags):
    d = (lags - 1) / (functions - 1)
    z = (np.arange(lags)[None] - d * np.arange(functions)[:, None]) / d
    b = np.where(np.abs(z) < 1, (1 + np.cos(np.pi * z)) / 2, 0)
    padded = np.concatenate([np.zeros((lags - 1, x.shape[1])), x])
    past = np.stack([padded[lags - 1 - lag:len(padded) - lag] for lag in range(lags)], 2)  # [T, C, lags]
    return (past @ b.T).reshape(len(x), -1)


def area(n_from, n_to):
    edges = np.arange(n_to + 1) * n_from / n_to
    j = np.arange(n_from)
    overlap = np.minimum(edges[1:, None], j + 1) - np.maximum(edges[:-1, None], j)
    return np.clip(overlap, 0, None) * n_to / n_from


def bf16(x):
    bits = x.view("u4")
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("u2")


def train_rows(recording, segment):
    split = manifest(recording)["splits"][0]
    parts, first = np.load(recording / "splits/trials.npy"), 0
    for one in split["segments"]:
        if (one["session"], one["segment"]) == segment:
            return parts[first:first + one["frames"]] == 0
        first += one["frames"]


def exact(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def near(got, want):
    assert got.dtype == np.float32 and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


def test_pointwise_and_frames(recording, derived):
    for segment in segments(recording):
        stim, behaviour = own(recording, segment, "stim"), own(recording, segment, "behavior")
        f = stim.astype("f4")
        exact(own(derived, segment, "normal"), (f - np.float32(127)) / np.float32(255))
        exact(own(derived, segment, "quarter"), (f - np.float32(100)) / np.float32(51) * np.float32(0.25))
        exact(own(derived, segment, "cropped"), stim[:, 3:10, 2:11])
        small = area(17, 5) @ stim.astype(float) @ area(17, 6).T
        np.testing.assert_allclose(own(derived, segment, "small"), small, rtol=1e-6, atol=1e-4)
        bytes_ = own(derived, segment, "small_bytes")
        assert bytes_.dtype == np.uint8 and np.abs(bytes_ - small).max() < 0.501
        exact(own(derived, segment, "channel"), stim[:, None])
        exact(own(derived, segment, "halved"), bf16((f - np.float32(127)) / np.float32(255)))
        gaze = behaviour[:, [0, 1, 3]]
        exact(own(derived, segment, "gaze"), gaze)
        near(own(derived, segment, "logs"), np.sign(gaze) * np.log1p(np.abs(7 * gaze)))
        exact(own(derived, segment, "signs"), np.concatenate([np.maximum(gaze, 0), np.maximum(-gaze, 0)], 1))
        robs = own(recording, segment, "robs").astype("f4")
        exact(own(derived, segment, "joined"),
              2 * np.concatenate([gaze, robs, np.maximum(gaze, 0), np.maximum(-gaze, 0)], 1))


def test_neighbours_stay_within_trials(recording, derived):
    for segment in segments(recording):
        rows = pieces(recording, segment)
        assert len(rows) > 3
        robs, behaviour = own(recording, segment, "robs"), own(recording, segment, "behavior")
        near(own(derived, segment, "steps"), filtered(behaviour[:, 4:6], rows, lambda x: differences(x, 2)))
        near(own(derived, segment, "smooth"), filtered(robs, rows, lambda x: smoothed(x, 1.5)))
        near(own(derived, segment, "past"), filtered(robs, rows, lambda x: smoothed(x, 2, causal=True)))
        near(own(derived, segment, "anywhere"), smoothed(robs.astype(float), 1.5))
        near(own(derived, segment, "history"), filtered(robs, rows, lambda x: basis(x, 4, 10)))
        near(own(derived, segment, "twice"), filtered(robs, rows, lambda x: differences(smoothed(x, 1))))


def test_statistics_come_from_training_rows(recording, derived):
    gaze = {s: own(recording, s, "behavior")[:, [0, 1, 3]] for s in segments(recording)}
    train = {s: gaze[s][train_rows(recording, s)] for s in gaze}
    everything = max(np.nanmax(np.abs(g)) for g in gaze.values())
    for segment, values in gaze.items():
        exact(own(derived, segment, "largest"), values / np.nanmax(np.abs(train[segment])))
        exact(own(derived, segment, "largest_of_all"), values / everything)
        of_session = np.concatenate([train[s] for s in train if s[0] == segment[0]]).astype(float)
        near(own(derived, segment, "standard"),
             (values - np.nanmean(of_session, 0)) / np.nanstd(of_session, 0))
    assert any(np.nanmax(np.abs(train[s])) < np.nanmax(np.abs(gaze[s])) for s in gaze)  # else it tests nothing


def test_what_does_not_change_is_not_copied(recording, derived):
    for segment in segments(recording):
        assert not (derived.joinpath(*segment) / "stim.npy").exists()
    fields = {f["name"]: f for f in manifest(derived)["sessions"][0]["segments"][0]["fields"]}
    assert fields["stim"]["in_place"].startswith(str(recording))
    assert fields["halved"]["dtype"] == "bf16"
    succeed("info", derived, "--check")


def test_same_settings_write_nothing_and_new_sessions_are_added(tmp_path):
    rec, out = tmp_path / "rec", tmp_path / "out"
    succeed("generate", "recording", rec, "--sessions", 1, "--minutes", 0.2, "--side", 17, "--units", 2)
    config = tmp_path / "c.yaml"
    config.write_text("gaze: {from: behavior, ops: [symlog]}\n")
    assert "1 sessions written, 0 there" in succeed("transform", rec, out, "--config", config)
    before = (out / "manifest.json").read_bytes()
    assert "0 sessions written, 1 there" in succeed("transform", rec, out, "--config", config)
    assert (out / "manifest.json").read_bytes() == before
    succeed("generate", "recording", rec, "--sessions", 1, "--minutes", 0.2, "--side", 17, "--units", 2,
            "--first-session", 1, "--add")
    assert "1 sessions written, 1 there" in succeed("transform", rec, out, "--config", config)
    config.write_text("gaze: {from: behavior, ops: [{scale: {by: 2}}]}\n")
    assert "not made by these transforms" in fail("transform", rec, out, "--config", config)


def test_a_lower_rate_and_resolution(recording):
    out = recording.parent / "slow"
    step = 3
    succeed("transform", recording, out, "--step", step, "--resize", "8x8")
    assert manifest(out)["sessions"][0]["rate"] == RATE / step
    for segment in segments(recording):
        first = np.concatenate([r[:len(r) // step * step:step] for r in pieces(recording, segment)])
        groups = first[:, None] + np.arange(step)
        robs, behaviour = own(recording, segment, "robs"), own(recording, segment, "behavior")
        units = robs.shape[1]
        dfs = np.unpackbits(own(recording, segment, "dfs"), axis=1, bitorder="little")[:, :units]
        exact(own(out, segment, "robs"), robs[groups].sum(1).astype("u2"))
        exact(own(out, segment, "dfs"), dfs[groups].min(1))
        near(own(out, segment, "behavior"), behaviour[groups].astype(float).mean(1))
        for name in ["trial", "stimulus", "time"]:
            exact(own(out, segment, name), own(recording, segment, name)[first])
        frames = area(17, 8) @ own(recording, segment, "stim")[first].astype(float) @ area(17, 8).T
        assert np.abs(own(out, segment, "stim") - frames).max() < 0.501
        run = own(out, segment, "run")
        assert (np.diff(run)[np.diff(first) > step] != 0).all()  # no window crosses a gap


def test_a_function_of_the_users(recording, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def whiten(stim, robs, session, rate):\n"
        "    assert session.startswith('m') and rate == 120\n"
        "    x = stim.reshape(len(stim), -1).astype('f4')\n"
        "    return (x - x.mean(0))[:, :4] + robs.sum(1, keepdims=True)\n"
        "def short(stim):\n"
        "    return stim[1:]\n")
    config = tmp_path / "c.yaml"
    config.write_text(f"white: {{from: [stim, robs], role: other, python: '{tmp_path}/mine.py:whiten'}}\n")
    succeed("transform", recording, tmp_path / "out", "--config", config)
    for segment in segments(recording):
        x = own(recording, segment, "stim").reshape(-1, 289).astype("f4")
        want = (x - x.mean(0))[:, :4] + own(recording, segment, "robs").sum(1, keepdims=True)
        exact(own(tmp_path / "out", segment, "white"), want.astype("f4"))
    config.write_text(f"white: {{from: stim, role: other, python: '{tmp_path}/mine.py:short'}}\n")
    assert "short gave" in fail("transform", recording, tmp_path / "bad", "--config", config)


@pytest.mark.parametrize("text,words", [
    ("g: {from: eyes}", "no field 'eyes' to transform; there is stim"),
    ("g: {from: stim, ops: [blur]}", "there is no transform 'blur'; there is normalise"),
    ("g: {from: stim, ops: [{crop: {y: 10, height: 10, width: 3}}]}", "do not lie within 17 x 17"),
    ("g: {from: stim, ops: [{smooth: {sigma: 0}}]}", "sigma of 0"),
    ("g: {from: stim, ops: [{smooth: {width: 2}}]}", "transform smooth has no setting 'width'; there is sigma, causal"),
    ("g: {from: behavior, ops: [{columns: {take: [42]}}]}", "takes column 42, but there are 42"),
    ("g: {from: [stim, behavior]}", "which do not join"),
    ("g: {from: behavior, ops: [{max_norm: {split: other}}]}", "no split 'other'"),
    ("g: {from: behavior, ops: [{cast: {dtype: u8}}]}", "no whole number from 0 to 255"),
    ("g: {form: behavior}", "there is no 'form'"),
])
def test_errors_name_field_and_remedy(recording, tmp_path, text, words):
    config = tmp_path / "c.yaml"
    config.write_text(text + "\n")
    message = fail("transform", recording, tmp_path / "out", "--config", config)
    assert words in message, message
    assert not (tmp_path / "out/manifest.json").exists()


def test_a_changed_byte_of_a_source_is_seen(tmp_path):
    rec = tmp_path / "rec"
    succeed("generate", "recording", rec, "--sessions", 1, "--minutes", 0.2, "--side", 17, "--units", 2)
    file = rec / "m1_000/images/behavior.npy"
    data = bytearray(file.read_bytes())
    data[-1000] ^= 1
    file.write_bytes(data)
    (tmp_path / "c.yaml").write_text("gaze: {from: behavior, ops: [symlog]}\n")
    assert "have changed" in fail("transform", rec, tmp_path / "out", "--config", tmp_path / "c.yaml")
