"""A small MLP on gene embeddings, without any graph: the baseline that shows what a graph adds."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .gene_graph import GeneGraph
from .layers import SCORE_STD, Dense
from .model import Model, gene_sets


class GeneMlp(Model):
    """Sum over the removed genes of their embedding [H] -> two Linears with GELU -> Linear -> [B, L]."""

    def __init__(self, graph: GeneGraph, labels: int = 1, *, width: int = 64, dropout: float = 0.1):
        super().__init__(graph, labels)
        self.dropout = dropout
        self.table = nn.Parameter(torch.randn(graph.num_genes, width, dtype=torch.float32) * 0.1)
        self.first, self.second = Dense(width, width), Dense(width, width)
        self.score = Dense(width, labels, SCORE_STD)

    def forward(self, removed: Tensor, ptr: Tensor) -> Tensor:
        sets = gene_sets(removed, ptr)  # [B, k]
        rows = self.visible_rows()
        assert rows is not None
        x = rows[sets.clamp_min(0)].masked_fill((sets < 0).unsqueeze(-1), 0).sum(1)  # [B, H]
        for dense in (self.first, self.second):
            x = F.dropout(F.gelu(dense(x)), self.dropout, self.training)
        return self.score(x)
