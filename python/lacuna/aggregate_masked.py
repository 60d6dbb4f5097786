"""The same sums, with edge masks instead of removed nodes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .aggregate import parameters
from .graph import Graph


def aggregate_masked(
    graph: Graph,
    x: Tensor,
    masks: Tensor,
    reduce: Literal["sum", "mean", "gcn"] = "sum",
    *,
    sum_types: bool = False,
    eps: Tensor | None = None,
    values: Tensor | Literal[False] | None = None,
) -> Tensor:
    """:func:`lacuna.aggregate`, reading the edge masks of a batch.

    From the masks of the same removed nodes it gives the same bits. It shows what computing with masks costs; masks
    may also be edited: any edge of any sample can be switched off.

    Args:
        graph, x, sum_types, eps, values: as in :func:`lacuna.aggregate`.
        masks: u8 [B, stride], from :func:`lacuna.masks`. Only edge masks are read: 0 is off, everything else is on.
        reduce: ``"sum"``, ``"mean"`` or ``"gcn"``; degrees are counted from the masks.
    """
    eps, values = parameters(graph, x, eps, values)
    return torch.ops.lacuna.aggregate_masked(
        graph.buffer_list, graph.sizes, x, masks, graph.mask_offsets, reduce, sum_types, values, eps
    )
