"""A small recording from NumPy, and its windows in plain loops."""

import numpy as np

RATE = 120


def toy_sessions(seed, sessions=3, frames=160):
    """Short trials, rows outside trials, gaps in time, dropped rows, invalid counts and NaN in behaviour."""
    random = np.random.default_rng(seed)
    made = {}
    for s in range(sessions):
        segments = {}
        for name in ["noise", "images"][: 1 + s % 2]:
            rows = frames + int(random.integers(30))
            lengths = random.integers(8, 40, size=rows)
            trial = np.repeat(np.arange(rows), lengths)[:rows].astype(np.int32)
            trial[np.isin(trial, [2, 5])] = -1
            behavior = random.normal(size=(rows, 3)).astype(np.float32)
            behavior[random.random(rows) < 0.02, 1] = np.nan
            segments[name] = {
                "stim": random.integers(256, size=(rows, 5, 7), dtype=np.uint8),
                "robs": random.integers(4, size=(rows, s + 2)).astype(np.uint8),
                "dfs": random.random((rows, s + 2)) < 0.8,
                "valid": random.random(rows) < 0.98,
                "behavior": behavior,
                "trial": trial,
                "stimulus": np.where(trial < 0, -1, trial % 4).astype(np.int32),
                "time": 10 + np.cumsum(np.where(random.random(rows) < 0.02, 0.05, 1 / RATE)),
            }
        made[f"s{s}"] = {
            "subject": "ab"[s % 2],
            "rate": RATE,
            "units": [f"u{u}" for u in range(s + 2)],
            "segments": segments,
        }
    return made


def rows_of(t, lags, step=1, first=0):
    return t - step * (first + np.arange(lags))


def times_of_windows(fields, lags, rows=1, step=1, inputs=()):
    """The first target row of every window of a segment. inputs: (field, lags, first)."""
    trial, time, count = fields["trial"], fields["time"], len(fields["trial"])
    change = (np.diff(trial) != 0) | (np.diff(time) > 1.5 / RATE)
    run = np.concatenate([[0], np.cumsum(change)])
    start = np.array([np.flatnonzero(run == r)[0] for r in run])
    finite = {"behavior": np.isfinite(fields["behavior"]).all(1)}
    found = []
    for t in range(count):
        if trial[t] < 0 or (t - start[t]) % step:
            continue
        read = []  # rows of every target, and of what is read with it
        for target in t + step * np.arange(rows):
            bins = [(rows_of(target, n, step, first)[:, None] + np.arange(step)).ravel() for _, n, first in inputs]
            read += [rows_of(target, lags, step), target + np.arange(step), *bins]
        everything = np.concatenate(read)
        if everything.min() < start[t] or everything.max() >= count or (run[everything] != run[t]).any():
            continue
        if not fields["valid"][everything].all():
            continue
        behaviour = [
            (rows_of(target, n, step, first)[:, None] + np.arange(step)).ravel()
            for target in t + step * np.arange(rows)
            for name, n, first in inputs
            if name == "behavior"
        ]
        if all(finite["behavior"][bins].all() for bins in behaviour):
            found.append(t)
    return found


def windows_of(sessions, lags, rows=1, step=1, inputs=(), parts=None):
    """{(session, segment, t)} of all windows, or of those whose target rows have this part."""
    found = []
    for s, session in enumerate(sessions.values()):
        for g, (name, fields) in enumerate(session["segments"].items()):
            for t in times_of_windows(fields, lags, rows, step, inputs):
                if parts is None or parts[list(sessions)[s], name][t : t + rows * step].all():
                    found.append((s, g, t))
    return found
