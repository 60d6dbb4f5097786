"""Aggregation on the CPU against the two usual ways, in one run, at yeast size.

    PYTHONPATH=python python bench/aggregate_cpu.py [--threads 2] [--repeats 5]

6,607 genes, nine edge types, 2,495,908 edges (self loops included, heavy-tailed degrees), batch 28 of three removed
genes, width 64, f32. The opponents:

  torch.sparse   for each type a CSR matrix times the dense [N, B * H], samples side by side in the columns, removed
                 nodes zeroed before and after; backward with a transposed CSR made beforehand
  PyG            message passing over 28 copies of the graph, every message multiplied by its edge mask; masks and copied
                 edge lists made beforehand. All 28 copies at once would need 18 GB for the messages of one direction, so
                 it goes type by type and a few copies at a time (--copies), which is kinder to its caches as well.

Every way gives [T, N, B, H] and, from a gradient of that shape, the gradient of x; the results are compared too. (PyG
also adds in the order of the edges, type after type, so its difference is 0: the same bits.)

Then the mask records of the batch on one thread, against the usual form: for every sample and type a tensor of ones,
cleared by the incidence lists of its removed genes, all samples concatenated. Prints the best of some runs (PyG: one run)
on the clock, and processor time, which says more where other programs use the machine too.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from typing import NamedTuple

import torch
from torch_geometric.nn import SimpleConv

import lacuna

NODES, BATCH, WIDTH = 6607, 28, 64
EDGES = dict(physical=144211, regulatory=44310, tflink=207250, neighborhood=153320, fusion=18394, cooccurence=17692,
             coexpression=1002806, experimental=828701, database=79224)


def random_edges(count: int, generator: torch.Generator) -> torch.Tensor:
    """[2, count]: one self loop a node, the rest between nodes drawn with heavy-tailed weights."""
    weight = (torch.rand(NODES, generator=generator) + 1e-3).pow(-0.6)
    drawn = [torch.multinomial(weight, count - NODES, replacement=True, generator=generator) for _ in range(2)]
    loops = torch.arange(NODES).expand(2, -1)
    return torch.cat([torch.stack(drawn), loops], dim=1)


class Time(NamedTuple):
    """Milliseconds on the clock, and of processor time over all threads."""

    clock: float
    cpu: float

    def __add__(self, other):
        return Time(self.clock + other.clock, self.cpu + other.cpu)


def once(body) -> Time:
    clock, cpu = time.perf_counter(), time.process_time()
    body()
    return Time((time.perf_counter() - clock) * 1e3, (time.process_time() - cpu) * 1e3)


def best(repeats: int, body) -> Time:
    """The least of each, after a first call that does not count."""
    body()
    times = [once(body) for _ in range(repeats)]
    return Time(min(t.clock for t in times), min(t.cpu for t in times))


class Lacuna:
    name = "lacuna.aggregate"

    def __init__(self, edges, samples):
        self.graph = lacuna.Graph.from_edges(NODES, edges)
        self.removed, self.ptr = lacuna.removed_lists(samples)

    def forward(self, x):
        return lacuna.aggregate(self.graph, x, self.removed, self.ptr)

    def backward(self, grad):
        return torch.ops.lacuna.aggregate_backward(
            self.graph.buffer_list, self.graph.sizes, grad, None, self.removed, self.ptr, "sum", False, None, None, False,
            False)[0]


class Sparse:
    name = "torch.sparse CSR"

    def __init__(self, edges, samples):
        self.matrices = [(self.csr(source, target), self.csr(target, source)) for source, target in edges.values()]
        self.keep = torch.ones(NODES, BATCH, 1)
        for b, nodes in enumerate(samples):
            self.keep[nodes, b] = 0

    @staticmethod
    def csr(source, target):
        ones = torch.ones(source.numel())
        return torch.sparse_coo_tensor(torch.stack([target, source]), ones, (NODES, NODES)).coalesce().to_sparse_csr()

    def forward(self, x):
        folded = (x * self.keep).reshape(NODES, BATCH * WIDTH)
        return torch.stack([(a @ folded).view(NODES, BATCH, WIDTH) * self.keep for a, _ in self.matrices])

    def backward(self, grad):
        total = torch.zeros(NODES, BATCH * WIDTH)
        for (_, transposed), g in zip(self.matrices, grad):
            total += transposed @ (g * self.keep).reshape(NODES, BATCH * WIDTH)
        return total.view(NODES, BATCH, WIDTH) * self.keep


class Pyg:
    name = "PyG, masked copies"

    def __init__(self, edges, samples, copies):
        self.copies, self.conv, self.parts = copies, SimpleConv(aggr="sum"), []
        for t, index in enumerate(edges.values()):
            for b in range(0, BATCH, copies):
                group = range(b, min(b + copies, BATCH))
                stacked = torch.cat([index + i * NODES for i in range(len(group))], dim=1)
                mask = torch.cat([self.mask(index, samples[i]) for i in group])
                self.parts.append((t, group, stacked, mask))

    @staticmethod
    def mask(index, nodes):
        keep = torch.ones(NODES)
        keep[nodes] = 0
        return keep[index[0]] * keep[index[1]]

    def run(self, x, grad=None):
        """Forward alone, or forward and backward."""
        out = torch.empty(len(EDGES), NODES, BATCH, WIDTH) if grad is None else None
        grad_x = torch.zeros(NODES, BATCH, WIDTH)
        for t, group, index, mask in self.parts:
            rows = x[:, group[0] : group[-1] + 1].transpose(0, 1).reshape(-1, WIDTH)
            with torch.set_grad_enabled(grad is not None):
                y = self.conv(rows.requires_grad_(grad is not None), index, mask)
            if grad is None:
                out[t, :, group[0] : group[-1] + 1] = y.view(len(group), NODES, WIDTH).transpose(0, 1)
            else:
                g = grad[t, :, group[0] : group[-1] + 1].transpose(0, 1).reshape(-1, WIDTH)
                (part,) = torch.autograd.grad(y, rows, g)
                grad_x[:, group[0] : group[-1] + 1] += part.view(len(group), NODES, WIDTH).transpose(0, 1)
        return out if grad is None else grad_x


def relative_error(mine, theirs):
    return ((mine - theirs).norm() / theirs.norm()).item()


def compare_aggregation(edges, samples, arguments):
    x = torch.randn(NODES, BATCH, WIDTH)
    grad = torch.randn(len(EDGES), NODES, BATCH, WIDTH)
    ours, sparse = Lacuna(edges, samples), Sparse(edges, samples)

    out, grad_x = ours.forward(x), ours.backward(grad)
    print(f"largest difference in norm, forward and backward: torch.sparse {relative_error(out, sparse.forward(x)):.1e}, "
          f"{relative_error(grad_x, sparse.backward(grad)):.1e}", flush=True)
    del out, grad_x
    rows = []
    for way in (ours, sparse):
        rows.append((way.name, best(arguments.repeats, lambda: way.forward(x)),
                     best(arguments.repeats, lambda: way.backward(grad))))
    if arguments.copies:
        pyg = Pyg(edges, samples, arguments.copies)
        results = []
        forward = once(lambda: results.append(pyg.run(x)))
        both = once(lambda: results.append(pyg.run(x, grad)))  # its forward included: autograd needs it
        print(f"PyG {relative_error(ours.forward(x), results[0]):.1e}, {relative_error(ours.backward(grad), results[1]):.1e}")
        rows.append((pyg.name, forward, Time(both.clock - forward.clock, both.cpu - forward.cpu)))
    table("aggregate", rows)


def incidence(index):
    """(ptr [N + 1], edge): the edges at each node, a self loop once."""
    source, target = index
    edge = torch.arange(source.numel())
    other = source != target
    node, edge = torch.cat([source, target[other]]), torch.cat([edge, edge[other]])
    order = torch.argsort(node, stable=True)
    ptr = torch.zeros(NODES + 1, dtype=torch.int64)
    ptr[1:] = torch.bincount(node, minlength=NODES).cumsum(0)
    return ptr, edge[order]


def usual_masks(incidences, samples):
    """By type, [B * E_t]."""
    out = {}
    for name, (ptr, edge) in incidences.items():
        masks = []
        for nodes in samples:
            mask = torch.ones(EDGES[name], dtype=torch.bool)
            for node in nodes:
                mask[edge[ptr[node] : ptr[node + 1]]] = False
            masks.append(mask)
        out[name] = torch.cat(masks)
    return out


def compare_masks(edges, batches, arguments):
    torch.set_num_threads(1)
    graph = lacuna.Graph.from_edges(NODES, edges)
    incidences = {name: incidence(index) for name, index in edges.items()}
    lists = [lacuna.removed_lists(samples) for samples in batches]
    records = lacuna.masks(graph, *lists[0])
    parts = lacuna.split_masks(graph, records)
    for name, mask in usual_masks(incidences, batches[0]).items():
        assert torch.equal(parts[name].reshape(-1).bool(), mask), name

    arena, turn = lacuna.MaskArena(graph, BATCH), itertools.count()
    rewriting = best(5 * arguments.repeats, lambda: lacuna.masks(graph, *lists[next(turn) % 2], out=records))
    kept = best(20 * arguments.repeats, lambda: arena(*lists[next(turn) % 2]))
    usual = best(arguments.repeats, lambda: usual_masks(incidences, batches[0]))
    print(f"\n{'masks, one thread':38s}{'ms':>10s}{'times faster':>14s}{'CPU ms':>10s}{'times less':>12s}")
    for name, t in (("ones, index by incidence, concatenate", usual), ("lacuna.masks, rewriting a buffer", rewriting),
                    ("lacuna.MaskArena", kept)):
        print(f"{name:38s}{t.clock:10.3f}{usual.clock / t.clock:14.1f}{t.cpu:10.3f}{usual.cpu / t.cpu:12.1f}")


def table(title, rows):
    print(f"\n{title:22s}{'forward ms':>12s}{'backward ms':>13s}{'both ms':>11s}{'ratio':>8s}{'CPU ms':>11s}{'ratio':>8s}")
    base = rows[0][1] + rows[0][2]
    for name, forward, backward in rows:
        both = forward + backward
        print(f"{name:22s}{forward.clock:12.1f}{backward.clock:13.1f}{both.clock:11.1f}{both.clock / base.clock:8.1f}"
              f"{both.cpu:11.1f}{both.cpu / base.cpu:8.1f}")


def main():
    warnings.filterwarnings("ignore", message="Sparse")  # torch announces that its CSR support is beta
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--copies", type=int, default=4, help="copies that PyG takes at a time; 0 leaves PyG out")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    generator = torch.Generator().manual_seed(1)
    edges = {name: random_edges(count, generator) for name, count in EDGES.items()}
    batches = [[torch.randperm(NODES, generator=generator)[:3].tolist() for _ in range(BATCH)] for _ in range(2)]
    print(f"torch {torch.__version__}, {arguments.threads} threads, {sum(EDGES.values()):,} edges")
    compare_masks(edges, batches, arguments)
    torch.set_num_threads(arguments.threads)
    compare_aggregation(edges, batches[0], arguments)


if __name__ == "__main__":
    main()
