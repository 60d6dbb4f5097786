"""A new screen from a graph and a table of samples."""

from __future__ import annotations

import dataclasses
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
            ``data["gene"].names`` or ``genes``; attributes [N] and [N, d] become features, those of edges, [E] and
            [E, d], values), or a mapping of name to gene network, each one of: a networkx graph (edges of an undirected
            one are taken both ways), a pandas DataFrame (the first two columns are source and target, names or
            indices), [2, E] integers, sources then targets. Numbers that edges have beside (networkx attributes that
            all edges have, further columns) become values.
        samples: a pandas DataFrame, or a mapping of columns, with a row a sample. Its other columns are kept: numbers as
            they are, text and categoricals as categories.
        removed: the column of removed genes: a list of gene names or indices each.
        labels: the columns of measured labels; NaN = not measured.
        genes: names of the genes, by index, where the graph does not have them; without, networks of names have their
            genes in alphabetical order.
        splits: by name, a part a sample: train, validation, test or unused.
    """
    writer = _core.ScreenWriter()
    names = _add_graph(writer, graph, genes)
    table = samples if isinstance(samples, Mapping) else {name: samples[name] for name in samples.columns}
    labels = [labels] if isinstance(labels, str) else list(labels)
    if not labels:
        raise _core.UsageError(f"labels is empty; name the columns of measured labels, of {', '.join(map(str, table))}")
    for name in (removed, *labels):
        if name not in table:
            raise _core.Error(f"samples has no column {name!r}; it has {', '.join(map(str, table))}")
    _set_samples(writer, table, removed, labels, names)
    for name, values in table.items():
        if name != removed and name not in labels:
            _add_column(writer, str(name), values)
    for name, parts in (splits or {}).items():
        writer.add_split(name, _part_numbers(name, parts), {"by": "given"})
    with Progress() as progress:
        writer.write(Path(path), {"command": "lacuna.Screen.write"}, progress)


def _part_numbers(name: str, parts: Iterable) -> np.ndarray:
    """[S] u8"""
    texts = [str(part) for part in parts]
    if unknown := next((text for text in texts if text not in PART_NUMBERS), None):
        raise _core.UsageError(f"split {name!r}: part {unknown!r}; one of {', '.join(PART_NUMBERS)}")
    return np.asarray([PART_NUMBERS[text] for text in texts], dtype=np.uint8)


def _set_samples(writer, table, removed: str, labels: list[str], names: list[str]) -> None:
    index = {name: i for i, name in enumerate(names)}
    lists = [[_gene(index, value, "samples") for value in _as_list(cell)] for cell in table[removed]]
    ptr = np.zeros(len(lists) + 1, dtype=np.uint64)
    ptr[1:] = np.cumsum([len(genes) for genes in lists])
    flat = np.fromiter((g for genes in lists for g in genes), dtype=np.uint32, count=int(ptr[-1]))
    values = np.stack([np.asarray(table[name], dtype=np.float32) for name in labels], axis=1)
    writer.set_samples(flat, ptr, np.ascontiguousarray(values), labels)


def _gene(index: Mapping[str, int], value, where: str) -> int:
    """Its index, by name or as it is."""
    if isinstance(value, (int, np.integer)):
        if not 0 <= value < len(index):
            raise _core.Error(f"{where}: gene index {value}, but there are {len(index)} genes (0 to {len(index) - 1})")
        return int(value)
    if str(value) not in index:
        raise _core.Error(f"{where}: gene {value!r} is not among the {len(index)} genes of the graph")
    return index[str(value)]


def _as_list(cell) -> list:
    if cell is None or isinstance(cell, float):  # NaN: pandas has nothing there
        raise _core.Error("samples: a cell of removed genes is missing; the wild type is an empty list")
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
    if not isinstance(graph, Mapping) or not graph:
        raise _core.UsageError(
            f"graph is {'empty' if isinstance(graph, Mapping) else 'a ' + type(graph).__name__}; give a PyG HeteroData, or a "
            "mapping of name to networkx graph, DataFrame or [2, E]"
        )
    networks = {str(name): _network(str(name), network) for name, network in graph.items()}
    names = [str(name) for name in genes] if genes is not None else _names_of(networks)
    index = {name: i for i, name in enumerate(names)}
    writer.add_nodes("gene", names)
    for name, network in networks.items():
        ends = network.ends
        edges = ends if isinstance(ends, np.ndarray) else _named_edges(name, ends, index)
        writer.add_edges("gene", name, "gene", edges, network.values)
    return names


Values = list[tuple[str, np.ndarray]]  # by name, [E] f32


@dataclasses.dataclass
class _Network:
    ends: np.ndarray | list[tuple]  # [2, E], or (source, target) of each edge, names or indices
    values: Values
    names: set[str] | None = None  # of its genes; None: it has indices


def _network(name: str, network) -> _Network:
    if hasattr(network, "is_directed"):
        return _of_networkx(network)
    if hasattr(network, "columns"):
        return _of_frame(name, network)
    return _Network(_edge_array(name, network), [])


def _of_networkx(network) -> _Network:
    ends = [(str(u), str(v)) for u, v in network.edges()]
    known = [data for *_, data in network.edges(data=True)]
    keys = set.intersection(*map(set, known)) if known else set()
    numbers = [key for key in sorted(keys, key=str) if all(isinstance(data[key], (int, float, np.number)) for data in known)]
    mirrored = [] if network.is_directed() else [e for e, (u, v) in enumerate(ends) if u != v]
    order = [*range(len(ends)), *mirrored]
    ends += [(ends[e][1], ends[e][0]) for e in mirrored]
    values = [(str(key), np.asarray([known[e][key] for e in order], dtype=np.float32)) for key in numbers]
    return _Network(ends, values, {str(node) for node in network.nodes})


def _of_frame(name: str, frame) -> _Network:
    if len(frame.columns) < 2:
        raise _core.UsageError(f"the table of network {name!r} has fewer than two columns; give source and target")
    sources, targets, *others = frame.columns
    ends = list(zip(frame[sources].tolist(), frame[targets].tolist()))
    numbers = {str(column): np.asarray(frame[column]) for column in others}
    if wrong := next((column for column, array in numbers.items() if array.dtype.kind not in "fiub"), None):
        raise _core.UsageError(f"network {name!r}: column {wrong!r} holds no numbers; leave it out")
    values = [(column, np.ascontiguousarray(array, dtype=np.float32)) for column, array in numbers.items()]
    named = {end for pair in ends for end in pair}
    return _Network(ends, values, named if all(isinstance(end, str) for end in named) else None)


def _names_of(networks: Mapping[str, _Network]) -> list[str]:
    names: set[str] = set()
    for name, network in networks.items():
        if network.names is None:
            raise _core.UsageError(f"network {name!r} has indices, so genes must name the genes, by index")
        names |= network.names
    return sorted(names)


def _named_edges(name: str, ends: list[tuple], index: Mapping[str, int]) -> np.ndarray:
    """[2, E]"""
    pairs = [(_gene(index, u, f"network {name!r}"), _gene(index, v, f"network {name!r}")) for u, v in ends]
    return np.ascontiguousarray(np.asarray(pairs, dtype=np.uint32).reshape(-1, 2).T)


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
        for name, array in _numbers_of(store, len(names), but=("names",)):
            writer.add_feature(node_type, name, array.reshape(len(names), -1))
    for source, name, target in data.edge_types:
        store = data[source, name, target]
        edges = _edge_array(name, store.edge_index)
        values: Values = []
        for key, array in _numbers_of(store, edges.shape[1], but=("edge_index",)):
            columns = array.reshape(edges.shape[1], -1).T  # [d, E]
            names = [key] if len(columns) == 1 else [f"{key}{d}" for d in range(len(columns))]
            values += [(column, np.ascontiguousarray(numbers)) for column, numbers in zip(names, columns)]
        writer.add_edges(source, name, target, edges, values)
    return gene_names


def _numbers_of(store, count: int, but: tuple[str, ...]) -> Values:
    """The attributes [count] and [count, d] of a PyG store, as f32."""
    found = []
    for name, value in store.items():
        array = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        if name in but or not isinstance(array, np.ndarray) or array.ndim not in (1, 2) or len(array) != count:
            continue
        if array.dtype.kind in "fiub":
            found.append((name, np.ascontiguousarray(array, dtype=np.float32)))
    return found


def _edge_array(name, edges) -> np.ndarray:
    array = edges.detach().cpu().numpy() if hasattr(edges, "detach") else np.asarray(edges)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise _core.UsageError(f"edges of {name!r} are {array.dtype} {list(array.shape)}; give integers [2, E]")
    if array.size and (array.min() < 0 or array.max() >= 2**32):
        raise _core.UsageError(f"edges of {name!r} have the index {array.min() if array.min() < 0 else array.max()}")
    return np.ascontiguousarray(array, dtype=np.uint32)
