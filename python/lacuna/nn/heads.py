"""From node states to labels: pooling over kept genes, the global head, the local head.

N genes, B samples, H width, L labels; sets [B, k] are removed genes as :func:`lacuna.nn.gene_sets` gives them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import SCORE_STD, Dense, attend


class Pool(nn.Module):
    """Softmax-weighted sum over the kept genes: x [N, B, H], keep [N, B] bool -> [B, H]; 0 where no gene is kept."""

    def __init__(self, width: int):
        super().__init__()
        self.gate_hidden = Dense(width, width // 2)
        self.gate = Dense(width // 2, 1, SCORE_STD)
        self.value = Dense(width, width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        gate = self.gate(F.gelu(self.gate_hidden(x))).squeeze(-1).to(wide)  # [N, B]
        weights = gate.masked_fill(~keep, -1e30).softmax(0).masked_fill(~keep, 0)
        values = F.gelu(self.value(x)).to(wide)
        # Not in bf16: what a few removed genes change in a sum over thousands would drown in its rounding.
        with torch.autocast(x.device.type, enabled=False):
            return torch.bmm(weights.t().unsqueeze(1), values.transpose(0, 1)).squeeze(1)


class GlobalHead(nn.Module):
    """Difference of pooled states [B, H] -> [B, L]."""

    def __init__(self, width: int, labels: int):
        super().__init__()
        self.hidden = Dense(width, width)
        self.score = Dense(width, labels, SCORE_STD)

    def forward(self, difference: Tensor) -> Tensor:
        return self.score(F.gelu(self.hidden(difference)))


class _AttentionLayer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = Dense(width, width), Dense(width, width)
        self.value, self.out = Dense(width, width), Dense(width, width)
        self.beta = nn.Parameter(torch.tensor(0.01))

    def forward(self, x: Tensor, heads: int, blocked: Tensor) -> Tensor:
        return self.beta * self.out(attend(self.query(x), self.key(x), self.value(x), heads, blocked))


class PairHead(nn.Module):
    """What the removed genes of a sample say one by one and two by two: rows [B, k, H], sets [B, k] -> [B, L].

    The sum over genes of offset(a), and the mean over pairs of pair([a + b, a * b, |a - b|]). A set of one has its offset
    alone; an empty set scores 0.
    """

    def __init__(self, width: int, labels: int, dropout: float = 0):
        super().__init__()
        self.dropout = dropout
        self.offset_hidden = Dense(width, width)
        self.offset = Dense(width, labels, SCORE_STD)
        self.pair_hidden = Dense(3 * width, width, (3 * width) ** -0.5)
        self.pair = Dense(width, labels, SCORE_STD)

    def forward(self, rows: Tensor, sets: Tensor) -> Tensor:
        present = (sets >= 0).unsqueeze(-1)  # [B, k, 1]
        offsets = self.offset(F.gelu(self.offset_hidden(rows))).masked_fill(~present, 0).sum(1)
        if sets.shape[1] == 1:
            return offsets
        first, second = torch.triu_indices(sets.shape[1], sets.shape[1], 1, device=sets.device)
        a, b = rows[:, first], rows[:, second]  # [B, P, H]
        both = present[:, first] & present[:, second]  # [B, P, 1]
        hidden = F.gelu(self.pair_hidden(torch.cat([a + b, a * b, (a - b).abs()], -1)))
        scores = self.pair(F.dropout(hidden, self.dropout, self.training)).masked_fill(~both, 0)
        return offsets + scores.sum(1) / both.sum(1).clamp_min(1)


class ProductHead(nn.Module):
    """Two genes by the products of their factors: rows [B, k, H + L], sets [B, k] -> [B, L].

    A gene's row has H factors and behind them an offset for every label. The sum over genes of their offsets, and the mean
    over pairs of (a * b) products + second(gelu(first([a + b, a * b]))), and a bias. A set of one has its offsets and the
    bias; an empty set the bias.

    Args:
        width: H.
        hidden: between first and second; 0: products alone.
        labels: L.
    """

    def __init__(self, width: int, hidden: int, labels: int):
        super().__init__()
        self.width = width
        signs = 1 - 2 * (torch.arange(width) % 2).float()
        self.products = nn.Parameter(signs.unsqueeze(1).repeat(1, labels))
        self.bias = nn.Parameter(torch.zeros(labels, dtype=torch.float32))
        self.first = Dense(2 * width, hidden) if hidden else None
        self.second = Dense(hidden, labels, SCORE_STD) if hidden else None

    def forward(self, rows: Tensor, sets: Tensor) -> Tensor:
        present = (sets >= 0).unsqueeze(-1)  # [B, k, 1]
        offsets = rows[..., self.width :].masked_fill(~present, 0).sum(1) + self.bias
        if sets.shape[1] == 1:
            return offsets
        one, other = torch.triu_indices(sets.shape[1], sets.shape[1], 1, device=sets.device)
        a, b = rows[:, one, : self.width], rows[:, other, : self.width]  # [B, P, H]
        both = present[:, one] & present[:, other]  # [B, P, 1]
        product = a * b
        scores = product @ self.products  # [B, P, L]
        if self.first is not None and self.second is not None:
            scores = scores + self.second(F.gelu(self.first(torch.cat([a + b, product], -1))))
        return offsets + scores.masked_fill(~both, 0).sum(1) / both.sum(1).clamp_min(1)


class LocalHead(nn.Module):
    """How much the removed genes of a sample change each other: genes [N, H], sets [B, k] -> [B, L].

    Two layers of self-attention inside the set, without a gene's own token; score = Linear((dynamic - static)^2), mean
    over the set. A set of one passes through; an empty set scores 0.
    """

    def __init__(self, width: int, heads: int, labels: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of the local head's {heads} attention heads")
        self.heads = heads
        self.static = Dense(width, width)
        self.layer0, self.layer1 = _AttentionLayer(width), _AttentionLayer(width)
        self.score = Dense(width, labels, SCORE_STD)

    def forward(self, genes: Tensor, sets: Tensor) -> Tensor:
        present = sets >= 0  # [B, k]
        fixed = F.gelu(self.static(genes[sets.clamp_min(0)]))  # [B, k, H]
        itself = torch.eye(sets.shape[1], dtype=torch.bool, device=sets.device)
        blocked = itself | ~present.unsqueeze(1)  # [B, k, k]
        alone = blocked.all(-1, keepdim=True)  # [B, k, 1]
        x = fixed
        for layer in (self.layer0, self.layer1):
            x = x + layer(x, self.heads, blocked).masked_fill(alone, 0)
        weights = present.unsqueeze(-1).to(x.dtype)
        return (self.score((x - fixed).square()) * weights).sum(1) / weights.sum(1).clamp_min(1)
