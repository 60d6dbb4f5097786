"""What PyG computes on graphs that were made explicitly, with none of Lacuna's code: the independent opinion."""

from __future__ import annotations

import torch
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import subgraph


def convolve(reduce, x, edge_index, weight=None):
    """x [N, H] over edge_index [2, E]: one PyG message passing."""
    if reduce == "gcn":
        edge_index, weight = gcn_norm(edge_index, None, x.size(0), add_self_loops=False, dtype=x.dtype)
    return SimpleConv(aggr="sum" if reduce == "gcn" else reduce)(x, edge_index, weight)


def over_subgraphs(case, reduce, x, values=None, eps=None):
    """[T, N, B, H]: for every sample and type the subgraph of kept nodes, filtered edge by edge by PyG."""
    out, first = [], 0
    for t, edge_index in enumerate(case.edges.values()):
        edge_index = edge_index.to(x.device)
        samples = []
        for b in range(case.batch):
            keep = case.keep(b).to(x.device)
            weight = None if values is None else values[first : first + edge_index.size(1)]
            kept_index, kept_weight = subgraph(keep, edge_index, weight, num_nodes=case.nodes)
            y = convolve(reduce, x[:, b], kept_index, kept_weight)
            samples.append(y if eps is None else y + (1 + eps[t]) * x[:, b])
        out.append(torch.stack(samples, dim=1))
        first += edge_index.size(1)
    return torch.stack(out)


def over_masked_copies(case, x, values=None):
    """[T, N, B, H], sums only: B copies of the graph in one, every edge's message multiplied by its mask."""
    n, b, h = x.shape
    stacked = x.transpose(0, 1).reshape(b * n, h)  # copy b holds rows b * N to (b + 1) * N
    out, first = [], 0
    for edge_index in case.edges.values():
        count = edge_index.size(1)
        source, target = edge_index
        copies = torch.cat([edge_index + i * n for i in range(b)], dim=1).to(x.device)
        mask = torch.cat([case.keep(i)[source] & case.keep(i)[target] for i in range(b)]).to(x)
        if values is not None:
            mask = mask * values[first : first + count].repeat(b)
        y = convolve("sum", stacked, copies, mask)
        out.append(y.reshape(b, n, h).transpose(0, 1))
        first += count
    return torch.stack(out)
