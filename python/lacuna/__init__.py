"""Lacuna: perturbed copies of one big graph, without making the copies.

    import torch, lacuna

    graph = lacuna.Graph.from_edges(6, {"physical": torch.tensor([[0, 1, 2], [1, 2, 5]])})
    removed, ptr = lacuna.removed_lists([[1], [0, 3], []])   # three samples; the last is the wild type
    x = torch.randn(6, 3, 64)                                # [nodes, samples, width]
    out = lacuna.aggregate(graph, x, removed, ptr)           # [types, nodes, samples, width]

Every operator is also in ``torch.ops.lacuna``, on plain tensors. Data: :class:`Screen`, :class:`Recording` and
:class:`Loader`; models: :mod:`lacuna.nn`; docs/api.md lists all names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._library import has_cuda, load as _load, version as _version

library_path = _load()
__version__: str = _version()

from ._batch import removed_lists  # noqa: E402
from .aggregate import aggregate  # noqa: E402
from .aggregate_masked import aggregate_masked  # noqa: E402
from .aggregate_shared import aggregate_shared  # noqa: E402
from .bipartite import BipartiteGraph, bipartite  # noqa: E402
from .cast import cast  # noqa: E402
from .errors import check_errors  # noqa: E402
from .graph import Graph  # noqa: E402
from .masks import MaskArena, masks, split_masks  # noqa: E402

# Checkers of types look here; when the package runs, _LAZY says where to find them.
if TYPE_CHECKING:
    from . import nn as nn
    from ._core import Error as Error, UsageError as UsageError
    from ._influence import Influence as Influence, influence as influence
    from ._ranks import join_ranks as join_ranks
    from ._train import train as train
    from ._write import write_screen as write_screen
    from ._write_recording import write_recording as write_recording
    from .dataset import Dataset as Dataset, collate as collate
    from .evaluation import Evaluation as Evaluation, evaluate as evaluate
    from .loader import Loader as Loader, ScreenLoader as ScreenLoader
    from .recording import Field as Field, Segment as Segment, Session as Session
    from .recording import Recording as Recording, RecordingSplit as RecordingSplit, import_recording as import_recording
    from .recording_loader import RecordingLoader as RecordingLoader
    from .run import Run as Run
    from .screen import Column as Column, Screen as Screen, Split as Split, import_screen as import_screen

# Imported when first used: they need lacuna._core, which a build without nanobind does not have.
_LAZY = {
    "Column": "screen",
    "Dataset": "dataset",
    "Error": "_core",
    "Evaluation": "evaluation",
    "Field": "recording",
    "Influence": "_influence",
    "Loader": "loader",
    "Recording": "recording",
    "RecordingLoader": "recording_loader",
    "RecordingSplit": "recording",
    "Run": "run",
    "Screen": "screen",
    "ScreenLoader": "loader",
    "Segment": "recording",
    "Session": "recording",
    "Split": "screen",
    "UsageError": "_core",
    "collate": "dataset",
    "evaluate": "evaluation",
    "import_recording": "recording",
    "import_screen": "screen",
    "influence": "_influence",
    "join_ranks": "_ranks",
    "train": "_train",
    "write_recording": "_write_recording",
    "write_screen": "_write",
}

_MODULES = ("nn",)  # imported when first used

__all__ = [
    "BipartiteGraph",
    "Graph",
    "MaskArena",
    "aggregate",
    "aggregate_masked",
    "aggregate_shared",
    "bipartite",
    "cast",
    "check_errors",
    "has_cuda",
    "library_path",
    "masks",
    "removed_lists",
    "split_masks",
    *_LAZY,
    *_MODULES,
]


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module 'lacuna' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
