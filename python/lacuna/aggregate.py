"""Sums over one shared graph, for a batch of samples that each remove a few nodes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ._batch import as_int32
from .graph import Graph

Reduce = Literal["sum", "mean", "gcn", "max"]


def aggregate(
    graph: Graph,
    x: Tensor,
    removed: Tensor,
    ptr: Tensor,
    reduce: Reduce = "sum",
    *,
    sum_types: bool = False,
    eps: Tensor | None = None,
    values: Tensor | Literal[False] | None = None,
) -> Tensor:
    """Aggregates each node's kept in-neighbours, for every edge type and every sample of a batch, in one call.

        out[t, v, b] = keep[b, v] * reduce over edges (u -> v) of type t with keep[b, u] of x[u, b]

    No mask is made: a removed node's row is read as zero and written as zero. Differentiable in ``x``, ``eps`` and
    ``values``; the same bits in every run.

    Args:
        graph: the edge types, on the device of ``x``.
        x: [N, B, H], f32, bf16 or f64; the samples of a batch side by side.
        removed: removed nodes of all samples, one sample after another, in any order; repeats are harmless. May be
            longer than ``ptr[B]``: the rest is not read.
        ptr: [B + 1]; sample b removes ``removed[ptr[b]:ptr[b + 1]]``.
        reduce: ``"sum"``; ``"mean"`` over kept in-neighbours; ``"gcn"``, each term divided by
            sqrt(kept in-degree of u * kept in-degree of v); ``"max"``, channel by channel. Where a node has no kept
            in-neighbour the result is 0.
        sum_types: give the sum over edge types, [N, B, H] (not with ``"max"``).
        eps: [T]; adds the self term (1 + eps[t]) * x[v, b], also to the rows of removed nodes.
        values: [E], all types one after another, what a message is multiplied by (with ``"sum"`` alone). None: the
            graph's own, if it has any; False: none.

    Returns:
        [T, N, B, H] in the dtype of ``x``, or [N, B, H] with ``sum_types``.

    Raises:
        RuntimeError: an argument has a wrong shape, dtype, device or (on the CPU) index; the message names it. On CUDA
            a wrong index is skipped and reported by a later call, or by :func:`lacuna.check_errors`.
    """
    eps, values = parameters(graph, x, eps, values)
    return torch.ops.lacuna.aggregate(
        graph.buffer_list, graph.sizes, x, as_int32("removed", removed), as_int32("ptr", ptr), reduce, sum_types,
        values, eps,
    )


def parameters(graph: Graph, x: Tensor, eps: Tensor | None, values: Tensor | Literal[False] | None):
    """eps and values in the dtype that goes with x: f64 beside f64, else f32."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    if values is None:
        values = graph.values
    elif values is False:
        values = None
    return (None if eps is None else eps.to(dtype)), (None if values is None else values.to(dtype))
