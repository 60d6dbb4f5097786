"""What every model of a screen is: a module that turns the removed genes of a batch into predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from .._batch import removed_lists
from .gene_graph import GeneGraph
from .hidden_genes import HiddenGenes


class Model(nn.Module):
    """Base of the program's models. ``model(removed, ptr)`` gives standardised labels, [B, L]; differentiable.

    Attributes:
        graph: the :class:`GeneGraph`.
        label_names: [L], where the model comes from a run.
        table: [N, H], a learned row a gene; None where the model has none.
        hidden: which rows are hidden, or None (:meth:`hide_genes`).
        label_mean, label_sd: [L] f64, by which labels were standardised; 0 and 1 unless it comes from a run.
    """

    table: Tensor | None
    hidden: HiddenGenes | None
    label_mean: Tensor
    label_sd: Tensor

    def __init__(self, graph: GeneGraph, labels: int):
        super().__init__()
        self.graph = graph
        self.register_parameter("table", None)
        self.hidden = None
        self.label_names = [f"label{i}" for i in range(labels)]
        self.register_buffer("label_mean", torch.zeros(labels, dtype=torch.float64), persistent=False)
        self.register_buffer("label_sd", torch.ones(labels, dtype=torch.float64), persistent=False)

    def forward(self, removed: Tensor, ptr: Tensor) -> Tensor:
        """Args as in :func:`lacuna.aggregate`. Returns [B, L], standardised (mean 0, sd 1 on the training part)."""
        raise NotImplementedError

    def hide_genes(self, unseen: Iterable[int], probability: float = 0) -> None:
        """Gives the model one learned row for unknown genes (`train.hide`): it stands for the ``unseen`` ones, numbers
        of genes without training samples, and while training for each other gene with ``probability``."""
        if self.table is None:
            raise ValueError("this model learns no row of a gene, so there is nothing to hide")
        genes, width = self.table.shape
        self.hidden = HiddenGenes(genes, width, unseen, probability).to(self.table.device, self.table.dtype)

    def visible_rows(self) -> Tensor | None:
        """``table`` [N, H], the rows of hidden genes replaced."""
        return self.table if self.hidden is None or self.table is None else self.hidden(self.table)

    def total_loss(self, prediction_loss: Tensor, epoch: int = 0) -> Tensor:
        """What is minimised: the loss of the last predictions, and whatever else the model wants small."""
        return prediction_loss

    def predict(self, removed: Tensor, ptr: Tensor) -> Tensor:
        """[B, L] in the labels' own units, as `lacuna predict`; gradients pass. Call ``eval()`` first, or dropout acts."""
        out = self(removed, ptr)
        return (out.double() * self.label_sd.double() + self.label_mean.double()).to(out.dtype)

    def samples(self, genes: Iterable[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(removed, ptr) of samples given by gene names, on the model's device: [["YAL001C"], []]. A name alone is a sample
        that removes this gene."""
        if self.graph.genes is None:
            raise ValueError("this model's graph has no gene names; give numbers to lacuna.removed_lists")
        places = {name: place for place, name in enumerate(self.graph.genes)}
        if isinstance(genes, str):
            raise ValueError(f"genes is {genes!r}, but a list of samples is needed, a list of gene names each: [[{genes!r}]]")
        lists = [[sample] if isinstance(sample, str) else list(sample) for sample in genes]
        for number, sample in enumerate(lists):
            for name in sample:
                if name not in places:
                    raise ValueError(f"samples[{number}]: there is no gene {name!r} in the graph of this model")
        return removed_lists([[places[name] for name in sample] for sample in lists], self.label_mean.device)


def gene_sets(removed: Tensor, ptr: Tensor) -> Tensor:
    """[B, k] int64: the removed genes of each sample, ascending and without repeats, then -1; k is at least 1."""
    ptr, counts = ptr.long(), ptr.long().diff()
    widest = max(1, int(counts.max()) if len(counts) else 0)
    place = torch.arange(widest, device=ptr.device)
    padded = torch.cat([removed.long(), removed.new_zeros(1).long()])
    nobody = torch.iinfo(torch.int64).max
    index = (ptr[:-1, None] + place).clamp_max(len(padded) - 1)
    sets = padded[index].masked_fill(place >= counts[:, None], nobody).sort(1).values
    repeats = torch.zeros_like(sets, dtype=torch.bool)
    repeats[:, 1:] = sets[:, 1:] == sets[:, :-1]
    sets = sets.masked_fill(repeats, nobody).sort(1).values
    return sets.masked_fill(sets == nobody, -1)


def kept_genes(sets: Tensor, genes: int) -> Tensor:
    """sets [B, k] -> keep [N, B] bool."""
    keep = torch.ones(genes + 1, len(sets), dtype=torch.bool, device=sets.device)  # the last row stands for "none"
    return keep.scatter(0, sets.masked_fill(sets < 0, genes).t(), False)[:genes]


def make_model(settings: Mapping[str, object], graph: GeneGraph, labels: int, seed: int | None = None) -> Model:
    """The model that settings ask for, as the ``model:`` of a config: their ``name`` and its own keys.

    Args:
        seed: of the first weights, which are then those that `lacuna train` starts from with ``train.seed``; None: as
            torch's generator stands.
    """
    from .dango import Dango
    from .factors import Factors
    from .gene_mlp import GeneMlp
    from .hetero_gin import HeteroGin
    from .wild_type import WildType

    kinds = {"hetero_gin": HeteroGin, "dango": Dango, "mlp": GeneMlp, "wild_type": WildType, "factors": Factors}
    rest = dict(settings)
    name = rest.pop("name", "hetero_gin")
    rest.pop("savings", None)  # of the program: how it computes, not what
    if name not in kinds:
        raise ValueError(
            f"model {name!r} is none of lacuna.nn ({', '.join(kinds)}); one of a plugin, or of lacuna.train(), opens only "
            "beside its own code"
        )
    if seed is not None:
        torch.manual_seed(seed)
    return kinds[name](graph, labels, **rest)
