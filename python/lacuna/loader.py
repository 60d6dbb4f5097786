"""Batches for training, made ahead of time by C++ threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _core
from ._progress import Progress
from .recording import Recording
from .screen import Screen


class Loader:
    """An iterable of batches, where people expect a ``DataLoader``.

    ``lacuna.Loader(data, ...)`` of a ``lacuna.Screen`` is a ``lacuna.ScreenLoader``, of a ``lacuna.Recording`` a
    ``lacuna.RecordingLoader``, which say what their batches hold and have more arguments than these.

    A pass of ``for batch in loader`` is an epoch; every epoch has another order, a pure function of (seed, epoch). A
    pass that was left early is not resumed: the next ``for`` begins the next epoch, and an iterator of the pass before
    raises lacuna.Error. ``Loader.state_dict`` says where the loader stands, and after ``Loader.load_state_dict`` the next
    pass goes on exactly there. With ``world_size`` ranks each loader gives its share of every global batch, and the state
    is the same on all of them.

    A batch that you keep never changes. Threads may each have a loader, also of the same screen; two that use one loader
    at the same time get lacuna.Error. It does not work in a forked process, and says so (make it there, or start
    processes with spawn). A copy, or a loader that was pickled, opens the data again and goes on where this one stands,
    for the same rank.

    Args:
        data: a ``lacuna.Screen`` or a ``lacuna.Recording``, or the path of one, which is opened.
        batch: samples or windows a batch, of all ranks together; None: 28 samples, 256 windows.
        split: name of a split; without one everything.
        part: train, validation or test, of the split.
        rung: where masks or frames lie and who makes them; None: kernel (docs/ladder.md) of a screen, disk:u8
            (docs/recording-ladder.md) of a recording.
        device: where the tensors lie.
        seed: of the order.
        shuffle: None: shuffled, unless part is validation or test.
        rank, world_size: this process among those that share a global batch; from torch.distributed where that runs.
        options: of a screen also ``columns`` (names of columns to load) and ``samples`` (numbers of the samples to load,
            instead of a split's part), of a recording ``lags``, ``inputs`` and more.
    """

    # Lightning takes what has a sampler for a DataLoader, and asks that for its batch_sampler when it validates, tests or
    # predicts. None: batches are not made by one.
    batch_sampler = None

    _core: Any
    device: torch.device | None = None
    _continues = False  # a state was loaded: the next pass goes on there
    _pass: object = None  # the latest that has begun

    def __new__(
        cls,
        data: Screen | Recording | str | os.PathLike,
        batch: int | None = None,
        split: str | None = None,
        part: str = "train",
        *_further: Any,
        rung: str | None = None,
        device: torch.device | str | None = None,
        seed: int = 0,
        shuffle: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,
    ) -> Loader:
        if cls is not Loader:
            return object.__new__(cls)
        from .recording_loader import RecordingLoader

        return object.__new__(RecordingLoader if _is_recording(data) else ScreenLoader)

    def __len__(self) -> int:
        """Batches an epoch, the same on every rank."""
        return self._core.batches

    @property
    def sampler(self) -> Loader:
        """Itself: Lightning calls ``loader.sampler.set_epoch``."""
        return self

    @property
    def epoch(self) -> int:
        """That of the next batch."""
        return self._core.state()["epoch"]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        state = self._core.state()
        if state["position"] > 0 and not self._continues:
            self._core.seek({**state, "epoch": state["epoch"] + 1, "position": 0})
        self._continues = False
        this = self._pass = object()
        while (arrays := self._core.next()) is not None:
            yield self._tensors(arrays)
            if self._pass is not this:
                raise _core.Error(
                    "another pass over this Loader has begun, and its batches would be missing here; give each pass a "
                    "Loader of its own"
                )

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch, from its start; a state that was loaded in this epoch keeps its place."""
        state = self._core.state()
        if not (self._continues and state["epoch"] == epoch):
            self._core.seek({**state, "epoch": epoch, "position": 0})
            self._continues = False

    def state_dict(self) -> dict:
        """Where the loader stands: the same on every rank, and exact at any batch."""
        return self._core.state()

    def load_state_dict(self, state: dict) -> None:
        """The next pass goes on where ``state`` was saved. Raises lacuna.Error for a state of another order."""
        self._core.seek(state)
        self._continues = True

    def __getstate__(self) -> dict:
        """Of a copy, and for another process: everything but what the library holds, which is made again there."""
        known = {name: value for name, value in self.__dict__.items() if name not in ("_core", "_pass", "_continues")}
        return {**known, "state": self.state_dict()}

    def __setstate__(self, known: dict) -> None:
        self.__dict__.update({name: value for name, value in known.items() if name != "state"})
        self._core = self._make_core()
        self.load_state_dict(known["state"])

    def __getnewargs__(self) -> tuple:
        return (None,)  # the data, which only Loader itself looks at

    def _make_core(self) -> Any:
        raise NotImplementedError

    def _tensors(self, arrays: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _place(self, tensor: Tensor) -> Tensor:
        """Where the loader's tensors lie."""
        if self.device is None or self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)


class ScreenLoader(Loader):
    """Batches of a screen.

    Every batch is a dict of tensors:

    - ``sample`` [B] int64: numbers of the samples in the screen
    - ``removed`` [ptr[B]] int32 and ``ptr`` [B + 1] int32: sample b removes ``removed[ptr[b]:ptr[b + 1]]``; what the
      operators take
    - ``label`` [B, L] float32, NaN = not measured
    - a tensor [B] for each of ``columns``, by its name: numbers as they are stored, categories as int64 codes, as
      ``Column.categories`` counts them, -1 where unknown
    - ``masks`` on the rungs that make them: by node type ("gene") and edge type ("gene.physical.gene"), [B, elements]
      bool, True where a node or an edge is kept

    Args:
        data: a ``lacuna.Screen``, or its path.
        batch: samples a batch, of all ranks together; None: 28.
        split: name of a split; without one all samples.
        part: train, validation or test, of the split.
        samples: numbers of samples to load instead of a split's part, in their order where nothing is shuffled.
        rung: where masks are made: kernel (never), device, worker, ram:u8, ram:bits, disk:... (docs/ladder.md); None:
            kernel. ram:... holds the masks of all samples of the screen, also where few of them are asked for; for those take
            worker, or a screen of them alone (`lacuna subset`).
        store: of a disk rung.
        columns: names of columns to load beside labels.
        device: where the tensors lie. On a GPU they are copied there without waiting.
        seed: of the order.
        shuffle: False: in the order of the samples, the same in every epoch. None: shuffled, unless part is validation
            or test.
        drop_last: leave out the last batch of an epoch where it is smaller.
        rank, world_size: this process among those that share a global batch; from torch.distributed where that runs.
        threads: that make batches; 0: this one.
        prefetch: batches made and not yet taken, at most; None: a few where a batch holds masks, else 128.
    """

    def __init__(
        self,
        data: Screen | str | os.PathLike,
        batch: int | None = None,
        split: str | None = None,
        part: str = "train",
        samples: Sequence[int] | np.ndarray | None = None,
        rung: str | None = None,
        store: str | os.PathLike | None = None,
        columns: Sequence[str] = (),
        device: torch.device | str | None = None,
        seed: int = 0,
        shuffle: bool | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        threads: int = 2,
        prefetch: int | None = None,
    ):
        self.screen = data if isinstance(data, Screen) else Screen.open(data)
        self.device = torch.device(device) if device is not None else None
        rung = "kernel" if rung is None else rung
        self._sections = _core.mask_sections(self.screen._core) if rung != "kernel" else []
        self._table = self._mask_table() if rung == "device" else None
        if split is not None and samples is not None:
            raise _core.UsageError("split and samples: give one of them")
        if split is not None:
            samples = self.screen.split(split).samples(part)
        if shuffle is None:
            shuffle = split is None or part == "train"
        rank, world_size = _ranks(rank, world_size)
        known = self.screen.columns
        self._categories = {name: len(known[name].categories) for name in columns if name in known}  # 0: numbers
        self._settings: dict[str, Any] = {
            "selection": None if samples is None else _sample_numbers(samples, len(self.screen)),
            "columns": list(columns),
            "rung": rung,
            "store": Path(store or ""),
            "batch": 28 if batch is None else batch,
            "seed": seed,
            "shuffle": shuffle,
            "drop_last": drop_last,
            "rank": rank,
            "world": world_size,
            "threads": threads,
            "prefetch": prefetch,
        }
        self._core = self._make_core()

    def _make_core(self) -> _core.ScreenLoader:
        selection = self._settings["selection"]
        settings = {**self._settings, "selection": None if selection is None else selection.tolist()}
        with Progress() as progress:
            return _core.ScreenLoader(self.screen._core, progress=progress, **settings)

    def _tensors(self, arrays: dict[str, Any]) -> dict[str, Any]:
        for name, categories in self._categories.items():
            arrays[name] = _wide(arrays[name], categories)
        tensors: dict[str, Any] = {name: self._place(torch.from_numpy(array)) for name, array in arrays.items()}
        if self._table is not None:
            counts = [count for _, count, _ in self._sections]
            tensors["masks"] = torch.ops.lacuna.masks(self._table, counts, tensors["removed"], tensors["ptr"])
        if "masks" in tensors:
            tensors["masks"] = _split_masks(tensors["masks"], self._sections)
        return tensors

    def _mask_table(self) -> list[Tensor]:
        table = (torch.from_numpy(part.view(np.int32).copy()) for part in _core.mask_table(self.screen._core))
        return [part.to(self.device) for part in table]

    def __repr__(self) -> str:
        return f"Loader({str(self.screen.path)!r}: {self._core.samples:,} samples, {len(self):,} batches an epoch)"


def _split_masks(records: Tensor, sections) -> dict[str, Tensor]:
    """Views of records [B, bytes], by name."""
    return {name: records[:, begin : begin + count].view(torch.bool) for name, count, begin in sections}


def _wide(values: np.ndarray, categories: int) -> np.ndarray:
    """Values of a column as torch computes with them: codes of categories index an Embedding, and it has next to nothing
    for uint16 and uint32."""
    if not categories:
        return values.astype(np.int64) if values.dtype in (np.uint16, np.uint32) else values
    codes = values.astype(np.int64)
    codes[codes >= categories] = -1  # the largest of the stored type, whichever that is
    return codes


def _sample_numbers(samples: Sequence[int] | np.ndarray, count: int) -> np.ndarray:
    """[n] u32, checked against the number of samples that there are."""
    numbers = np.asarray(samples)
    if numbers.ndim != 1:
        raise _core.UsageError(f"samples has the shape {list(numbers.shape)}; give a list of sample numbers")
    if numbers.dtype == bool:
        raise _core.UsageError("samples holds True and False; give numbers: np.flatnonzero(samples)")
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise _core.UsageError(f"samples[0] is {numbers[0]!s}, of {numbers.dtype}; sample numbers are integers, 0 to {count - 1}")
    if len(wrong := np.flatnonzero((numbers < 0) | (numbers >= count))):
        place = wrong[0]
        raise _core.UsageError(f"samples[{place}] is {numbers[place]}, but the screen has {count} samples (0 to {count - 1})")
    return numbers.astype(np.uint32)


def _is_recording(data: Screen | Recording | str | os.PathLike) -> bool:
    if isinstance(data, (Screen, Recording)):
        return isinstance(data, Recording)
    return _core.format_of(Path(data)) == "lacuna.recording"


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise _core.UsageError("rank and world_size: give both or neither")
    if rank is None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return rank or 0, world_size or 1
