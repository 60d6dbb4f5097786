"""Aggregation of an x that is the same for all samples: the first layer of a model."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ._batch import as_int32
from .aggregate import parameters
from .graph import Graph


def aggregate_shared(
    graph: Graph,
    x: Tensor,
    removed: Tensor,
    ptr: Tensor,
    reduce: Literal["sum", "mean"] = "sum",
    *,
    sum_types: bool = False,
    eps: Tensor | None = None,
    values: Tensor | Literal[False] | None = None,
) -> Tensor:
    """:func:`lacuna.aggregate` on x repeated for every sample, without repeating it.

    One product serves the whole batch, and each sample is corrected at the neighbours of its removed nodes. Equal to
    ``lacuna.aggregate(graph, x[:, None].expand(-1, B, -1), ...)`` to rounding.

    Args:
        x: [N, H].
        reduce: ``"sum"`` or ``"mean"``.
        graph, removed, ptr, sum_types, eps, values: as in :func:`lacuna.aggregate`.

    Returns:
        [T, N, B, H], or [N, B, H] with ``sum_types``.
    """
    eps, values = parameters(graph, x, eps, values)
    return torch.ops.lacuna.aggregate_shared(
        graph.buffer_list, graph.sizes, x, as_int32("removed", removed), as_int32("ptr", ptr), reduce, sum_types,
        values, eps,
    )
