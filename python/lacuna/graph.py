"""One shared graph, laid out for the operators."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

from ._plan import PlanModule


class Graph(PlanModule):
    """Edge types over the same nodes, as opaque buffers that move with ``.to(device)``.

    Make one with :meth:`from_edges` or :meth:`from_hetero_data`. It has no parameters, and its buffers stay out of
    ``state_dict``: a graph is data, and a checkpoint is made for one. Put it into a model as a submodule and it
    follows the model. The first move to a GPU lays the graph out for its kernels, which takes seconds for millions of
    edges.

    Attributes:
        num_nodes: N.
        types: names of the edge types, in the order of axis 0 of an aggregation.
        num_edges: edges of each type, by name.
        values: [E] f32, the values of all edges, all types one after another, or None.
    """

    values: Tensor | None
    _mask_ptr: Tensor | None
    _mask_place: Tensor | None

    def __init__(self, num_nodes: int, num_edges: Mapping[str, int], plan: Tensor, values: Tensor | None = None):
        super().__init__(plan, [int(num_nodes), len(num_edges), *num_edges.values()], slabs=True)
        self.num_nodes = int(num_nodes)
        self.num_edges = dict(num_edges)
        self.types = tuple(num_edges)
        self.register_buffer("values", values, persistent=False)
        self.register_buffer("_mask_ptr", None, persistent=False)
        self.register_buffer("_mask_place", None, persistent=False)

    @classmethod
    def from_edges(
        cls,
        num_nodes: int,
        edges: Mapping[str, Tensor],
        values: Mapping[str, Tensor] | None = None,
    ) -> Graph:
        """A graph from edge lists.

        Args:
            num_nodes: N; nodes are 0 to N - 1.
            edges: by name of the edge type, [2, E_t] integers, sources then targets, as PyG's ``edge_index``. Order,
                repeats and self loops are kept: masks and values refer to them.
            values: by name, [E_t] f32, what an edge's message is multiplied by. A type without stays at 1.
        """
        counts, plan = make_plan(num_nodes, edges)
        return cls(num_nodes, counts, plan, None if values is None else all_values(counts, values))

    @classmethod
    def from_hetero_data(cls, data, node_type: str = "gene", value: str | None = None) -> Graph:
        """The edge types of a PyG ``HeteroData`` that run between nodes of one type.

        Args:
            data: the HeteroData; types that touch other node types are left out.
            node_type: which nodes.
            value: the attribute that holds edge values (``"edge_weight"``), for the types that have it.
        """
        if node_type not in data.node_types:
            raise ValueError(f"node_type {node_type!r} is not in data; it has {', '.join(data.node_types)}")
        keys = [key for key in data.edge_types if key[0] == node_type and key[2] == node_type]
        if not keys:
            raise ValueError(f"data has no edges between nodes of type {node_type!r}")
        edges = {key[1]: data[key].edge_index for key in keys}
        values = None
        if value is not None:
            values = {key[1]: data[key][value] for key in keys if value in data[key]}
            if not values:
                raise ValueError(f"value {value!r} is on no edge type of data")
        return cls.from_edges(data[node_type].num_nodes, edges, values)

    # ---- masks: a record is the node mask, then the masks of the edge types, each from a multiple of 64 bytes on
    @property
    def mask_counts(self) -> list[int]:
        """Elements of each section of a mask record: nodes, then the edge types."""
        return [self.num_nodes, *self.num_edges.values()]

    @property
    def mask_offsets(self) -> list[int]:
        """Where the mask of each edge type starts in a record, in bytes."""
        starts = list(itertools.accumulate(_padded(count) for count in self.mask_counts))
        return starts[:-1]

    @property
    def mask_stride(self) -> int:
        """Bytes a record."""
        return sum(_padded(count) for count in self.mask_counts)

    def make_mask_table(self) -> None:
        """Makes the table that :func:`lacuna.masks` reads, about eight bytes an edge. The first call of masks() does
        this by itself; call it before a CUDA graph is captured."""
        if self._mask_ptr is None:
            table = torch.ops.lacuna.mask_table(self._host, self._host_sizes)
            self._mask_ptr, self._mask_place = (part.to(self.device) for part in table)

    @property
    def mask_table(self) -> list[Tensor]:
        """What :func:`lacuna.masks` reads, made when it is first asked for."""
        self.make_mask_table()
        assert self._mask_ptr is not None and self._mask_place is not None
        return [self._mask_ptr, self._mask_place]

    def _arguments(self):
        return self.num_nodes, self.num_edges, self._host, None if self.values is None else self.values.cpu()

    def extra_repr(self) -> str:
        edges = ", ".join(f"{name}: {count:,}" for name, count in self.num_edges.items())
        return f"{self.num_nodes:,} nodes, edges {edges}"


def _padded(count: int) -> int:
    return (count + 63) // 64 * 64


def make_plan(num_nodes: int, edges: Mapping[str, Tensor]) -> tuple[dict[str, int], Tensor]:
    """E of each type, and the bytes that the operators read."""
    if not edges:
        raise ValueError("edges is empty; a graph needs at least one edge type")
    lists = []
    for name, index in edges.items():
        index = torch.as_tensor(index)
        if index.dim() != 2 or index.size(0) != 2:
            raise ValueError(f"edges[{name!r}] has shape {list(index.shape)}, but [2, E] is needed")
        if index.dtype.is_floating_point or index.dtype.is_complex or index.dtype == torch.bool:
            raise TypeError(f"edges[{name!r}] has dtype {index.dtype}, but integers are needed")
        lists.append(index.detach().cpu())
    counts = {name: index.size(1) for name, index in zip(edges, lists)}
    return counts, torch.ops.lacuna.make_plan(num_nodes, lists, list(edges))


def all_values(counts: Mapping[str, int], values: Mapping[str, Tensor]) -> Tensor:
    """[E] f32, all types one after another; 1 in types without."""
    unknown = set(values) - set(counts)
    if unknown:
        raise ValueError(f"values has types that edges has not: {', '.join(sorted(unknown))}")
    parts = []
    for name, count in counts.items():
        part = torch.as_tensor(values[name]) if name in values else torch.ones(count)
        if part.shape != (count,):
            raise ValueError(f"values[{name!r}] has shape {list(part.shape)}, but [{count}] is needed")
        parts.append(part.detach().to("cpu", torch.float32))
    return torch.cat(parts)
