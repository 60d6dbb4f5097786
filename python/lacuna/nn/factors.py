"""Factors: a learned row a gene, passed on by each network with one strength; pairs by the products of what they have then.
N genes, G networks, H width, L labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from .. import aggregate
from ..graph import Graph
from .gene_graph import EdgeWeights, GeneGraph
from .heads import ProductHead
from .layers import SCORE_STD, Dense
from .model import Model, gene_sets


class Factors(Model):
    """x = own * row + sum over networks of heard_g (A_g row) -> the states of the removed genes -> :class:`ProductHead` ->
    [B, L]. Beside each network stands that of the genes whose neighbours in it are most alike. With hidden genes
    (``hide_genes``) it learns to speak for genes that training never saw.

    Args:
        graph: the screen's.
        labels: L.
        width: H.
        similar: so many similar genes a gene and network hears; 0: none. Those without training samples (``hide_genes``)
            are not among them.
        head_width: of the network beside the products; 0: products alone.
        weights: of edges: normalised by weighted degrees, values, or none.
        shrink: times the mean square of the learned rows of genes with training samples is added to the loss.
        features: none, or beside (the learned rows).
        feature_names: which of them; none named: all.
    """

    given: Tensor | None

    def __init__(
        self,
        graph: GeneGraph,
        labels: int = 1,
        *,
        width: int = 128,
        similar: int = 32,
        head_width: int = 64,
        weights: EdgeWeights = "normalised",
        shrink: float = 10,
        features: Literal["none", "beside"] = "none",
        feature_names: Sequence[str] = (),
    ):
        super().__init__(graph, labels)
        if features not in ("none", "beside"):
            raise ValueError(f"features {features!r}: none or beside")
        self.shrink, self.similar = shrink, min(similar, graph.num_genes)
        given = None if features == "none" else graph.chosen_features(feature_names)
        if features != "none" and given is None:
            raise ValueError(f"features is {features!r}, but the graph has none; set it to none")
        self.register_buffer("given", given, persistent=False)  # [N, d], or None
        self.table = nn.Parameter(torch.randn(graph.num_genes, width + labels, dtype=torch.float32) * 0.05)
        self.own = nn.Parameter(torch.tensor(3.0))
        self.heard = nn.Parameter(torch.ones(graph.num_types * (2 if self.similar else 1)))
        self.from_features = None if given is None else Dense(given.shape[1], width + labels, SCORE_STD)
        self.head = ProductHead(width, head_width, labels)
        self._weights = graph.weights(weights)  # [E] of the screen's networks, or None
        self._networks: tuple[list[int], Graph] | None = None  # made for these unseen genes

    def forward(self, removed: Tensor, ptr: Tensor) -> Tensor:
        sets = gene_sets(removed, ptr)
        return self.head(self.states()[sets.clamp_min(0)], sets)

    def total_loss(self, prediction_loss: Tensor, epoch: int = 0) -> Tensor:
        """The loss of the predictions and what the size of the learned rows adds."""
        table = self.table
        assert table is not None
        rows = table if self.hidden is None else table[~self.hidden.unseen.squeeze(1)]
        return prediction_loss + self.shrink * rows.square().sum() / (max(len(rows), 1) * table.shape[1])

    def states(self) -> Tensor:
        """[N, H + L]: every gene of the wild type, its factors and then its offsets."""
        rows = self.visible_rows()
        assert rows is not None
        graph = self.networks().to(rows.device)
        nobody = torch.zeros(0, dtype=torch.int32, device=rows.device)
        sums = aggregate(graph, rows.unsqueeze(1), nobody, nobody.new_zeros(2)).squeeze(2)  # [G, N, H + L]
        x = self.own * rows + (self.heard @ sums.flatten(1)).view_as(rows)
        if self.from_features is not None and self.given is not None:
            x = x + self.from_features(self.given.to(x.dtype))
        return x

    def networks(self) -> Graph:
        """What rows are passed on by: the screen's networks, and those of similar genes."""
        unseen = [] if self.hidden is None else self.hidden.unseen.flatten().nonzero().flatten().tolist()
        if self._networks is None or self._networks[0] != unseen:
            self._networks = (unseen, self._make_networks(unseen))
        return self._networks[1]

    def _make_networks(self, unseen: list[int]) -> Graph:
        edges, genes = dict(self.graph.edges), self.graph.num_genes
        if not self.similar:  # the screen's own, whose plan is there
            return Graph(genes, self.graph.num_edges, self.graph._host, self._weights)
        counts = [index.shape[1] for index in edges.values()]
        weights = torch.ones(sum(counts)) if self._weights is None else self._weights.cpu()
        values = dict(zip(edges, weights.split(counts)))
        silent = torch.zeros(genes, dtype=torch.bool)
        silent[unseen] = True
        for name in list(edges):
            alike = torch.ops.lacuna.similar_genes(genes, edges[name].cpu(), values[name], self.similar, silent)
            edges[f"{name}, similar"], values[f"{name}, similar"] = alike
        return Graph.from_edges(genes, edges, values)
