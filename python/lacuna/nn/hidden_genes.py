"""Genes whose own learned row is hidden from a model, so that it learns to speak for genes that it has not met."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class HiddenGenes(nn.Module):
    """Rows [N, H] with those of hidden genes replaced by one learned row: the genes that are ``unseen`` always, and
    while training every other gene with ``probability``, drawn anew at every call.

    Args:
        genes: N.
        width: H.
        unseen: numbers of genes, those without training samples.
        probability: `train.hide` of the program.
    """

    unseen: Tensor

    def __init__(self, genes: int, width: int, unseen: Iterable[int], probability: float):
        super().__init__()
        self.probability = probability
        self.unknown = nn.Parameter(torch.zeros(width, dtype=torch.float32))
        hidden = torch.zeros(genes, 1, dtype=torch.bool)
        hidden[list(unseen)] = True
        self.register_buffer("unseen", hidden, persistent=False)  # [N, 1]

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.unseen
        if self.training and self.probability > 0:
            hidden = hidden | (torch.rand(hidden.shape, device=hidden.device) < self.probability)
        return torch.where(hidden, self.unknown, rows)
