"""How the outputs of all graphs become one: y [G, rows, H] -> [rows, H], each row on its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .layers import SCORE_STD, Dense, GraphDense, Norm, NormKind, attend

_HEADS = 4  # of attention
_HIDDEN = 32  # of a pair's MLP and of the scorer
_ROWS = 65536  # of a block of pairwise


class SumMerge(nn.Module):
    """y [G, rows, H] -> [rows, H], the sum."""

    def forward(self, y: Tensor) -> Tensor:
        return y.sum(0)


class MeanMerge(nn.Module):
    """y [G, rows, H] -> [rows, H], the mean."""

    def forward(self, y: Tensor) -> Tensor:
        return y.mean(0)


class AttentionMerge(nn.Module):
    """Tokens y_g + a learned position, self-attention over the G tokens (4 heads), mean of the tokens."""

    def __init__(self, graphs: int, width: int):
        super().__init__()
        if width % _HEADS:
            raise ValueError(f"merge attention needs a width that is a multiple of {_HEADS}, not {width}")
        self.position = nn.Parameter(torch.randn(graphs, width, dtype=torch.float32) * 0.02)
        self.query, self.key = Dense(width, width), Dense(width, width)
        self.value, self.out = Dense(width, width), Dense(width, width)

    def forward(self, y: Tensor) -> Tensor:
        tokens = y.transpose(0, 1) + self.position  # [rows, G, H]
        return self.out(attend(self.query(tokens), self.key(tokens), self.value(tokens), _HEADS)).mean(1)


class PairwiseMerge(nn.Module):
    """An own small MLP for each of the P = G (G + 1) / 2 pairs, [y_i, y_j] -> 32 -> H, and the mean of all y as one more
    option; a shared scorer, softmax over the options, weighted sum, norm.

    Rows are taken in blocks that are computed again in the backward pass: [P, rows, H] is never there as a whole.
    """

    pairs: Tensor

    def __init__(self, graphs: int, width: int, norm: NormKind = "layer"):
        super().__init__()
        pairs = torch.triu_indices(graphs, graphs)  # [2, P], i <= j, row by row
        self.register_buffer("pairs", pairs, persistent=False)
        self.hidden = GraphDense(pairs.shape[1], 2 * width, _HIDDEN)
        self.out = GraphDense(pairs.shape[1], _HIDDEN, width)
        self.score_hidden = Dense(width, _HIDDEN)
        self.score = Dense(_HIDDEN, 1, SCORE_STD)
        self.norm = Norm(norm, width)

    def forward(self, y: Tensor) -> Tensor:
        blocks = y.split(_ROWS, 1)
        if len(blocks) == 1 or not torch.is_grad_enabled():
            return self.norm(torch.cat([self._weigh(block) for block in blocks]))
        return self.norm(torch.cat([checkpoint(self._weigh, block, use_reentrant=False) for block in blocks]))

    def _weigh(self, y: Tensor) -> Tensor:
        first, second = y[self.pairs[0]], y[self.pairs[1]]  # [P, rows, H]
        options = self.out(F.gelu(self.hidden(torch.cat([first, second], -1))))
        options = torch.cat([options, y.mean(0, keepdim=True)])  # [P + 1, rows, H]
        scores = self.score(F.gelu(self.score_hidden(options)))  # [P + 1, rows, 1]
        return (options * scores.softmax(0)).sum(0)


def make_merge(kind: str, graphs: int, width: int, norm: NormKind = "layer") -> nn.Module:
    """The merge of this name: sum, mean, attention or pairwise."""
    if kind == "sum":
        return SumMerge()
    if kind == "mean":
        return MeanMerge()
    if kind == "attention":
        return AttentionMerge(graphs, width)
    if kind == "pairwise":
        return PairwiseMerge(graphs, width, norm)
    raise ValueError(f"merge {kind!r}: sum, mean, attention or pairwise")
