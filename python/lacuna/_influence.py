"""What a model says of every gene: the effect of its removal alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import _core
from ._batch import removed_lists
from ._pandas import load_pandas
from ._progress import Progress
from .screen import Screen


class Influence:
    """Effects of single removals, made by :func:`influence`.

    Attributes:
        genes: [G] names.
        label_names: [L].
        effect: [G, L]: prediction of the sample without this gene, less that of the wild type.
        wild_type: [L]: prediction of the sample that nothing is gone from.
    """

    def __init__(self, genes: Sequence[str], label_names: Sequence[str], effect: np.ndarray, wild_type: np.ndarray):
        self.genes, self.label_names = list(genes), list(label_names)
        self.effect, self.wild_type = effect, wild_type

    def __len__(self) -> int:
        """Genes."""
        return len(self.genes)

    def to_pandas(self):
        """A DataFrame with a row a gene: ``gene``, and the effect on each label."""
        pd = load_pandas("Influence.to_pandas()")
        columns = {name: self.effect[:, l] for l, name in enumerate(self.label_names)}
        return pd.DataFrame({"gene": self.genes, **columns})

    def strongest(self, count: int = 20, label: str | None = None) -> list[tuple[str, float]]:
        """The genes of the largest effects on a label (the first unless named), whatever their sign, and the effects."""
        effect = self.effect[:, self._column(label)]
        order = np.argsort(-np.abs(effect), kind="stable")[:count]
        return [(self.genes[gene], float(effect[gene])) for gene in order]

    def plot(self, count: int = 20, label: str | None = None, ax=None):
        """The strongest genes as bars, and all effects in order beneath; needs matplotlib. Returns the axes.

        Args:
            count: genes that are named.
            label: which one; None: the first.
            ax: matplotlib axes for the bars alone; None: a new figure.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("lacuna: plot() needs matplotlib: `pip install matplotlib`") from error

        column = self._column(label)
        lower = None
        if ax is None:
            height = 2.5 + 0.2 * min(count, len(self))
            _, (ax, lower) = plt.subplots(2, 1, figsize=(6, height), height_ratios=[height - 2, 2], layout="constrained")
        strongest = self.strongest(count, label)[::-1]
        ax.barh([gene for gene, _ in strongest], [effect for _, effect in strongest])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel(f"{self.label_names[column]}: removal less wild type")
        if lower is not None:
            lower.plot(np.sort(self.effect[:, column]))
            lower.axhline(0, color="black", linewidth=0.8)
            lower.set_xlabel(f"{len(self):,} genes in order of their effect")
        return ax

    def _column(self, label: str | None) -> int:
        if label is None:
            return 0
        if label not in self.label_names:
            raise _core.UsageError(f"no label {label!r}; there is {', '.join(self.label_names)}")
        return self.label_names.index(label)

    def __repr__(self) -> str:
        said = ", ".join(f"{gene} {effect:+.3g}" for gene, effect in self.strongest(3))
        return f"Influence({len(self):,} genes on {', '.join(self.label_names)}; {self.label_names[0]}: {said}, ...)"

    def _repr_html_(self) -> str:
        table = self.to_pandas()
        order = table[self.label_names[0]].abs().sort_values(ascending=False).index[:20]
        return table.loc[order].to_html(index=False, float_format=lambda value: f"{value:.4g}")


def influence(
    model: nn.Module | Callable[[Tensor, Tensor], Tensor],
    screen: Screen,
    genes: Sequence[str] | None = None,
    batch: int = 64,
) -> Influence:
    """The effect of removing each gene alone, over the whole genome: computed, not estimated.

        found = lacuna.influence(run.model(), screen)
        found.to_pandas(), found.plot()

    Args:
        model: ``model(removed, ptr)`` gives [B] or [B, L]. One of :mod:`lacuna.nn` is asked by its ``predict``, so that
            effects are in the labels' own units. A module is set to ``eval()`` meanwhile.
        screen: whose genes are meant.
        genes: names of those to remove; None: all.
        batch: samples at a time. One at a time where ``norm: batch_graph`` couples those of a batch.
    """
    names = list(screen.genes if genes is None else genes)
    places = {name: place for place, name in enumerate(screen.genes)}
    for name in names:
        if name not in places:
            raise _core.UsageError(f"{screen.path}: no gene {name!r}; screen.genes has them all")
    if not names:
        raise _core.UsageError("influence of no genes: name one at least")
    if isinstance(model, nn.Module) and any(getattr(part, "kind", None) == "batch_graph" for part in model.modules()):
        batch = 1
    samples: list[list[int]] = [[], *([places[name]] for name in names)]
    predicted = _predict(model, samples, max(1, batch))
    labels = getattr(model, "label_names", None) or screen.label_names
    if len(labels) != predicted.shape[1]:
        labels = [f"label{l}" for l in range(predicted.shape[1])]
    return Influence(names, labels, predicted[1:] - predicted[0], predicted[0])


def _predict(model: Any, samples: list[list[int]], batch: int) -> np.ndarray:
    """[samples, L] f64"""
    ask = getattr(model, "predict", model)
    device = next((p.device for p in model.parameters()), None) if isinstance(model, nn.Module) else None
    was_training = isinstance(model, nn.Module) and model.training
    if was_training:
        model.eval()
    try:
        pieces = []
        with torch.no_grad(), Progress() as progress:
            for begin in range(0, len(samples), batch):
                part = samples[begin : begin + batch]
                out = ask(*removed_lists(part, device))
                pieces.append(out.reshape(len(part), -1).double().cpu())
                if progress is not None:  # the first sample is the wild type
                    progress.show("removing each gene", begin + len(part) - 1, len(samples) - 1, "genes")
    finally:
        if was_training:
            model.train()
    return torch.cat(pieces).numpy()
