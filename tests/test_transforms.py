"""Transforms of fields against NumPy, op by op and composed; recordings derived from others."""

import json

import numpy as np
import pytest
from program import edit_manifest, fail, lacuna, succeed

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
  white: {from: stim, ops: [{whiten: {epsilon: 0.01}}]}
  white_of_all: {from: small, ops: [{whiten: {over: recording, rows: all}}]}
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


def whitened(frames, learned_from, epsilon):
    mean = learned_from.mean(0)
    power = (np.abs(np.fft.fft2(learned_from - mean)) ** 2).mean(0) / mean.size
    spectrum = np.fft.fft2(frames - mean) / np.sqrt(power + epsilon * power.mean())
    return np.fft.ifft2(spectrum).real


def test_whitening(recording, derived):
    stim = {s: own(recording, s, "stim").astype(float) for s in segments(recording)}
    small = {s: own(derived, s, "small").astype(float) for s in stim}
    everything = np.concatenate(list(small.values()))
    for segment, frames in stim.items():
        train = frames[train_rows(recording, segment)]
        got = own(derived, segment, "white")
        np.testing.assert_allclose(got, whitened(frames, train, 0.01), rtol=1e-4, atol=1e-4)
        power = (np.abs(np.fft.fft2(got[train_rows(recording, segment)])) ** 2).mean(0) / got[0].size
        assert power.max() < 1 + 1e-3 and np.median(power) > 0.1  # no frequency stands out any more
        np.testing.assert_allclose(own(derived, segment, "white_of_all"), whitened(small[segment], everything, 1e-3),
                                   rtol=1e-3, atol=1e-3)


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


MINE = """
import numpy as np
def whiten(stim, robs, session, rate):
    assert session.startswith('m') and rate == 120
    x = stim.reshape(len(stim), -1).astype('f4')
    return (x - x.mean(0))[:, :4] + robs.sum(1, keepdims=True)
def short(stim):
    return stim[1:]
def from_the_end(x):  # reads the whole segment
    return np.cumsum(x[::-1], 0, dtype='f8')[::-1].astype('f4') / len(x)
def bytes_of(x):
    assert x.dtype == np.uint8, x.dtype
    return x // 2
def flags(dfs, halved):
    assert dfs.dtype == np.uint8 and halved.dtype == np.float32
    return dfs.astype('f4') + halved.reshape(len(dfs), -1).mean(1, keepdims=True)
"""


def test_a_function_of_the_users(recording, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    config = tmp_path / "c.yaml"
    config.write_text(f"white: {{from: [stim, robs], role: other, python: '{tmp_path}/mine.py:whiten'}}\n")
    succeed("transform", recording, tmp_path / "out", "--config", config)
    for segment in segments(recording):
        x = own(recording, segment, "stim").reshape(-1, 289).astype("f4")
        want = (x - x.mean(0))[:, :4] + own(recording, segment, "robs").sum(1, keepdims=True)
        exact(own(tmp_path / "out", segment, "white"), want.astype("f4"))
    config.write_text(f"white: {{from: stim, role: other, python: '{tmp_path}/mine.py:short'}}\n")
    assert "short gave" in fail("transform", recording, tmp_path / "bad", "--config", config)


def test_a_function_at_every_place_of_a_chain(recording, tmp_path):
    """First, last, between, twice, before and after filters and statistics, as a source and joined."""
    (tmp_path / "mine.py").write_text(MINE)
    mine = f"{{python: '{tmp_path}/mine.py:from_the_end'}}"
    config = tmp_path / "c.yaml"
    config.write_text(f"""
first: {{from: robs, role: other, ops: [{mine}, {{scale: {{by: 3}}}}]}}
last: {{from: robs, role: other, ops: [{{scale: {{by: 3}}}}, {mine}]}}
between: {{from: robs, role: other, ops: [difference, {mine}, {{smooth: {{sigma: 1}}}}]}}
twice: {{from: robs, role: other, ops: [{mine}, difference, {mine}, {{columns: {{take: [1]}}}}]}}
plain: {{from: robs, role: other, python: '{tmp_path}/mine.py:from_the_end'}}
after: {{from: plain, role: other, ops: [{{scale: {{by: 3}}}}]}}
learned: {{from: plain, role: other, ops: [{{max_norm: {{over: recording, rows: all}}}}]}}
joined: {{from: [plain, after, robs], role: other, ops: [{{scale: {{by: 2}}}}]}}
source: {{from: after, role: other, ops: [{mine}]}}
halves: {{from: stim, role: other, ops: [{{crop: {{height: 3, width: 4}}}}, {{python: '{tmp_path}/mine.py:bytes_of'}}]}}
rounded: {{from: robs, role: other, ops: [{{scale: {{by: 0.3}}}}, {{cast: {{dtype: bf16}}}}]}}
seen: {{from: [dfs, rounded], role: other, python: '{tmp_path}/mine.py:flags'}}
""")
    out = tmp_path / "out"
    succeed("transform", recording, out, "--config", config)
    robs = {s: own(recording, s, "robs").astype(float) for s in segments(recording)}
    summed = {s: summed_from_the_end(x) for s, x in robs.items()}
    largest = max(x.max() for x in summed.values())
    for segment, x in robs.items():
        rows = pieces(recording, segment)
        near(own(out, segment, "first"), 3 * summed[segment])
        near(own(out, segment, "last"), summed_from_the_end(3 * x))
        between = summed_from_the_end(filtered(x, rows, differences))
        near(own(out, segment, "between"), filtered(between, rows, lambda x: smoothed(x, 1)))
        twice = summed_from_the_end(filtered(summed[segment], rows, differences))[:, [1]]
        near(own(out, segment, "twice"), twice)
        near(own(out, segment, "plain"), summed[segment])
        near(own(out, segment, "after"), 3 * summed[segment])
        near(own(out, segment, "learned"), summed[segment] / largest)
        near(own(out, segment, "joined"), 2 * np.concatenate([summed[segment], 3 * summed[segment], x], 1))
        near(own(out, segment, "source"), summed_from_the_end(3 * summed[segment]))
        exact(own(out, segment, "halves"), own(recording, segment, "stim")[:, :3, :4] // 2)
        dfs = np.unpackbits(own(recording, segment, "dfs"), axis=1, bitorder="little")[:, :x.shape[1]]
        halved = (bf16((np.float32(0.3) * x).astype("f4")).astype("u4") << 16).view("f4")
        near(own(out, segment, "seen"), dfs + halved.mean(1, keepdims=True))
    succeed("verify", out, "--all")


def summed_from_the_end(x):
    return np.cumsum(x[::-1], 0)[::-1] / len(x)


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
    ("g: {from: behavior, ops: [whiten]}", "a row needs a height and a width"),
    ("g: {from: stim, ops: [{whiten: {epsilon: -1}}]}", "epsilon is -1"),
    ("g: {from: stim, ops: [symlog], python: 'f.py:f'}", "write it among the ops"),
    ("g: {from: stim, ops: [{python: 'f.py'}]}", "is FILE.py:FUNCTION"),
    ("g: {from: behavior, ops: [{crop: {height: 1, width: 1}}, {python: 'f.py:f'}]}", "needs a height and a width"),
    ("g: {from: stim, ops: [{python: 'no.py:f'}]}", "there is no no.py"),
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


# ---- sources of a derived recording
def small_recording(path, *more):
    succeed("generate", "recording", path, "--sessions", 1, "--minutes", 0.2, "--side", 17, "--units", 2, *more)


def test_splits_come_with_it(recording, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("gaze: {from: behavior, ops: [symlog]}\n")
    name = next(segments(recording))[0]
    succeed("transform", recording, tmp_path / "out", "--config", config, "--sessions", name)
    succeed("transform", recording, tmp_path / "slow", "--step", 3)
    for segment in segments(tmp_path / "out"):
        exact(part_of(tmp_path / "out", segment), part_of(recording, segment))
    assert {s for s, _ in segments(tmp_path / "out")} == {name}
    for segment in segments(recording):
        first = np.concatenate([r[:len(r) // 3 * 3:3] for r in pieces(recording, segment)])
        groups = part_of(recording, segment)[first[:, None] + np.arange(3)]
        want = np.where((groups == groups[:, :1]).all(1), groups[:, 0], 255)
        exact(part_of(tmp_path / "slow", segment), want.astype("u1"))
    counts = manifest(tmp_path / "slow")["splits"][0]["how"]["counts"]
    assert counts["train"] == sum((part_of(tmp_path / "slow", s) == 0).sum() for s in segments(recording))
    assert "trials" in succeed("info", tmp_path / "slow")


def test_rows_of_two_parts_that_become_one_are_unused(tmp_path):
    small_recording(tmp_path / "rec")
    segment = next(segments(tmp_path / "rec"))
    piece = max(pieces(tmp_path / "rec", segment), key=len)
    cut = int(piece[0]) + 5  # inside a pair of rows
    rows = len(own(tmp_path / "rec", segment, "trial"))
    lists = {"train": {"/".join(segment): [[0, cut]]}, "val": {"/".join(segment): [[cut, rows]]}}
    (tmp_path / "lists.json").write_text(json.dumps(lists))
    succeed("split", tmp_path / "rec", "--name", "trials", "--by", "file", "--file", tmp_path / "lists.json")
    succeed("transform", tmp_path / "rec", tmp_path / "slow", "--step", 2)
    first = np.concatenate([r[: len(r) // 2 * 2 : 2] for r in pieces(tmp_path / "rec", segment)])
    found = part_of(tmp_path / "slow", segment)
    exact(found, np.where(first + 1 < cut, 0, np.where(first < cut, 255, 1)).astype("u1"))
    assert (found == 255).sum() == 1


def part_of(path, segment, name="trials"):
    split = next(s for s in manifest(path)["splits"] if s["name"] == name)
    parts, first = np.load(path / f"splits/{name}.npy"), 0
    for one in split["segments"]:
        if (one["session"], one["segment"]) == segment:
            return parts[first:first + one["frames"]]
        first += one["frames"]


def test_a_split_drawn_later_comes_too(tmp_path):
    small_recording(tmp_path / "rec")
    config = tmp_path / "c.yaml"
    config.write_text("gaze: {from: behavior, ops: [symlog]}\n")
    call = ("transform", tmp_path / "rec", tmp_path / "out", "--config", config)
    succeed(*call)
    for seed in (1, 2):
        succeed("split", tmp_path / "rec", "--name", "trials", "--seed", seed)
        assert "0 sessions written" in succeed(*call)
        for segment in segments(tmp_path / "rec"):
            exact(part_of(tmp_path / "out", segment), part_of(tmp_path / "rec", segment))
        succeed("split", tmp_path / "rec", "--name", "trials", "--remove")
    succeed("split", tmp_path / "out", "--name", "own", "--seed", 1)
    mine = (tmp_path / "out/splits/own.npy").read_bytes()
    succeed("split", tmp_path / "rec", "--name", "own", "--seed", 2)
    succeed(*call)
    assert (tmp_path / "out/splits/own.npy").read_bytes() == mine  # drawn there: it stays


def test_verify_says_that_a_source_has_changed(tmp_path):
    rec, out = tmp_path / "rec", tmp_path / "out"
    small_recording(rec)
    succeed("split", rec, "--name", "trials", "--seed", 1)
    config = tmp_path / "c.yaml"
    config.write_text("gaze: {from: behavior, ops: [standardise, symlog]}\nsmall: {from: stim, ops: [{resize: {height: 4, width: 4}}]}\n")
    without = ("--without", ",".join(f["name"] for f in manifest(rec)["sessions"][0]["segments"][0]["fields"]))
    succeed("transform", rec, out, "--config", config, *without)
    frames = sum(len(own(rec, s, "trial")) for s in segments(rec))
    said = succeed("verify", out, "--all")
    assert f"{2 * frames:,} rows made again are the same" in said, said
    # A value made otherwise, with checksums that are right.
    edited = tmp_path / "edited"
    config.write_text("gaze: {from: behavior, ops: [standardise, symlog, {scale: {by: 1.00001}}]}\n"
                      "small: {from: stim, ops: [{resize: {height: 4, width: 4}}]}\n")
    succeed("transform", rec, edited, "--config", config, *without)
    there = manifest(out)["made_by"]["settings"]
    edit_manifest(edited, lambda m: m["made_by"].update(settings=there))
    assert "is not what its source gives now" in fail("verify", edited)
    (tmp_path / "nothing").mkdir()
    assert "no finished store or recording is there" in fail("verify", tmp_path / "nothing")
    succeed("split", rec, "--name", "trials", "--remove")
    succeed("split", rec, "--name", "trials", "--seed", 2, "--fractions", "0.3,0.4,0.3")
    assert "has changed since" in fail("verify", out)
    rec.rename(tmp_path / "elsewhere")
    done = lacuna("verify", out)
    assert done.returncode == 0 and "not there: not compared" in done.stdout + done.stderr


def seal(path, values):
    """Writes JSON with the checksum that Lacuna writes: of all bytes before its line."""
    xxhash = pytest.importorskip("xxhash")
    text = json.dumps(values, indent=2)[:-2]
    path.write_text(f'{text},\n  "checksum": "xxh3:{xxhash.xxh3_64_hexdigest(text.encode())}"\n}}\n')


def test_statistics_are_remembered(tmp_path):
    rec = tmp_path / "rec"
    small_recording(rec)
    succeed("split", rec, "--name", "trials", "--seed", 1)
    config = tmp_path / "c.yaml"
    config.write_text("gaze: {from: behavior, ops: [{max_norm: {over: recording}}]}\n")
    call = ("transform", rec, "--config", config)
    succeed(*call, tmp_path / "a")
    files = list((rec / "statistics").iterdir())
    assert len(files) == 1
    wanted = {s: own(tmp_path / "a", s, "gaze") for s in segments(rec)}
    # What is remembered is used: twice the maximum halves the values.
    json_file = json.loads(files[0].read_text())
    value = np.array(json_file["divide"], "u4").view("f4") * np.float32(2)
    forged = {"format": json_file["format"], "shift": json_file["shift"], "divide": [int(value.view("u4")[0])]}
    whole = files[0].read_bytes()
    seal(files[0], forged)
    succeed(*call, tmp_path / "b")
    for segment, values in wanted.items():
        exact(own(tmp_path / "b", segment, "gaze"), values / 2)
    # What is damaged is not believed, and written anew.
    damaged = bytearray(whole)
    damaged[whole.index(b"divide") + 12] ^= 1
    files[0].write_bytes(damaged)
    succeed(*call, tmp_path / "c")
    for segment, values in wanted.items():
        exact(own(tmp_path / "c", segment, "gaze"), values)
    assert files[0].read_bytes() == whole
    # Another split is another statistic.
    succeed("split", rec, "--name", "trials", "--remove")
    succeed("split", rec, "--name", "trials", "--seed", 3, "--fractions", "0.3,0.4,0.3")
    succeed(*call, tmp_path / "d")
    assert len(list((rec / "statistics").iterdir())) == 2
    succeed("info", rec, "--check")
