"""Recordings: sessions of movies with the spike counts of the neurons that saw them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from . import _core
from ._function_file import named_functions
from ._program import call
from ._progress import Progress
from ._write_recording import write_recording
from .screen import PARTS, _part_name, command_words


class Field:
    """One array of a segment, [T, ...].

    Attributes:
        name, role: "stim", "stimulus"; docs/recordings.md lists the roles.
        dtype: as stored: u8, bits, i32, bf16, f32, ...
        shape: of the values.
        file: where the bytes lie.
        in_place: that file is not the recording's own.
    """

    def __init__(self, core, session: str, segment: str, told: tuple):
        self._core, self._place = core, (session, segment)
        self.name, self.role, dtype, shape, self.packed, self.in_place, self.file = told
        self.dtype = "bits" if self.packed else dtype
        self.shape = tuple(shape)

    @property
    def values(self) -> np.ndarray:
        """A read-only view of the file; of bits a copy as u8, of bf16 a view as u16. Nothing is compared with checksums:
        ``Recording.check`` does."""
        stored = self._core.field(*self._place, self.name)
        if not self.packed:
            return stored
        return np.unpackbits(stored, axis=1, count=self.shape[1], bitorder="little")

    def __repr__(self) -> str:
        return f"Field({self.name!r}: {self.role}, {self.dtype} {list(self.shape)})"


class Segment:
    """What was recorded in one go, with one time axis: ``segment["stim"]`` is an array [T, Y, X].

    Attributes:
        name: "gratings".
        frames: T.
        fields: by name, a ``Field`` each.
    """

    def __init__(self, name: str, frames: int, fields: Iterable[Field]):
        self.name, self.frames = name, frames
        self.fields = {field.name: field for field in fields}

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of a field, [T, ...]; see ``Field.values``."""
        if name not in self.fields:
            raise KeyError(f"segment {self.name!r} has no field {name!r}; it has {', '.join(self.fields)}")
        return self.fields[name].values

    def __len__(self) -> int:
        """Rows, T."""
        return self.frames

    def __repr__(self) -> str:
        return f"Segment({self.name!r}: {self.frames:,} rows of {', '.join(self.fields)})"


class Session:
    """A session of a recording.

    Attributes:
        name, subject: "m1_0703", "m1".
        rate: bins a second.
        units: their names.
        segments: by name, a ``Segment`` each.
    """

    def __init__(self, core, told: tuple):
        self.name, self.subject, self.rate, units, segments = told
        self.units = list(units)
        self.segments = {
            name: Segment(name, frames, [Field(core, self.name, name, field) for field in fields])
            for name, frames, fields in segments
        }

    def __getitem__(self, segment: str) -> Segment:
        """A segment by name."""
        if segment not in self.segments:
            raise KeyError(f"session {self.name!r} has no segment {segment!r}; it has {', '.join(self.segments)}")
        return self.segments[segment]

    def __repr__(self) -> str:
        rows = sum(segment.frames for segment in self.segments.values())
        return f"Session({self.name!r} of {self.subject!r}: {len(self.units)} units, {rows:,} rows at {self.rate:g} Hz)"


class RecordingSplit:
    """A part for every row of the segments that it covers.

    Attributes:
        name: its name in the recording.
        parts: by (session, segment), [T] u8 views; ``lacuna.screen.PARTS`` has the meaning of the numbers.
        how: how it was drawn, or where it came from.
    """

    def __init__(self, name: str, parts: Mapping[tuple[str, str], np.ndarray], how: Mapping):
        self.name, self.parts, self.how = name, dict(parts), dict(how or {})

    def rows(self, part: str) -> dict[tuple[str, str], np.ndarray]:
        """The rows of a part, ascending, by (session, segment)."""
        number = PARTS[_part_name(part)]
        return {place: np.flatnonzero(parts == number) for place, parts in self.parts.items()}

    def __repr__(self) -> str:
        counts = ", ".join(f"{part} {sum(map(len, self.rows(part).values())):,}" for part in PARTS)
        return f"RecordingSplit({self.name!r}: rows: {counts})"


class Recording:
    """An open recording. Make one with ``Recording.open``, ``Recording.write`` or ``Recording.generate``;
    ``Recording(path)`` opens one, too.

    Arrays are read-only views of the files; nothing is copied, and nothing is read before you look.

    Attributes:
        path: where it lies.
        sessions: a ``Session`` each, in the order that batches number them.
    """

    def __init__(self, path: str | os.PathLike | _core.Recording):
        self._core: _core.Recording = path if isinstance(path, _core.Recording) else type(self).open(path)._core
        core = self._core
        self.path = Path(core.path)
        self.sessions = [Session(core, told) for told in core.sessions]

    def __reduce__(self) -> tuple:
        """A copy, and what arrives in another process, opens the path again."""
        return _reopened, (str(self.path.absolute()), self.fingerprint)

    # ---- making
    @classmethod
    def open(cls, path: str | os.PathLike, check: bool = False) -> Recording:
        """Opens a recording.

        Args:
            path: its directory.
            check: read every byte against its checksum first. Without it, a ``lacuna.Loader`` compares each row the
                first time that it is read; arrays that you look at yourself are as they lie there.
        """
        recording = cls(_core.Recording.open(Path(path)))
        if check:
            recording.check()
        return recording

    @classmethod
    def write(
        cls,
        path: str | os.PathLike,
        sessions: Mapping[str, Mapping],
        roles: Mapping[str, str] | None = None,
        add: bool = False,
    ) -> Recording:
        """Writes a new recording from NumPy arrays, and opens it; ``lacuna.write_recording`` has an example.

        Args:
            path: of the new directory; it must not exist.
            sessions: by name, each with ``rate``, ``segments``, and if you have them ``subject`` and ``units``.
            roles: what fields are for, by name, where the name does not tell.
            add: to a recording that is there.
        """
        write_recording(path, sessions, roles, add)
        return cls.open(path)

    @classmethod
    def generate(
        cls,
        path: str | os.PathLike,
        sessions: int = 3,
        minutes: float = 5,
        seed: int = 0,
        side: int = 51,
        units: int = 0,
    ) -> Recording:
        """Writes a synthetic recording whose receptive fields are known (docs/recordings.md), and opens it.

        Args:
            path: of the new directory.
            sessions, minutes: how many, and of each.
            seed: of everything in it.
            side: pixels of a frame's side.
            units: of each session; 0: 23 to 181.
        """
        options = {"sessions": sessions, "minutes": minutes, "seed": seed, "side": side, "units": units}
        call("generate", "recording", path, *command_words(options))
        return cls.open(path)

    def transform(
        self, out: str | os.PathLike, config: str | os.PathLike | Mapping | None = None, **options: object
    ) -> Recording:
        """`lacuna transform`: a recording with new fields, which refers to this one for what does not change.

            recording.transform("gaze", {"gaze": {"from": "behavior", "ops": [{"columns": {"take": [0, 1]}}]}})
            recording.transform("mine", {"mine": {"from": "stim", "ops": [{"python": "mine.py:function"}]}})

        Args:
            out: of the new directory; what is there already by the same settings is kept.
            config: new fields by name, or a YAML file with them (docs/recordings.md has the ops). The op ``python`` is
                ``FILE.py:FUNCTION`` or the function itself: ``function(*sources, session, segment, rate)``. It is called
                in a process of its own; one of a notebook is written into OUT.functions/ for that, with the modules that
                it uses.
            options: further ones of the command: ``sessions=``, ``without=``, ``step=``, ``resize=``.
        """
        options = {name: ",".join(v) if isinstance(v, (list, tuple)) else v for name, v in options.items()}
        words = ["transform", self.path, out, "--python", sys.executable, *command_words(options)]
        with tempfile.TemporaryDirectory(prefix="lacuna-transform-") as folder:
            if isinstance(config, Mapping):
                file = Path(folder) / "transforms.yaml"
                functions = Path(out).with_name(Path(out).name + ".functions")
                file.write_text(json.dumps(named_functions(config, functions)))
                config = file
            call(*words, *([] if config is None else ["--config", config]))
        return Recording.open(out)

    # ---- looking
    def __len__(self) -> int:
        """Sessions."""
        return len(self.sessions)

    def session(self, name: str) -> Session:
        """A session by name."""
        for session in self.sessions:
            if session.name == name:
                return session
        raise _core.Error(f"{self.path}: no session {name!r}; it has {', '.join(s.name for s in self.sessions)}")

    @property
    def fingerprint(self) -> str:
        """Of all sessions, as `lacuna info` shows it."""
        return f"{self._core.fingerprint:016x}"

    @property
    def bytes(self) -> int:
        """Of all fields."""
        return self._core.bytes

    def check(self) -> None:
        """Reads every byte against its checksum; lacuna.Error names what differs."""
        with Progress() as progress:
            self._core.check(progress)

    def truth(self, session: str, name: str) -> np.ndarray | None:
        """What a synthetic recording knows of its units: spatial [units, Y, X], temporal [units, lags], rates."""
        return self._core.truth(session, name)

    @property
    def splits(self) -> list[str]:
        """Names of its splits."""
        return list(self._core.splits)

    def split(self, name: str) -> RecordingSplit:
        """A split by name."""
        return RecordingSplit(name, *self._core.split(name))

    def make_split(
        self,
        name: str,
        fractions: Sequence[float] = (0.8, 0.1, 0.1),
        seed: int = 0,
        repeats: str = "together",
        repeated: str = "",
        file: str | os.PathLike | None = None,
    ) -> RecordingSplit:
        """Draws a split by whole trials, adds it to the recording on disk and returns it (docs/recordings.md).

        Args:
            name: of the new split.
            fractions: of rows, for train, validation and test; what they leave of 1 is unused.
            seed: of the draw.
            repeats: trials of one stimulus number lie in one part: together, only within a session (session), or apart.
            repeated: the part for stimuli that several trials show, while there is room; "": as they are drawn.
            file: a JSON file of lists to take the split from instead.
        """
        lists = None if file is None else Path(file)
        _core.make_recording_split(self.path, name, tuple(fractions), seed, repeats, repeated, lists)
        self._core = _core.Recording.open(self.path)
        return self.split(name)

    def remove_split(self, name: str) -> None:
        """Takes a split out of the recording on disk."""
        _core.remove_recording_split(self.path, name)
        self._core = _core.Recording.open(self.path)

    def summary(self) -> dict:
        """What `lacuna info --json` prints: sessions, fields, splits."""
        with Progress() as progress:
            return self._core.summary(progress)

    def __repr__(self) -> str:
        units = sum(len(session.units) for session in self.sessions)
        return (
            f"Recording({str(self.path)!r}: {len(self):,} sessions, {units:,} units, {self.bytes / 1e6:,.1f} MB, "
            f"splits {', '.join(self.splits) or 'none'})"
        )

    def _repr_html_(self) -> str:
        from ._html import recording_html

        return recording_html(self)


def _reopened(path: str, fingerprint: str) -> Recording:
    """A recording that was pickled: the one that lies at its path must be the same."""
    recording = Recording.open(path)
    if recording.fingerprint != fingerprint:
        raise _core.Error(
            f"{path}: has the fingerprint {recording.fingerprint}, but {fingerprint} was pickled; open the recording that you "
            "mean with lacuna.Recording.open"
        )
    return recording


# As for screens: a checkpoint of Lightning may hold one.
torch.serialization.add_safe_globals([_reopened])


def import_recording(path: str | os.PathLike, *sources: object, **options: object) -> Recording:
    """`lacuna import recording` from Python: files into a new recording, which is opened (docs/import.md).

        lacuna.import_recording("rec", "m1_0703.h5", rate=120, in_place=True)

    Args:
        path: of the new directory.
        sources: files and folders, and further words of the command, as they stand.
        options: the command's options without their dashes, ``_`` for ``-``; a list repeats one, True is a flag.
    """
    call("import", "recording", path, *sources, *command_words(options))
    return Recording.open(path)
