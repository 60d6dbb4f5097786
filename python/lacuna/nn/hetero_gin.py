"""HeteroGin: message passing over every gene network at once, with the removed genes taken out of each sample's copy.

N genes, B samples, G gene networks, H width, L labels. The samples of a batch and the wild type stand side by side:
states are [N, B + 1, H], the wild type last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..bipartite import bipartite
from .convolutions import GIN
from .gene_graph import EdgeWeights, GeneGraph
from .heads import GlobalHead, LocalHead, PairHead, Pool
from .layers import Dense, GraphMlp, Norm, NormKind
from .merges import make_merge
from .model import Model, gene_sets, kept_genes

_LOCAL_HEADS = 8


class Metabolism(nn.Module):
    """What a gene's reactions and their metabolites say about it: x [N, B, H] -> [N, B, H].

    A reaction is the mean of its genes (a learned vector where it has none, 0 where it is off); metabolites are sums of
    stoichiometry times Linear(reaction), and back; a gene takes the mean of its kept reactions, then an MLP.
    """

    def __init__(self, width: int, norm: NormKind = "layer"):
        super().__init__()
        self.start = nn.Parameter(torch.randn(width, dtype=torch.float32) * 0.02)
        self.to_metabolite, self.back = Dense(width, width), Dense(2 * width, width)
        self.mlp = GraphMlp(1, width, norm)

    def forward(self, graph: GeneGraph, x: Tensor, removed: Tensor, ptr: Tensor) -> Tensor:
        assert graph.metabolism is not None and graph.without_genes is not None

        def step(name, states):
            return bipartite(graph.metabolism, name, states.contiguous(), removed, ptr)

        reactions = step("gene_to_reaction", x) + graph.without_genes.to(x.dtype) * self.start.to(x.dtype)  # [R, B, H]
        metabolites = step("reaction_to_metabolite", self.to_metabolite(reactions).to(x.dtype))  # [M, B, H]
        heard = step("metabolite_to_reaction", metabolites)
        after = F.gelu(self.back(torch.cat([reactions, heard], -1))).to(x.dtype)
        genes = step("reaction_to_gene", after)
        return self.mlp(genes.reshape(1, -1, genes.shape[-1])).reshape(x.shape)


class _Layer(GIN):
    """GIN over every network, metabolism beside it, and their merge."""

    def __init__(self, graph: GeneGraph, width: int, merge: str, norm: NormKind, metabolism: bool):
        super().__init__(graph.num_types, width, norm)
        self.metabolism = Metabolism(width, norm) if metabolism else None
        self.merge = make_merge(merge, graph.num_types + metabolism, width, norm)

    def forward(  # type: ignore[override]
        self, graph: GeneGraph, x: Tensor, removed: Tensor, ptr: Tensor, weights: Tensor | None
    ) -> Tensor:
        y = super().forward(graph, x, removed, ptr, weights)  # [G, N, B, H]
        if self.metabolism is not None:
            own = x if x.dim() == 3 else x.unsqueeze(1).expand(-1, ptr.numel() - 1, -1)
            y = torch.cat([y, self.metabolism(graph, own, removed, ptr).unsqueeze(0)])
        return self.merge(y.flatten(1, 2)).reshape(y.shape[1:])


class HeteroGin(Model):
    """Embedding (and given features) -> preprocessor -> layers -> pool over kept genes -> global head; wild-type states
    of the removed genes -> local head; both -> output [B, L].

    Args:
        graph: the screen's.
        labels: L.
        width: H.
        layers: how many.
        merge: of the networks: sum, mean, attention or pairwise.
        norm: layer, or batch_graph, which couples the samples of a batch.
        output: average, gate, global or local.
        local: what the local head reads: attention (the wild type's states of the removed genes, which attend to each
            other), wild_type (the same, two by two) or neighbours (the sample's states of their neighbours, two by two).
        weights: of edges: none, values, or normalised by weighted degrees.
        dropout: in the preprocessor, and in a head of pairs.
        features: none, beside (the learned table) or instead (of it).
        feature_names: which of them; none named: all.
        metabolism: reactions and metabolites take part in every layer.
    """

    weights: Tensor | None

    def __init__(
        self,
        graph: GeneGraph,
        labels: int = 1,
        *,
        width: int = 64,
        layers: int = 3,
        merge: Literal["sum", "mean", "attention", "pairwise"] = "sum",
        norm: NormKind = "layer",
        output: Literal["average", "gate", "global", "local"] = "average",
        local: Literal["attention", "wild_type", "neighbours"] = "attention",
        weights: EdgeWeights = "none",
        dropout: float = 0.1,
        features: Literal["none", "beside", "instead"] = "none",
        feature_names: Sequence[str] = (),
        metabolism: bool = False,
    ):
        super().__init__(graph, labels)
        if output not in ("average", "gate", "global", "local"):
            raise ValueError(f"output {output!r}: average, gate, global or local")
        if local not in ("attention", "wild_type", "neighbours"):
            raise ValueError(f"local {local!r}: attention, wild_type or neighbours")
        if metabolism and graph.metabolism is None:
            raise ValueError("metabolism is True, but the graph has none: it needs one type of gene-reaction edges, "
                             "and one of reaction-metabolite edges with the value 'coefficient'")
        self.width, self.norm, self.output, self.dropout = width, norm, output, dropout
        self.local_kind, self.feature_names = local, list(feature_names)
        self.register_buffer("weights", graph.weights(weights), persistent=False)  # [E], or None
        self._add_preprocessor(features)
        self.layer_names = [f"layer{i}" for i in range(layers)]
        for name in self.layer_names:
            self.add_module(name, _Layer(graph, width, merge, norm, metabolism))
        self._add_heads(labels)

    def _add_preprocessor(self, features: str) -> None:
        if features not in ("none", "beside", "instead"):
            raise ValueError(f"features {features!r}: none, beside or instead")
        self.table = self.from_features = None
        if features != "instead":
            self.table = nn.Parameter(torch.randn(self.graph.num_genes, self.width, dtype=torch.float32) * 0.02)
        if features != "none":
            given = self.graph.chosen_features(self.feature_names)
            if given is None:
                raise ValueError(f"features is {features!r}, but the graph has none; set it to none")
            self.from_features = Dense(given.shape[1], self.width)
        self.pre0, self.pre1 = Dense(self.width, self.width), Dense(self.width, self.width)
        self.pre_norm = Norm(self.norm, self.width)

    def _add_heads(self, labels: int) -> None:
        if self.output != "local":
            self.pool = Pool(self.width)
            self.add_module("global", GlobalHead(self.width, labels))  # a word that Python keeps for itself
        if self.output != "global":
            self.local = (
                LocalHead(self.width, _LOCAL_HEADS, labels)
                if self.local_kind == "attention"
                else PairHead(self.width, labels, self.dropout)
            )
        if self.output == "gate":
            self.gate_hidden, self.gate = Dense(2, self.width), Dense(self.width, 2)

    def forward(self, removed: Tensor, ptr: Tensor) -> Tensor:
        sets, states = gene_sets(removed, ptr), self.states(removed, ptr)
        if self.output != "local":
            pooled = self.pooled(states, sets)  # [B + 1, H]
            from_all = self.get_submodule("global")(pooled[-1] - pooled[:-1])  # [B, L]
        if self.output == "global":
            return from_all
        among = self.local(_wide(self._local_rows(states, sets)), sets)  # [B, L]
        if self.output == "local":
            return among
        if self.output == "average":
            return 0.5 * from_all + 0.5 * among
        both = torch.stack([from_all, among], -1)  # [B, L, 2]
        return (both * self.gate(F.gelu(self.gate_hidden(both))).softmax(-1)).sum(-1)

    def _local_rows(self, states: Tensor, sets: Tensor) -> Tensor:
        """What the local head takes: states of all genes [N, H], or of each place of the sets [B, k, H]."""
        if self.local_kind == "attention":
            return states[:, -1]
        if self.local_kind == "wild_type":
            return states[sets.clamp_min(0), -1]
        return neighbour_states(self.graph, states, sets)

    def states(self, removed: Tensor, ptr: Tensor) -> Tensor:
        """[N, B + 1, H]: of every gene in every sample; the wild type last."""
        shared = self.preprocess()  # once, dropout included: a sample differs in its removed genes alone
        if self.norm == "layer":
            return self._encode(shared, removed, torch.cat([ptr, ptr[-1:]]))
        # With batch_graph the statistics of the wild type are its own.
        wild_type = self._encode(shared, removed, torch.zeros_like(ptr[:2]))
        return torch.cat([self._encode(shared, removed, ptr), wild_type], 1)

    def preprocess(self) -> Tensor:
        """[N, H], from which all samples start."""
        x = self.visible_rows()
        chosen = self.graph.chosen_features(self.feature_names)
        if self.from_features is not None and chosen is not None:
            given = self.from_features(chosen.to(self.from_features.weight.dtype))
            x = given if x is None else x + given
        assert x is not None
        for dense in (self.pre0, self.pre1):
            x = F.dropout(F.gelu(self.pre_norm(dense(x))), self.dropout, self.training)
        return x

    def pooled(self, states: Tensor, sets: Tensor) -> Tensor:
        """states [N, B + 1, H], sets [B, k] -> [B + 1, H], over the kept genes of each."""
        nobody = sets.new_full((1, sets.shape[1]), -1)
        return self.pool(states, kept_genes(torch.cat([sets, nobody]), self.graph.num_genes))

    def _encode(self, x: Tensor, removed: Tensor, ptr: Tensor) -> Tensor:
        for name in self.layer_names:
            x = self.get_submodule(name)(self.graph, x, removed, ptr, self.weights)
        return x


def neighbour_states(graph: GeneGraph, states: Tensor, sets: Tensor) -> Tensor:
    """The mean state of each removed gene's kept neighbours in its sample, over the distinct sources of its in-edges of
    any type: states [N, B or more, H], sets [B, k] -> [B, k, H]; 0 where there is none."""
    kept = kept_genes(sets, graph.num_genes).t()  # [B, N]
    near = torch.zeros(sets.numel(), graph.num_genes, dtype=states.dtype, device=states.device)  # a row a place
    flat = sets.flatten().tolist()
    for edges in graph.edges.values():
        sources, targets = (end.to(states.device).long() for end in edges)
        for place, gene in enumerate(flat):
            if gene >= 0:
                near[place, sources[targets == gene]] = 1
    near = near.reshape(*sets.shape, -1) * kept.unsqueeze(1)  # [B, k, N]; a removed gene is no neighbour of itself
    sums = torch.einsum("bkn,nbh->bkh", near, states[:, : len(sets)])
    return sums / near.sum(-1, keepdim=True).clamp_min(1)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype == torch.bfloat16 else x
