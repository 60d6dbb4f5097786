"""Every window of every rung, and their number, against ten lines of NumPy that read the recording's .npy files.

The pixels of the recording are a hash of (session, segment, t, y, x); it has short trials, rows outside trials, gaps in
time, dropped rows and NaN."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from program import BUILD, succeed
from seeds import seed_of

SEED = seed_of("test_windows")
RATE = 120


def probe(*words):
    done = subprocess.run([BUILD / "window_probe", *map(str, words)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr, (SEED, done.stderr)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    if not (BUILD / "window_probe").exists():
        pytest.skip("window_probe was not built")
    path = tmp_path_factory.mktemp("windows") / "recording"
    probe("write", path, SEED)
    return path


def segments(recording, made=None):
    """[(session, segment, fields by name)], straight from the files; those that `made` has of its own from there."""
    manifest = json.loads((recording / "manifest.json").read_text())
    for s, session in enumerate(manifest["sessions"]):
        for g, segment in enumerate(session["segments"]):
            place = pathlib.Path(session["name"]) / segment["name"]
            files = [place / f"{f['name']}.npy" for f in segment["fields"]]
            folders = [made if made and (made / f).exists() else recording for f in files]
            yield s, g, {f.stem: np.load(folder / f) for f, folder in zip(files, folders)}


def rows_of(t, lags, step=1, first=0):
    return t - step * (first + np.arange(lags))


def expected(fields, lags, targets=1, step=1, inputs=()):
    """The times of all windows of a segment."""
    trial, time, count = fields["trial"], fields["time"], len(fields["trial"])
    change = (np.diff(trial) != 0) | (np.diff(time) <= 0) | (np.diff(time) > 1.5 / RATE)
    run = np.concatenate([[0], np.cumsum(change)])
    start = np.array([np.flatnonzero(run == r)[0] for r in run])
    finite = np.isfinite(fields["behavior"]).all(1)
    found = []
    for t in range(count):
        if trial[t] < 0 or (t - start[t]) % step:
            continue
        taken = [rows_of(t, lags, step)]  # frames are taken; of all other fields the whole group of bins is read
        groups = [*(rows_of(t, n, step, first) for _, n, first in inputs), t + step * np.arange(targets)]
        bins = [(g[:, None] + np.arange(step)).ravel() for g in groups]
        rows = np.concatenate(taken + bins)
        if rows.min() < start[t] or rows.max() >= count or (run[rows] != run[t]).any() or not fields["valid"][rows].all():
            continue
        if all(finite[b].all() for b, (name, _, _) in zip(bins, inputs) if name == "behavior"):
            found.append(t)
    return found


def check(recording, out, rung, lags, targets=1, step=1, inputs=(), store=()):
    settings = {"lags": lags, "targets": targets, "step": step,
                "inputs": [{"field": f, "lags": n, "first": first} for f, n, first in inputs]}
    probe("windows", recording, out, json.dumps(settings), rung, *store)
    index, stim = np.load(out / "index.npy"), np.load(out / "stim.npy")
    want, at, seen = [], 0, {}
    for s, g, fields in segments(recording):
        times = expected(fields, lags, targets, step, inputs)
        for t in times:
            want.append((s, g, t))
        frames = fields["stim"][np.array([rows_of(t, lags, step) for t in times], int)]
        got, at = stim[at:at + len(times)], at + len(times)
        same_frames(got, frames, rung)
        before = seen.get(s, 0)
        own = slice(before, before + len(times))
        seen[s] = before + len(times)
        bins = np.array([t + np.arange(targets * step).reshape(targets, step) for t in times], int)
        np.testing.assert_array_equal(np.load(out / f"counts.{s}.npy")[own], fields["robs"][bins].sum(2))
        np.testing.assert_array_equal(np.load(out / f"validity.{s}.npy")[own], fields["dfs"][bins].all(2))
        for i, (field, n, first) in enumerate(inputs):
            of = np.array([rows_of(t, n, step, first) for t in times], int)[:, :, None] + np.arange(step)
            bins = fields[field][of].astype(float)
            one = (bins.sum(2) if field == "robs" else bins.mean(2)).astype("f4")  # counts are summed
            np.testing.assert_array_equal(np.load(out / f"input.{s}.{i}.npy").reshape(-1, *one.shape[1:])[own], one)
    assert [tuple(row) for row in index] == want, SEED
    assert at == len(stim) > 50


def same_frames(got, frames, rung):
    normal = (frames.astype("f4") - np.float32(127)) / np.float32(255)
    if got.dtype == np.uint8:
        np.testing.assert_array_equal(got, frames)
    elif got.dtype == np.float32:
        np.testing.assert_array_equal(got, normal)
    else:  # bf16 as u2: the upper half, rounded to nearest even
        bits = normal.view("u4")
        np.testing.assert_array_equal(got, ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("u2"))


def pixel_hash(s, g, t, y, x):
    with np.errstate(over="ignore"):
        z = np.uint64(((s * 16 + g) << 32)) | t.astype("u8")
        z = (z * np.uint64(64) + y.astype("u8")) * np.uint64(64) + x.astype("u8")
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(56)).astype("u1")


def test_pixels_say_where_they_belong(recording):
    seen = np.zeros(4, bool)
    for s, g, fields in segments(recording):
        t, y, x = np.indices(fields["stim"].shape)
        np.testing.assert_array_equal(fields["stim"], pixel_hash(s, g, t, y, x))
        seen |= [(fields["trial"] < 0).any(), np.isnan(fields["behavior"]).any(), (fields["valid"] == 0).any(),
                 (np.diff(fields["time"]) > 0.02).any()]
    assert seen.all(), SEED


RUNGS = ["ram:u8@device", "ram:u8@worker", "ram:bf16", "ram:f32", "disk:u8@device", "disk:u8@worker", "tiered@device",
         "tiered@worker"]
STORED = {"disk:bf16": "bf16", "disk:f32": "f32", "disk:chunks@worker": "chunks", "disk:chunks@device": "chunks",
          "ram:chunks@device": "chunks", "ram:chunks@worker": "chunks"}


@pytest.mark.parametrize("rung", [*RUNGS, *STORED])
def test_every_window_of_every_rung(recording, tmp_path, rung):
    store = ()
    if rung in STORED:
        store = (tmp_path / "store",)
        probe("prepare", recording, *store, STORED[rung])
    inputs = (("behavior", 2, 0), ("robs", 3, 1))
    check(recording, tmp_path / "out", rung, lags=6, inputs=inputs, store=store)
    check(recording, tmp_path / "down", rung, lags=2, targets=2, step=3, inputs=inputs, store=store)


@pytest.mark.parametrize("lags,targets,step", [(1, 1, 1), (4, 5, 1), (5, 1, 2), (2, 2, 4)])
def test_windows_of_other_lengths(recording, tmp_path, lags, targets, step):
    check(recording, tmp_path / "out", "disk:u8@device", lags, targets, step)


@pytest.mark.parametrize("rung,lags,rows,step", [("disk:u8@device", 4, 5, 1), ("ram:f32", 2, 2, 3)])
def test_a_run_of_target_rows_has_the_windows_of_each(recording, tmp_path, rung, lags, rows, step):
    inputs = (("behavior", 2, 0), ("robs", 3, 1))
    settings = {"lags": lags, "rows": rows, "step": step,
                "inputs": [{"field": f, "lags": n, "first": first} for f, n, first in inputs]}
    probe("windows", recording, tmp_path, json.dumps(settings), rung)
    index, stim = np.load(tmp_path / "index.npy"), np.load(tmp_path / "stim.npy")
    want, seen = [], {}
    for s, g, fields in segments(recording):
        single = set(expected(fields, lags, 1, step, inputs))  # two lags or more: neighbours belong together
        times = [t for t in sorted(single) if all(t + r * step in single for r in range(rows))]
        last = [t + (rows - 1) * step for t in times]
        own = slice(seen.get(s, 0), seen.get(s, 0) + len(times))
        seen[s] = own.stop
        frames = fields["stim"][np.array([rows_of(t, lags + rows - 1, step) for t in last], int)]
        same_frames(stim[len(want):len(want) + len(times)], frames, rung)
        want += [(s, g, t) for t in times]
        bins = np.array([t + np.arange(rows * step).reshape(rows, step) for t in times], int)
        np.testing.assert_array_equal(np.load(tmp_path / f"counts.{s}.npy")[own], fields["robs"][bins].sum(2))
        np.testing.assert_array_equal(np.load(tmp_path / f"validity.{s}.npy")[own], fields["dfs"][bins].all(2))
        for i, (field, n, first) in enumerate(inputs):
            of = np.array([rows_of(t, n + rows - 1, step, first) for t in last], int)[:, :, None] + np.arange(step)
            bins = fields[field][of].astype(float)
            one = (bins.sum(2) if field == "robs" else bins.mean(2)).astype("f4")
            np.testing.assert_array_equal(np.load(tmp_path / f"input.{s}.{i}.npy").reshape(-1, *one.shape[1:])[own], one)
    assert [tuple(row) for row in index] == want, SEED
    assert len(stim) == len(want) > 50


def test_inputs_that_are_made_late_are_those_that_are_written(recording, tmp_path):
    """An op with a halo, one with a statistic, a join: made window by window, or once by `lacuna transform`."""
    transforms = {"g": {"from": "behavior", "ops": [{"smooth": {"sigma": 1.2}}, {"difference": {"lag": 2}}]},
                  "h": {"from": ["g", "robs"], "role": "behaviour",
                        "ops": [{"standardise": {"split": "trials", "over": "session"}}, "symlog"]}}
    (tmp_path / "c.yaml").write_text(json.dumps(transforms))
    succeed("transform", recording, tmp_path / "written", "--config", tmp_path / "c.yaml")
    for step in (1, 2):
        settings = {"lags": 4, "step": step, "inputs": [{"field": f, "lags": 3, "first": 1} for f in "gh"]}
        probe("windows", recording, tmp_path / "late", json.dumps({**settings, "transforms": transforms}), "disk:u8@device")
        probe("windows", tmp_path / "written", tmp_path / "early", json.dumps(settings), "disk:u8@device")
        names = sorted(p.name for p in (tmp_path / "late").iterdir())
        assert len(names) == 2 + 3 * 4
        for name in names:
            early, late = np.load(tmp_path / "early" / name), np.load(tmp_path / "late" / name)
            np.testing.assert_array_equal(early, late, err_msg=f"{name} {SEED}")
            assert len(late) > 30


def test_windows_of_a_part_lie_in_its_trials(recording, tmp_path):
    parts = np.load(recording / "splits/trials.npy")
    first = np.concatenate([[0], np.cumsum([len(f["trial"]) for _, _, f in segments(recording)])])
    place = {(s, g): int(first[i]) for i, (s, g, _) in enumerate(segments(recording))}
    total = 0
    for number, part in enumerate(["train", "validation", "test"]):
        settings = {"lags": 6, "split": "trials", "part": part}
        probe("windows", recording, tmp_path / part, json.dumps(settings), "disk:u8@device")
        index = np.load(tmp_path / part / "index.npy")
        for s, g, t in index:
            assert (parts[place[s, g] + rows_of(t, 6)] == number).all()
        total += len(index)
    assert total == sum(len(expected(f, 6)) for _, _, f in segments(recording))


def test_transformed_frames_are_served_or_refused(recording, tmp_path):
    """Frames that an op with a halo has made f32: served as they are where f32 lies, refused where bytes would."""
    (tmp_path / "c.yaml").write_text("stim: {from: stim, ops: [normalise, {smooth: {sigma: 0.7}}]}")
    made = tmp_path / "made"
    succeed("transform", recording, made, "--config", tmp_path / "c.yaml")
    probe("prepare", made, tmp_path / "store", "f32")
    settings = json.dumps({"lags": 4})
    for rung, store in [("ram:f32", ()), ("disk:f32", (tmp_path / "store",))]:
        probe("windows", made, tmp_path / "out", settings, rung, *store)
        index, stim = np.load(tmp_path / "out/index.npy"), np.load(tmp_path / "out/stim.npy")
        frames = {(s, g): fields["stim"] for s, g, fields in segments(recording, made)}
        assert stim.dtype == np.float32 and len(stim) > 50
        for (s, g, t), window in zip(index, stim):
            np.testing.assert_array_equal(window, frames[s, g][rows_of(t, 4)])
    done = subprocess.run([BUILD / "window_probe", "windows", made, tmp_path / "out", settings, "disk:u8@device"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "'stim'" in done.stderr and "f32" in done.stderr, done.stderr
    (tmp_path / "small.yaml").write_text("stim: {from: stim, ops: [{crop: {y: 1, x: 2, height: 3, width: 4}}]}")
    succeed("transform", recording, tmp_path / "small", "--config", tmp_path / "small.yaml")
    probe("windows", tmp_path / "small", tmp_path / "out", settings, "disk:u8@device")  # cropped bytes stay bytes
    frames = {(s, g): fields["stim"] for s, g, fields in segments(recording)}
    for (s, g, t), window in zip(np.load(tmp_path / "out/index.npy"), np.load(tmp_path / "out/stim.npy")):
        np.testing.assert_array_equal(window, frames[s, g][rows_of(t, 4), 1:4, 2:6])
