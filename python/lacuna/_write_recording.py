"""A new recording from arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from . import _core

ROLES = {
    "stim": "stimulus",
    "robs": "counts",
    "dfs": "validity",
    "valid": "validity",
    "behavior": "behaviour",
    "trial": "trial",
    "stimulus": "stimulus_id",
    "time": "time",
}
# What a recording holds; others become the smallest of these that has all their values.
_DTYPES = {"u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "i4": "i32", "i8": "i64", "f4": "f32", "f8": "f64"}
_WIDER = {"i1": "i4", "i2": "i4", "f2": "f4"}
_PIECE = 1 << 26  # bytes that are written at a time


def write_recording(
    path: str | os.PathLike,
    sessions: Mapping[str, Mapping],
    roles: Mapping[str, str] | None = None,
    add: bool = False,
) -> None:
    """Writes a new recording from NumPy arrays.

        lacuna.Recording.write("rec", {
            "m1_0703": {"subject": "m1", "rate": 120, "units": ["a", "b"],
                        "segments": {"gratings": {"stim": stim, "robs": counts, "trial": trial}}}})

    Args:
        path: of the new directory; it must not exist.
        sessions: by name, each a mapping with ``rate`` (bins a second), ``segments``, and if you have them ``subject``
            and ``units`` (their names). A segment is a mapping of field to array [T, ...], all of the same T. Anything
            that slices as an array does: a memory map is written piece by piece. Booleans [T, units] are kept as bits.
        roles: what fields are for, by name (docs/recordings.md lists them). stim, robs, dfs, valid, behavior, trial,
            stimulus and time mean what they mean in synthetic recordings; other names need one here.
        add: to a recording that is there.
    """
    known = {**ROLES, **(roles or {})}
    _check(sessions, known)
    writer = _core.RecordingWriter(Path(path), add)
    for name, session in sessions.items():
        units = [str(unit) for unit in session.get("units", ())]
        writer.begin_session(name, str(session.get("subject", "")), float(session["rate"]), units)
        for segment, fields in session["segments"].items():
            writer.begin_segment(segment)
            for field, values in fields.items():
                _write_field(writer, field, known[field], values)
    writer.commit({"sessions": list(sessions)})


def _check(sessions: Mapping[str, Mapping], roles: Mapping[str, str]) -> None:
    if not sessions:
        raise _core.UsageError("a recording without sessions: give at least one")
    for name, session in sessions.items():
        for key in ("rate", "segments"):
            if key not in session:
                raise _core.UsageError(f"session {name!r} has no {key!r}")
        if unknown := set(session) - {"rate", "segments", "subject", "units"}:
            raise _core.UsageError(f"session {name!r} has {sorted(unknown)}; it takes rate, segments, subject and units")
        for segment, fields in session["segments"].items():
            if missing := [field for field in fields if field not in roles]:
                raise _core.UsageError(
                    f"{name}/{segment}: nothing says what the field {missing[0]!r} is for; give its role: "
                    f"roles={{{missing[0]!r}: 'behaviour'}}, or 'other'"
                )


def _write_field(writer, name: str, role: str, values) -> None:
    values = values if hasattr(values, "shape") and hasattr(values, "dtype") else np.asarray(values)
    if len(values.shape) == 0:
        raise _core.UsageError(f"field {name!r} is a single number; it needs rows")
    dtype = np.dtype(values.dtype)
    is_packed = dtype == bool and len(values.shape) == 2
    code = "u1" if dtype == bool else f"{dtype.kind}{dtype.itemsize}"
    code = _WIDER.get(code, code)
    if code not in _DTYPES:
        raise _core.UsageError(f"field {name!r} is {dtype}, which a recording does not hold; convert it to float32")
    rows = values.shape[0]
    writer.begin_field(name, role, _DTYPES[code], list(values.shape[1:]), is_packed, rows)
    row_bytes = max(1, np.dtype(code).itemsize * int(np.prod(values.shape[1:])))
    step = max(1, _PIECE // row_bytes)
    for begin in range(0, rows, step):
        piece = np.asarray(values[begin : begin + step])
        if is_packed:
            piece = np.packbits(piece, axis=1, bitorder="little")
        writer.append(np.ascontiguousarray(piece.astype(f"<{code}", copy=False)))
    writer.end_field()
