"""A new screen from a graph and a table of samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from . import _core
from ._progress import Progress

PART_NUMBERS = {"train": 0, "validation": 1, "val": 1, "test": 2, "unused": 255}


def write_screen(
    path: str | os.PathLike,
    graph,
    samples,
    removed: str = "removed",
    labels: str | Iterable[str] = "label",
    genes: Iterable[str] | None = None,
    splits: Mapping[str, Iterable] | None = None,
) -> None:
    """Writes a new screen. Edge order, direction, repeats and self loops are kept.

    Args:
        path: of the new directory; it must not exist.
        graph: a PyG ``HeteroData`` (node types ``gene`` and, if you have them, ``reaction`` and ``metabolite``; names in
            ``data["gene"].names`` or ``genes``; float attributes [N, d] become features, attributes [E] of edges
            values), a mapping of name to networkx graph (one a gene network; edges of an undirected one are taken both
            ways), or a mapping of name to [2, E] integers, sources then targets.
        samples: a pandas DataFrame, or a mapping of columns, with a row a sample. Its other columns are kept: numbers as
            they are, text and categoricals as categories.
        removed: the column of removed genes: a list of gene names or indices each.
        labels: the columns of measured labels; NaN = not measured.
        genes: names of the genes, by index, where the graph does not have them.
        splits: by name, a part a sample: train, validation, test or unused.
    """
    writer = _core.ScreenWriter()
    names = _add_graph(writer, graph, genes)
    table = samples if isinstance(samples, Mapping) else {name: samples[name] for name in samples.columns}
    labels = [labels] if isinstance(labels, str) else list(labels)
    for name in (removed, *labels):
        if name not in table:
            raise _core.Error(f"samples has no column {name!r}; it has {', '.join(map(str, table))}")
    _set_samples(writer, table, removed, labels, names)
    for name, values in table.items():
        if name != removed and name not in labels:
            _add_column(writer, str(name), values)
    for name, parts in (splits or {}).items():
        numbers = [PART_NUMBERS[str(part)] for part in parts]
        writer.add_split(name, np.asarray(numbers, dtype=np.uint8), {"by": "given"})
    with Progress() as progress:
        writer.write(Path(path), {"command": "lacuna.Screen.write"}, progress)


def _set_samples(writer, table, removed: str, labels: list[str], names: list[str]) -> None:
    index = {name: i for i, name in enumerate(names)}

    def gene(value) -> int:
        if isinstance(value, str):
            if value not in index:
                raise _core.Error(f"samples: gene {value!r} is not in the graph")
            return index[value]
        return int(value)

    lists = [[gene(value) for value in _as_list(cell)] for cell in table[removed]]
    ptr = np.zeros(len(lists) + 1, dtype=np.uint64)
    ptr[1:] = np.cumsum([len(genes) for genes in lists])
    flat = np.fromiter((g for genes in lists for g in genes), dtype=np.uint32, count=int(ptr[-1]))
    values = np.stack([np.asarray(table[name], dtype=np.float32) for name in labels], axis=1)
    writer.set_samples(flat, ptr, np.ascontiguousarray(values), labels)


def _as_list(cell) -> list:
    return [cell] if isinstance(cell, (str, int, np.integer)) else list(cell)


def _add_column(writer, name: str, values) -> None:
    array = np.asarray(values)
    if array.dtype.kind in "fiub" and not hasattr(values, "cat"):
        kept = {"b": np.uint8, "f": array.dtype if array.dtype.itemsize in (4, 8) else np.float32}
        kinds = kept.get(array.dtype.kind, np.int64 if array.dtype.itemsize == 8 else array.dtype)
        writer.add_column(name, np.ascontiguousarray(array, dtype=kinds))
        return
    texts = ["" if value is None or value != value else str(value) for value in values]
    categories = sorted(set(texts) - {""})
    codes = {text: code for code, text in enumerate(categories)}
    unknown = 2**32 - 1
    writer.add_categories(name, np.asarray([codes.get(t, unknown) for t in texts], dtype=np.uint32), categories)


# ---- graphs
def _add_graph(writer, graph, genes) -> list[str]:
    if hasattr(graph, "edge_types") and hasattr(graph, "node_types"):
        return _add_hetero_data(writer, graph, genes)
    if not isinstance(graph, Mapping):
        raise _core.UsageError(
            f"graph is a {type(graph).__name__}; give a PyG HeteroData, or a mapping of name to networkx graph or [2, E]"
        )
    if graph and all(hasattr(network, "edges") for network in graph.values()):
        return _add_networks(writer, graph, genes)
    return _add_edge_lists(writer, graph, genes)


def _add_edge_lists(writer, graph: Mapping, genes) -> list[str]:
    if genes is None:
        raise _core.UsageError("graph is a mapping of edge lists, so genes must name the genes, by index")
    names = [str(name) for name in genes]
    writer.add_nodes("gene", names)
    for name, edges in graph.items():
        writer.add_edges("gene", str(name), "gene", _edge_array(name, edges), [])
    return names


def _add_networks(writer, graph: Mapping, genes) -> list[str]:
    names = [str(n) for n in genes] if genes is not None else sorted({str(n) for g in graph.values() for n in g.nodes})
    index = {name: i for i, name in enumerate(names)}
    writer.add_nodes("gene", names)
    for name, network in graph.items():
        pairs = [(index[str(u)], index[str(v)]) for u, v in network.edges()]
        if not network.is_directed():
            pairs += [(v, u) for u, v in pairs if u != v]
        edges = np.asarray(pairs, dtype=np.uint32).reshape(-1, 2).T
        writer.add_edges("gene", str(name), "gene", np.ascontiguousarray(edges), [])
    return names


def _add_hetero_data(writer, data, genes) -> list[str]:
    gene_names: list[str] = []
    for node_type in data.node_types:
        store = data[node_type]
        given = genes if node_type == "gene" and genes is not None else getattr(store, "names", None)
        if given is None:
            raise _core.UsageError(f"graph: nodes of type {node_type!r} have no names; set data[{node_type!r}].names")
        names = [str(name) for name in given]
        writer.add_nodes(node_type, names)
        gene_names = names if node_type == "gene" else gene_names
        for name, value in store.items():
            if getattr(value, "ndim", 0) == 2 and value.shape[0] == len(names):
                array = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
                writer.add_feature(node_type, name, np.ascontiguousarray(array, dtype=np.float32))
    for source, name, target in data.edge_types:
        store = data[source, name, target]
        edges = _edge_array(name, store.edge_index)
        values = []
        for key, value in store.items():
            if key != "edge_index" and getattr(value, "ndim", 0) == 1 and len(value) == edges.shape[1]:
                array = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
                values.append((key, np.ascontiguousarray(array, dtype=np.float32)))
        writer.add_edges(source, name, target, edges, values)
    return gene_names


def _edge_array(name, edges) -> np.ndarray:
    array = edges.detach().cpu().numpy() if hasattr(edges, "detach") else np.asarray(edges)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise _core.UsageError(f"edges of {name!r} are {array.dtype} {list(array.shape)}; give integers [2, E]")
    if array.size and (array.min() < 0 or array.max() >= 2**32):
        raise _core.UsageError(f"edges of {name!r} have the index {array.min() if array.min() < 0 else array.max()}")
    return np.ascontiguousarray(array, dtype=np.uint32)
