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

    ``lacuna.Loader(data, ...)`` of a :class:`lacuna.Screen` is a :class:`lacuna.ScreenLoader`, of a
    :class:`lacuna.Recording` a :class:`lacuna.RecordingLoader`, which say what their batches hold and which arguments they
    take; a path is opened.

    A pass of ``for batch in loader`` is an epoch; every epoch has another order, a pure function of (seed, epoch). A
    pass that was left early is not resumed: the next ``for`` begins the next epoch. :meth:`state_dict` says where the
    loader stands, and after :meth:`load_state_dict` the next pass goes on exactly there. With ``world_size`` ranks each
    loader gives its share of every global batch, and the state is the same on all of them.

    A batch that you keep never changes. Threads may each have a loader, also of the same screen; two that use one loader
    at the same time get lacuna.Error. It does not work in a forked process, and says so (make it there, or start
    processes with spawn).
    """

    _core: Any
    device: torch.device | None = None
    _continues = False  # a state was loaded: the next pass goes on there

    def __new__(cls, data: Screen | Recording | str | os.PathLike, *_args: Any, **_options: Any) -> Loader:
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
        while (arrays := self._core.next()) is not None:
            yield self._tensors(arrays)

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
    - a tensor [B] for each of ``columns``, by its name
    - ``masks`` on the rungs that make them: by node type ("gene") and edge type ("gene.physical.gene"), [B, elements]
      bool, True where a node or an edge is kept

    Args:
        data: a :class:`lacuna.Screen`, or its path.
        batch: samples a batch, of all ranks together.
        split: name of a split; without one all samples.
        part: train, validation or test, of the split.
        samples: numbers of samples to load instead of a split's part.
        rung: where masks are made: kernel (never), device, worker, ram:u8, ram:bits, disk:... (docs/ladder.md).
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
        batch: int = 28,
        split: str | None = None,
        part: str = "train",
        samples: Sequence[int] | np.ndarray | None = None,
        rung: str = "kernel",
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
        self._sections = _core.mask_sections(self.screen._core) if rung != "kernel" else []
        self._table = self._mask_table() if rung == "device" else None
        if split is not None and samples is not None:
            raise _core.UsageError("split and samples: give one of them")
        if split is not None:
            samples = self.screen.split(split).samples(part)
        if shuffle is None:
            shuffle = split is None or part == "train"
        rank, world_size = _ranks(rank, world_size)
        with Progress() as progress:
            self._core = _core.ScreenLoader(
                self.screen._core,
                None if samples is None else np.asarray(samples, dtype=np.uint32).tolist(),
                list(columns),
                rung,
                Path(store or ""),
                batch,
                seed,
                shuffle,
                drop_last,
                rank,
                world_size,
                threads,
                prefetch,
                progress,
            )

    def _tensors(self, arrays: dict[str, Any]) -> dict[str, Any]:
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
