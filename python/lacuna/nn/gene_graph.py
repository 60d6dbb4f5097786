"""The graph of a screen as models see it: gene networks, metabolism, features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..bipartite import BipartiteGraph
from ..graph import Graph, all_values, make_plan

EdgeWeights = Literal["none", "values", "normalised"]


class GeneGraph(Graph):
    """The :class:`lacuna.Graph` of the gene networks, in alphabetical order, and what else a model may read. No
    parameters, nothing in ``state_dict``.

    Attributes:
        edges: [2, E] by edge type, as stored.
        genes: their names, or None.
        features: [N, d] f32, given features side by side, or None.
        feature_widths: d of each feature by name, in their order; empty where they came without names.
        edge_values: [E_t] f32 by edge type, for those that have some: what an edge counts where a model asks for
            :meth:`weights`. Operators multiply by ``values`` alone, as of every Graph; :meth:`of` sets none.
        metabolism: genes, reactions and metabolites, or None.
        without_genes: [R, 1, 1] f32: 1 for a reaction without genes; None without metabolism.
    """

    features: Tensor | None
    without_genes: Tensor | None

    def __init__(
        self,
        num_genes: int,
        edges: Mapping[str, Tensor],
        features: Tensor | None = None,
        metabolism: BipartiteGraph | None = None,
        without_genes: Tensor | None = None,
        genes: list[str] | None = None,
        edge_values: Mapping[str, Tensor] | None = None,
        feature_widths: Mapping[str, int] | None = None,
        values: Tensor | None = None,
        plan: Tensor | None = None,
    ):
        """plan: of the same edges, where another graph has it: making one takes seconds for millions of edges."""
        edges = {name: torch.as_tensor(edges[name]) for name in sorted(edges)}
        if plan is None:
            counts, plan = make_plan(num_genes, edges)
        else:
            counts = {name: index.size(1) for name, index in edges.items()}
        super().__init__(num_genes, counts, plan, values)
        self.edges = edges
        self.metabolism, self.genes = metabolism, genes
        self.edge_values = {name: torch.as_tensor(part) for name, part in (edge_values or {}).items()}
        self.feature_widths = dict(feature_widths or {})
        self.register_buffer("features", features, persistent=False)
        self.register_buffer("without_genes", without_genes, persistent=False)

    @classmethod
    def from_edges(
        cls, num_nodes: int, edges: Mapping[str, Tensor], values: Mapping[str, Tensor] | None = None
    ) -> GeneGraph:
        """As :meth:`lacuna.Graph.from_edges`, types in alphabetical order; values are ``edge_values``, too."""
        counts = {name: torch.as_tensor(edges[name]).size(-1) for name in sorted(edges)}
        of_all = None if values is None else all_values(counts, values)
        return cls(num_nodes, edges, edge_values=values, values=of_all)

    @classmethod
    def of(cls, screen, networks: Mapping[str, np.ndarray] | None = None) -> GeneGraph:
        """That of a :class:`lacuna.Screen`, with the plan that ``screen.graph`` has: it is made and held once.

        Args:
            networks: other gene-gene edges than the screen's, [2, E] by name: those of a shuffled control.
        """
        plan = None if networks is not None else screen.graph._host
        if networks is None:
            networks = {name: e for (source, name, target), e in screen.edges().items() if source == target == "gene"}
        given = {name: _complete(f.reshape(len(f), -1)) for name, f in screen.features().items()}
        features = torch.from_numpy(np.concatenate(list(given.values()), 1)) if given else None
        edges = {name: _indices(index) for name, index in networks.items()}
        return cls(
            len(screen.genes), edges, features, *_metabolism(screen), genes=screen.genes, edge_values=_values(screen),
            feature_widths={name: f.shape[1] for name, f in given.items()}, plan=plan,
        )

    def chosen_features(self, names: Sequence[str] = ()) -> Tensor | None:
        """[N, d]: the features of these names side by side; none named: all."""
        if not names or self.features is None:
            return self.features
        parts = dict(zip(self.feature_widths, self.features.split(list(self.feature_widths.values()), 1)))
        unknown = [name for name in names if name not in parts]
        if unknown:
            raise ValueError(f"there is no feature {unknown[0]!r}; the genes have: {', '.join(parts) or 'none'}")
        return torch.cat([parts[name] for name in names], 1)

    def weights(self, kind: EdgeWeights) -> Tensor | None:
        """[E] f32, all types one after another, what each edge counts; None for ``"none"``.

        ``"values"``: its value, 1 in types without; ``"normalised"``: that divided by the root of the product of two
        weighted degrees in its type, of all edges that leave its source and of all that arrive at its target.
        """
        if kind not in ("none", "values", "normalised"):
            raise ValueError(f"weights {kind!r}: none, values or normalised")
        if kind == "none":
            return None
        if kind == "values" and not self.edge_values:
            raise ValueError("weights is 'values', but no network of the graph has values; set it to none")
        parts = []
        for name, edges in self.edges.items():
            value = self.edge_values[name].double() if name in self.edge_values else torch.ones(edges.shape[1]).double()
            if not value.isfinite().all():
                raise ValueError(f"weights is {kind!r}, but network {name!r} has values that are not finite")
            if kind == "normalised":
                leaving, arriving = (
                    torch.zeros(self.num_genes).double().index_add(0, end.long(), value.abs()) for end in edges
                )
                scale = (leaving[edges[0].long()] * arriving[edges[1].long()]).sqrt()
                value = torch.where(value == 0, value, value / scale)
            parts.append(value.float())
        return torch.cat(parts)

    @property
    def num_genes(self) -> int:
        """N."""
        return self.num_nodes

    @property
    def num_types(self) -> int:
        """T, the gene networks."""
        return len(self.types)

    @property
    def graph(self) -> GeneGraph:
        """Itself: the gene-gene edge types, as operators take them."""
        return self

    def _arguments(self):
        features, alone, values = (None if t is None else t.cpu() for t in (self.features, self.without_genes, self.values))
        return (
            self.num_nodes, self.edges, features, self.metabolism, alone, self.genes, self.edge_values, self.feature_widths,
            values, self._host,
        )  # fmt: skip


def _indices(edges: np.ndarray) -> Tensor:
    return torch.from_numpy(edges.astype(np.int64))


def _complete(feature: np.ndarray) -> np.ndarray:
    """[N, d] with the mean of its column for each number that is missing."""
    known = ~np.isnan(feature)
    mean = np.where(known, feature, 0).sum(0) / np.maximum(known.sum(0), 1)
    return np.where(known, feature, mean).astype(np.float32)


def _values(screen) -> dict[str, Tensor]:
    """Of the gene networks that have values: their only one, or the one called weight."""
    found = {}
    for (source, name, target), values in screen.edge_values().items():
        if source == target == "gene" and values:
            if len(values) > 1 and "weight" not in values:
                continue
            found[name] = torch.from_numpy(np.array(values.get("weight", next(iter(values.values())))))
    return found


def _metabolism(screen) -> tuple[BipartiteGraph | None, Tensor | None]:
    edges = screen.edges()
    rules = [key for key in edges if (key[0], key[2]) == ("gene", "reaction")]
    turnover = [key for key in edges if (key[0], key[2]) == ("reaction", "metabolite")]
    if len(rules) != 1 or len(turnover) != 1:
        return None, None
    coefficients = screen.edge_values()[turnover[0]].get("coefficient")
    if coefficients is None:
        return None, None
    reactions, metabolites = (len(screen.nodes(name)) for name in ("reaction", "metabolite"))
    graph = BipartiteGraph.from_edges(
        len(screen.genes), reactions, metabolites, _indices(edges[rules[0]]), _indices(edges[turnover[0]]),
        torch.from_numpy(np.array(coefficients)),
    )
    alone = torch.ones(reactions, 1, 1)
    alone[_indices(edges[rules[0]])[1]] = 0
    return graph, alone
