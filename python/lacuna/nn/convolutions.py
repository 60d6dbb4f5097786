"""Graph layers over (graph, removed, ptr): a batch of samples that each remove a few nodes, all edge types in one call.

x [N, B, H] or, the same for all samples, [N, H]; a result has the edge type in front: [T, N, B, H].
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .. import aggregate, aggregate_shared
from ..graph import Graph
from .layers import GraphDense, GraphMlp, NormKind, first_weight


class GIN(nn.Module):
    """For each edge type: u = sum over kept in-neighbours + (1 + eps) x, then an MLP (:class:`GraphMlp`).

    x [N, B, H] or [N, H] -> [T, N, B, H]. A removed node keeps its self term.
    """

    def __init__(self, types: int, width: int, norm: NormKind = "layer"):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(types))
        self.mlp = GraphMlp(types, width, norm)

    def forward(
        self, graph: Graph, x: Tensor, removed: Tensor, ptr: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """weights: [E], what each edge counts; None: 1."""
        sums = aggregate if x.dim() == 3 else aggregate_shared
        values: Tensor | Literal[False] = False if weights is None else weights
        u = sums(graph, x, removed, ptr, eps=self.eps, values=values)  # [T, N, B, H]
        return self.mlp(u.flatten(1, 2)).reshape(u.shape)


class SAGE(nn.Module):
    """For each edge type: W_l mean(kept in-neighbours) + b + W_r x.

    x [N, B, H], or [T, N, B, H] where every type has states of its own -> [T, N, B, out].
    """

    def __init__(self, types: int, width: int, outputs: int | None = None):
        super().__init__()
        self.left = GraphDense(types, width, outputs or width)  # W_l, b
        self.right = first_weight(types, width, outputs or width)  # W_r

    def forward(self, graph: Graph, x: Tensor, removed: Tensor, ptr: Tensor) -> Tensor:
        types, batch = self.right.shape[0], ptr.numel() - 1
        if x.dim() == 4:
            mean = _mean_of_own(graph, x, removed, ptr)
        else:
            mean = aggregate(graph, x, removed, ptr, "mean", values=False)
            x = x.expand(types, *x.shape)
        y = self.left(mean.flatten(1, 2)) + torch.bmm(x.flatten(1, 2), self.right)
        return y.reshape(types, -1, batch, y.shape[-1])


def _mean_of_own(graph: Graph, x: Tensor, removed: Tensor, ptr: Tensor) -> Tensor:
    """x [T, N, B, H]: each type over its own states. They stand side by side as if they were samples, and of the means
    [T, N, T, B, H] each type takes its own."""
    types, nodes, batch, width = x.shape
    counts = ptr.diff().repeat(types)
    many = torch.cat([ptr.new_zeros(1), counts.cumsum(0)]).to(ptr.dtype)
    # removed may be longer than ptr says, so it cannot just be repeated
    of_all = removed[int(ptr[0]) : int(ptr[-1])].repeat(types)
    side_by_side = x.permute(1, 0, 2, 3).reshape(nodes, types * batch, width).contiguous()
    means = aggregate(graph, side_by_side, of_all, many, "mean", values=False)
    return means.unflatten(2, (types, batch)).diagonal(0, 0, 2).permute(3, 0, 1, 2).contiguous()


class GCN(nn.Module):
    """For each edge type: W (sum over kept in-neighbours u of x_u / sqrt(kept degree of u and of v)) + b.

    x [N, B, H] -> [T, N, B, out]. Self loops count where the graph has them; none are added.
    """

    def __init__(self, types: int, width: int, outputs: int | None = None):
        super().__init__()
        self.dense = GraphDense(types, width, outputs or width)

    def forward(self, graph: Graph, x: Tensor, removed: Tensor, ptr: Tensor) -> Tensor:
        a = aggregate(graph, x, removed, ptr, "gcn", values=False)  # [T, N, B, H]
        return self.dense(a.flatten(1, 2)).reshape(*a.shape[:3], -1)
