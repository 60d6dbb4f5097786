"""Masks of a batch: which nodes and edges each sample keeps.

The aggregations need none; masks are for code that wants them, and to compare.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._batch import as_int32
from .graph import Graph


def masks(graph: Graph, removed: Tensor, ptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The mask records of a batch, u8 [B, stride]: 1 where a node or an edge is kept, 0 where it is gone.

    A record is the node mask, then the mask of each edge type in the graph's order; each starts at a multiple of 64
    bytes. :func:`split_masks` gives the parts by name. An edge is gone when either of its ends is removed.

    Args:
        graph: on the device of ``removed``.
        removed, ptr: as in :func:`lacuna.aggregate`.
        out: u8 [B or more, stride], contiguous: written instead of a new tensor, and returned (its first B rows).
    """
    removed, ptr = as_int32("removed", removed), as_int32("ptr", ptr)
    if out is None:
        return torch.ops.lacuna.masks(graph.mask_table, graph.mask_counts, removed, ptr)
    torch.ops.lacuna.write_masks(graph.mask_table, graph.mask_counts, removed, ptr, out)
    return out[: ptr.numel() - 1]


def split_masks(graph: Graph, records: Tensor) -> dict[str, Tensor]:
    """The parts of mask records by name, views u8 [B, elements]: "nodes", then the edge types."""
    starts = [0, *graph.mask_offsets]
    names = ["nodes", *graph.types]
    return {name: records[:, start : start + count] for name, start, count in zip(names, starts, graph.mask_counts)}


class MaskArena:
    """Mask records that are kept from batch to batch.

    Nearly all of a mask is ones in every sample, so a call only restores what the last batch cleared, and clears what
    this one removes: about ten times faster than writing whole records. The next call changes what this one returned;
    clone what you want to keep.

        arena = lacuna.MaskArena(graph, capacity=28)
        records = arena(removed, ptr)   # u8 [B, stride], as lacuna.masks(graph, removed, ptr)
    """

    def __init__(self, graph: Graph, capacity: int):
        self.graph = graph
        none = torch.zeros(0, dtype=torch.int32, device=graph.device)
        wild_type = torch.zeros(capacity + 1, dtype=torch.int32, device=graph.device)
        self.records = masks(graph, none, wild_type)  # [capacity, stride]
        self._last = none, wild_type[:1]

    def __call__(self, removed: Tensor, ptr: Tensor) -> Tensor:
        """The records of this batch, u8 [B, stride], until the next call; B is at most ``capacity``."""
        removed, ptr = as_int32("removed", removed), as_int32("ptr", ptr)
        torch.ops.lacuna.update_masks(self.graph.mask_table, self.graph.mask_counts, *self._last, removed, ptr, self.records)
        self._last = removed.clone(), ptr.clone()
        return self.records[: ptr.numel() - 1]
