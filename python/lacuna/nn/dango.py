"""Dango, a published baseline: every network embedded on its own, on the wild type only, and the removed genes compared
by attention. T networks, N genes, H width, L labels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .convolutions import SAGE
from .gene_graph import GeneGraph
from .heads import LocalHead
from .layers import SCORE_STD, Dense, GraphDense
from .model import Model, gene_sets

_LOCAL_HEADS = 4


class Dango(Model):
    """Per network h = relu(SAGE2(relu(SAGE1(table)))); softmax over networks of a shared scorer, weighted sum; the local
    head on what that gives of the removed genes -> [B, L].

    Trained on :meth:`total_loss`, which also asks that Linear(h) gives the rows of each adjacency.

    Args:
        zero_weight: of places without an edge in the reconstruction.
        ramp_epochs: over which the reconstruction's share of the loss falls from 1 to 0.5.
    """

    def __init__(
        self, graph: GeneGraph, labels: int = 1, *, width: int = 64, zero_weight: float = 0.1, ramp_epochs: int = 10
    ):
        super().__init__(graph, labels)
        types, genes = graph.num_types, graph.num_genes
        self.zero_weight, self.ramp_epochs = zero_weight, ramp_epochs
        self.table = nn.Parameter(torch.randn(genes, width, dtype=torch.float32) * 0.02)
        self.sage1, self.sage2 = SAGE(types, width), SAGE(types, width)
        self.rows = GraphDense(types, width, genes)
        self.score_hidden = Dense(width, width)
        self.score = Dense(width, 1, SCORE_STD)
        self.local = LocalHead(width, _LOCAL_HEADS, labels)
        for t, edges in enumerate(graph.edges.values()):
            self.register_buffer(f"edges{t}", edges.unique(dim=1), persistent=False)  # [2, E], distinct
        self._last: Tensor | None = None  # [T, N, H] of the last forward()

    def forward(self, removed: Tensor, ptr: Tensor) -> Tensor:
        self._last = self.embed()
        return self.local(self.meta(self._last), gene_sets(removed, ptr))

    def embed(self) -> Tensor:
        """[T, N, H]: every gene in every network."""
        removed = torch.zeros(0, dtype=torch.int32, device=self.sage1.right.device)
        ptr = removed.new_zeros(2)  # one sample, which removes nothing
        rows = self.visible_rows()
        assert rows is not None
        h = F.relu(self.sage1(self.graph, rows.unsqueeze(1), removed, ptr))  # [T, N, 1, H]
        return F.relu(self.sage2(self.graph, h, removed, ptr)).squeeze(2)

    def meta(self, h: Tensor) -> Tensor:
        """h [T, N, H] -> [N, H]"""
        return (self.score(F.relu(self.score_hidden(h))).softmax(0) * h).sum(0)

    def total_loss(self, prediction_loss: Tensor, epoch: int = 0) -> Tensor:
        """The loss of the last predictions and the reconstruction of the networks, in shares that go with the epoch."""
        if self._last is None:
            raise RuntimeError("total_loss() is of the last predictions; call the model first")
        share = 1 - 0.5 * min(1, epoch / self.ramp_epochs)
        return share * self.reconstruction(self._last) + (1 - share) * prediction_loss

    def reconstruction(self, h: Tensor) -> Tensor:
        """h [T, N, H] -> the mean weighted squared error over all N * N places and networks; no place is formed."""
        # With a 1 behind every state and the bias behind every weight, place (v, u) is a_v . b_u, and the sum of its
        # square over all places is the sum of (A^T A) * (B^T B), elementwise; then the places with an edge.
        a = torch.cat([h, torch.ones_like(h[..., :1])], 2)  # [T, N, H + 1]
        b = torch.cat([self.rows.weight, self.rows.bias], 1).transpose(1, 2)  # [T, N, H + 1]
        total = self.zero_weight * ((a.transpose(1, 2) @ a) * (b.transpose(1, 2) @ b)).sum()
        for t in range(len(h)):
            sources, targets = self.get_buffer(f"edges{t}")
            place = (a[t, targets] * b[t, sources]).sum(1)  # [E]
            total = total + (place - 1).square().sum() - self.zero_weight * place.square().sum()
        return total / (h.shape[1] ** 2 * len(h))
