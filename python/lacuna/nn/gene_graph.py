"""The graph of a screen as models see it: gene networks, metabolism, features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from ..bipartite import BipartiteGraph
from ..graph import Graph


class GeneGraph(nn.Module):
    """Gene networks in alphabetical order, and what else a model may read. No parameters, nothing in ``state_dict``.

    Attributes:
        graph: the gene-gene edge types.
        edges: [2, E] by edge type, as stored.
        genes: their names, or None.
        features: [N, d] f32, given features side by side, or None.
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
    ):
        super().__init__()
        self.edges = {name: torch.as_tensor(edges[name]) for name in sorted(edges)}
        self.graph = Graph.from_edges(num_genes, self.edges)
        self.metabolism, self.genes = metabolism, genes
        self.register_buffer("features", features, persistent=False)
        self.register_buffer("without_genes", without_genes, persistent=False)

    @classmethod
    def of(cls, screen, networks: Mapping[str, np.ndarray] | None = None) -> GeneGraph:
        """That of a :class:`lacuna.Screen`.

        Args:
            networks: other gene-gene edges than the screen's, [2, E] by name: those of a shuffled control.
        """
        if networks is None:
            networks = {name: e for (source, name, target), e in screen.edges().items() if source == target == "gene"}
        given = list(screen.features().values())
        features = torch.from_numpy(np.concatenate([f.reshape(len(f), -1) for f in given], 1)) if given else None
        edges = {name: _indices(index) for name, index in networks.items()}
        return cls(len(screen.genes), edges, features, *_metabolism(screen), genes=screen.genes)

    @property
    def num_genes(self) -> int:
        """N."""
        return self.graph.num_nodes

    @property
    def num_types(self) -> int:
        """T, the gene networks."""
        return len(self.graph.types)


def _indices(edges: np.ndarray) -> Tensor:
    return torch.from_numpy(edges.astype(np.int64))


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
