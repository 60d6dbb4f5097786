"""The small dense pieces that models are made of.

G edge types (graphs), rows = nodes times samples, H the width. Every Linear starts Kaiming normal (fan out, ReLU gain)
with bias 0, drawn in f32 from torch's generator in the program's order: the same seed gives the program's weights.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NormKind = Literal["layer", "batch_graph"]

# Spread of the first weights of Linears that give a score: first predictions lie near the mean label.
SCORE_STD = 0.02
_EPS = 1e-5
_TINY_VARIANCE = 1e-30  # where all numbers are the same, the gradient of the root would not be finite


def first_weight(*shape: int, std: float = 0) -> nn.Parameter:
    """[.., out], drawn; std 0: Kaiming."""
    return nn.Parameter(torch.randn(*shape, dtype=torch.float32) * (std or math.sqrt(2 / shape[-1])))


class Dense(nn.Module):
    """y = x W + b over the last dimension: x [.., in] -> [.., out]. weight [in, out], bias [out].

    Args:
        std: of the first weights; 0: Kaiming.
    """

    def __init__(self, inputs: int, outputs: int, std: float = 0):
        super().__init__()
        self.weight = first_weight(inputs, outputs, std=std)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).reshape(*x.shape[:-1], -1)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class GraphDense(nn.Module):
    """The same for G graphs at once: x [G, rows, in] -> [G, rows, out]. weight [G, in, out], bias [G, 1, out]."""

    def __init__(self, graphs: int, inputs: int, outputs: int):
        super().__init__()
        self.weight = first_weight(graphs, inputs, outputs)
        self.bias = nn.Parameter(torch.zeros(graphs, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(x, self.weight) + self.bias

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))


class Norm(nn.Module):
    """Normalises rows, then scales and shifts.

    ``layer``: every row by its own mean and variance. ``batch_graph``: one mean and one standard deviation over all rows
    and channels that are given, which couples the samples of a batch (for parity with published models).

    Args:
        kind: ``layer`` or ``batch_graph``.
        width: H.
        graphs: 0: x [.., H], weight [H]; G: x [G, rows, H], weight [G, 1, H] and statistics of each graph.
    """

    def __init__(self, kind: NormKind, width: int, graphs: int = 0):
        super().__init__()
        if kind not in ("layer", "batch_graph"):
            raise ValueError(f"norm {kind!r}: layer or batch_graph")
        self.kind = kind
        shape = (graphs, 1, width) if graphs else (width,)
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return F.layer_norm(x, x.shape[-1:], eps=_EPS) * self.weight + self.bias
        together = tuple(range(1 if self.weight.dim() == 3 else 0, x.dim()))
        centred = x - x.mean(together, keepdim=True)
        std = centred.square().mean(together, keepdim=True).clamp_min(_TINY_VARIANCE).sqrt()
        return centred / (std + _EPS) * self.weight + self.bias


class GraphMlp(nn.Module):
    """The dense part of a layer: four Linears with GELU between, norm, GELU. u [G, rows, H] -> [G, rows, H]."""

    def __init__(self, graphs: int, width: int, norm: NormKind = "layer"):
        super().__init__()
        self.dense0, self.dense1 = GraphDense(graphs, width, width), GraphDense(graphs, width, width)
        self.dense2, self.dense3 = GraphDense(graphs, width, width), GraphDense(graphs, width, width)
        self.norm = Norm(norm, width, graphs)

    def forward(self, u: Tensor) -> Tensor:
        v = self.dense0(u)
        for dense in (self.dense1, self.dense2, self.dense3):
            v = dense(F.gelu(v))
        return F.gelu(self.norm(v))


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int, blocked: Tensor | None = None) -> Tensor:
    """Multi-head attention of a set of tokens to itself: q, k, v [.., tokens, H] -> [.., tokens, H].

    Args:
        blocked: [.., tokens, tokens] bool: pairs that do not see each other. A token that sees nobody gets 0.
    """
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(-3, -2) for x in (q, k, v))  # [.., heads, tokens, H / heads]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if blocked is None:
        weights = scores.softmax(-1)
    else:
        hidden = blocked.unsqueeze(-3)
        weights = scores.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0)
    return (weights @ v).transpose(-3, -2).flatten(-2)
