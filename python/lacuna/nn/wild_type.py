"""WildType: every gene is described once, on the wild type's networks, and a sample by the descriptions of the genes that
it removes. N genes, G networks, H width, L labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import aggregate
from .gene_graph import EdgeWeights, GeneGraph
from .heads import PairHead
from .layers import Dense, Norm
from .model import Model, gene_sets


class _Layer(nn.Module):
    def __init__(self, networks: int, width: int):
        super().__init__()
        self.own = Dense(width, width, (3 * width) ** -0.5)
        self.heard = Dense(networks * width, width, (3 * networks * width) ** -0.5)
        self.norm = Norm("layer", width)

    def forward(self, x: Tensor, sums: Tensor, dropout: float) -> Tensor:
        """x [N, H], sums [G, N, H] -> [N, H]"""
        more = F.gelu(self.own(x) + self.heard(sums.transpose(0, 1).flatten(1)))
        return self.norm(x + F.dropout(more, dropout, self.training))


class WildType(Model):
    """Embedding (and given features) -> layers x = norm(x + dropout(gelu(W x + sum over networks of W_g A_g x))) on the
    wild type -> the states of the removed genes -> :class:`PairHead` -> [B, L].

    Args:
        graph: the screen's.
        labels: L.
        width: H.
        layers: how many.
        weights: of edges: normalised by weighted degrees, values, or none.
        dropout: in every layer and in the head.
        features: none, beside (the learned table) or instead (of it).
        feature_names: which of them; none named: all.
    """

    weights: Tensor | None
    given: Tensor | None

    def __init__(
        self,
        graph: GeneGraph,
        labels: int = 1,
        *,
        width: int = 128,
        layers: int = 2,
        weights: EdgeWeights = "normalised",
        dropout: float = 0.2,
        features: Literal["none", "beside", "instead"] = "none",
        feature_names: Sequence[str] = (),
    ):
        super().__init__(graph, labels)
        if features not in ("none", "beside", "instead"):
            raise ValueError(f"features {features!r}: none, beside or instead")
        self.dropout = dropout
        self.register_buffer("weights", graph.weights(weights), persistent=False)  # [E], or None
        given = None if features == "none" else graph.chosen_features(feature_names)
        if features != "none" and given is None:
            raise ValueError(f"features is {features!r}, but the graph has none; set it to none")
        self.register_buffer("given", given, persistent=False)  # [N, d], or None
        if features != "instead":
            self.table = nn.Parameter(torch.randn(graph.num_genes, width, dtype=torch.float32) * 0.1)
        self.from_features = None if given is None else Dense(given.shape[1], width)
        self.layer_names = [f"layer{i}" for i in range(layers)]
        for name in self.layer_names:
            self.add_module(name, _Layer(graph.num_types, width))
        self.local = PairHead(width, labels, dropout)

    def forward(self, removed: Tensor, ptr: Tensor) -> Tensor:
        sets = gene_sets(removed, ptr)
        return self.local(self.states()[sets.clamp_min(0)], sets)

    def states(self) -> Tensor:
        """[N, H]: every gene of the wild type."""
        x = self.visible_rows()
        if self.from_features is not None and self.given is not None:
            given = self.from_features(self.given.to(self.from_features.weight.dtype))
            x = given if x is None else x + given
        assert x is not None
        nobody = torch.zeros(0, dtype=torch.int32, device=x.device)
        for name in self.layer_names:
            sums = aggregate(
                self.graph, x.unsqueeze(1), nobody, nobody.new_zeros(2),
                values=False if self.weights is None else self.weights,
            )  # [G, N, 1, H]
            x = self.get_submodule(name)(x, sums.squeeze(2), self.dropout)
        return x
