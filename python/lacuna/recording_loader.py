"""Batches of windows of a recording."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import _core
from ._progress import Progress
from .loader import Loader, _ranks
from .recording import Recording
from .screen import _part_name

_DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}


class RecordingLoader(Loader):
    """Batches of windows: a time t of a session each, with the frames up to it and the counts at it.

    The windows of a batch are ordered by session, so that a model's core runs once over all of them and each session's
    head over its slice: those of ``session[s]`` are rows ``ptr[s]`` to ``ptr[s + 1] - 1``. Every batch is a dict:

    - ``stimulus`` [B, lags, Y, X], newest frame first: (x - 127) / 255 in ``dtype``, or bytes on a rung that ends with
      ``@device``, to be cast there: ``lacuna.cast(stimulus, 1 / 255, -127 / 255)``
    - ``session`` [S] int64, ``ptr`` [S + 1] int32, both on the host, since a model loops over them
    - ``windows`` [B] int64, on the host: their numbers; ``RecordingLoader.where`` says which rows they are
    - ``counts``, a list [S] of tensors [b, units] float32, and ``validity``, the same as bool: counts to use. Counts that
      are neither valid nor finite are 0.
    - ``inputs``, by the words of ``inputs``, lists [S] of tensors [b, lags, columns] float32

    With ``rows`` T > 1 a window has T target rows t, t + 1, ...: counts and validity are [b, T, units], and the stimulus
    and inputs have lags + T - 1 rows, those of the last target row first.

    Args:
        data: a ``lacuna.Recording``, or its path.
        batch: windows a batch, of all ranks together; None: 256.
        split: name of a split; without one all windows.
        part: train, validation or test, of the split.
        rung: where frames lie and who casts them (docs/recording-ladder.md): ram:u8, disk:u8, disk:chunks, tiered,
            ram:bf16, ..., with @worker or @device where bytes lie there. Without one of these it is @device where
            ``device`` is a GPU. None: disk:u8.
        store: of a rung that reads one.
        hot: bytes in memory of the rung tiered.
        stimulus, counts, validity: names of fields; validity "": the one by unit, where there is one.
        lags: rows of the stimulus.
        inputs: further fields, as in a config: "behavior", "behavior:5" (5 rows), "robs:10@1" (10 rows from t - 1 on).
        rows, step: target rows of a window, and bins a row.
        sessions, segments, units: by name; none: all.
        order: proportional (an epoch visits every window once), balanced, or weights, which ``weights`` gives.
        weights: by session or subject: {"monkey1": 2, "m2_0703": 1}.
        mixed: several sessions in a batch, or one.
        steps: batches an epoch; None: as many as hold all windows once.
        dtype: float32 or bfloat16, of frames that the loader casts.
        device, seed, shuffle, rank, world_size, threads: as for ``lacuna.ScreenLoader``.
        prefetch: batches made and not yet taken, at most; None: a few.
    """

    def __init__(
        self,
        data: Recording | str | os.PathLike,
        batch: int | None = None,
        split: str | None = None,
        part: str = "train",
        rung: str | None = None,
        store: str | os.PathLike | None = None,
        hot: int = 0,
        stimulus: str = "stim",
        lags: int = 33,
        inputs: Sequence[str] = (),
        counts: str = "robs",
        validity: str = "",
        rows: int = 1,
        step: int = 1,
        sessions: Sequence[str] = (),
        segments: Sequence[str] = (),
        units: Sequence[str] = (),
        order: str = "proportional",
        weights: Mapping[str, float] | None = None,
        mixed: bool = True,
        steps: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        seed: int = 0,
        shuffle: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        threads: int = 2,
        prefetch: int | None = None,
    ):
        self.recording = data if isinstance(data, Recording) else Recording.open(data)
        self.device = torch.device(device) if device is not None else None
        self._inputs, self._rows = list(inputs), rows
        if dtype not in _DTYPES:
            raise _core.UsageError(f"dtype {dtype}: float32 or bfloat16")
        if bool(weights) != (order == "weights"):
            raise _core.UsageError("weights goes with order='weights', and that with weights")
        if shuffle is None:
            shuffle = split is None or _part_name(part) == "train"
        rank, world_size = _ranks(rank, world_size)
        self._threads, self._prefetch = threads, prefetch
        self._settings = {
            "split": split or "",
            "part": _part_name(part),
            "stimulus": stimulus,
            "lags": _at_least_one("lags", lags),
            "inputs": self._inputs,
            "counts": counts,
            "validity": validity,
            "rows": _at_least_one("rows", rows),
            "step": _at_least_one("step", step),
            "sessions": list(sessions),
            "segments": list(segments),
            "units": list(units),
            "rung": "disk:u8" if rung is None else rung,
            "store": str(store or ""),
            "hot": hot,
            "has_gpu": self.device is not None and self.device.type != "cpu",
            "dtype": _DTYPES[dtype],
            "order": order,
            "weights": dict(weights or {}),
            "mixed": mixed,
            "steps": steps or 0,
            "batch": _at_least_one("batch", 256 if batch is None else batch),
            "seed": seed,
            "shuffle": shuffle,
            "rank": rank,
            "world": world_size,
        }
        self._core = self._make_core()

    def _make_core(self) -> _core.RecordingLoader:
        with Progress() as progress:
            return _core.RecordingLoader(self.recording._core, self._settings, self._threads, self._prefetch, progress)

    @property
    def windows(self) -> int:
        """How many there are."""
        return self._core.windows

    def where(self, windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(session, segment, t), each [n], of windows by their numbers: t is the first target row."""
        return self._core.where([int(window) for window in windows])

    def units_of(self, session: int) -> list[str]:
        """Names of the units in the counts of a session, by its number."""
        return [self.recording.sessions[session].units[unit] for unit in self._core.units_of(session)]

    def _tensors(self, arrays: dict[str, Any]) -> dict[str, Any]:
        stimulus = arrays["stimulus"]
        frames = torch.from_numpy(stimulus)
        if stimulus.dtype == np.uint16:
            frames = frames.view(torch.bfloat16)
        counts, validity = (
            [self._place(torch.from_numpy(one[:, 0] if self._rows == 1 else one)) for one in arrays[name]]
            for name in ("counts", "validity")
        )
        return {
            "stimulus": self._place(frames),
            "session": torch.tensor(arrays["session"], dtype=torch.int64),
            "ptr": torch.from_numpy(arrays["ptr"]),
            "windows": torch.from_numpy(arrays["windows"]),
            "counts": counts,
            "validity": [one.view(torch.bool) for one in validity],
            "inputs": {
                words: [self._place(torch.from_numpy(of_session[i])) for of_session in arrays["inputs"]]
                for i, words in enumerate(self._inputs)
            },
        }

    def __repr__(self) -> str:
        return f"Loader({str(self.recording.path)!r}: {self.windows:,} windows, {len(self):,} batches an epoch)"


def _at_least_one(name: str, value: int) -> int:
    if int(value) != value or value < 1:
        raise _core.UsageError(f"{name} {value}: a whole number from 1 on")
    return int(value)
