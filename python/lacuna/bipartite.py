"""Sums over the bipartite graph of metabolism: genes, reactions, metabolites."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ._batch import as_int32
from ._plan import PlanModule

Step = Literal["gene_to_reaction", "reaction_to_metabolite", "metabolite_to_reaction", "reaction_to_gene"]


class BipartiteGraph(PlanModule):
    """Which genes a reaction needs and which metabolites it turns over; moves with ``.to(device)``.

    A reaction is off in a sample that removes any of its genes; one without genes always stays. An edge of a reaction
    that is off is off, and metabolites always stay.

    Attributes:
        num_genes, num_reactions, num_metabolites: nodes of each type.
        coefficients: [reaction-metabolite edges] f32, the stoichiometry.
    """

    def __init__(self, sizes: tuple[int, int, int], plan: Tensor, coefficients: Tensor):
        super().__init__(plan, list(sizes), slabs=False)
        self.num_genes, self.num_reactions, self.num_metabolites = sizes
        self.register_buffer("coefficients", coefficients, persistent=False)

    @classmethod
    def from_edges(
        cls,
        num_genes: int,
        num_reactions: int,
        num_metabolites: int,
        gene_reaction: Tensor,
        reaction_metabolite: Tensor,
        coefficients: Tensor,
    ) -> BipartiteGraph:
        """A graph from edge lists.

        Args:
            gene_reaction: [2, E] integers, genes then reactions.
            reaction_metabolite: [2, F] integers, reactions then metabolites.
            coefficients: [F], negative for a reactant, positive for a product.
        """
        lists = []
        for name, index in (("gene_reaction", gene_reaction), ("reaction_metabolite", reaction_metabolite)):
            index = torch.as_tensor(index)
            if index.dim() != 2 or index.size(0) != 2:
                raise ValueError(f"{name} has shape {list(index.shape)}, but [2, E] is needed")
            if index.dtype.is_floating_point or index.dtype.is_complex or index.dtype == torch.bool:
                raise TypeError(f"{name} has dtype {index.dtype}, but integers are needed")
            lists.append(index.detach().cpu())
        coefficients = torch.as_tensor(coefficients).detach().to("cpu", torch.float32)
        if coefficients.shape != (lists[1].size(1),):
            raise ValueError(f"coefficients has shape {list(coefficients.shape)}, but [{lists[1].size(1)}] is needed")
        sizes = (num_genes, num_reactions, num_metabolites)
        return cls(sizes, torch.ops.lacuna.bipartite_plan(sizes, *lists), coefficients)

    def _arguments(self):
        return tuple(self._host_sizes), self._host, self.coefficients.cpu()

    def extra_repr(self) -> str:
        return f"{self.num_genes:,} genes, {self.num_reactions:,} reactions, {self.num_metabolites:,} metabolites"


def bipartite(graph: BipartiteGraph, step: Step, x: Tensor, removed: Tensor, ptr: Tensor) -> Tensor:
    """One step through the bipartite graph, for a batch of samples that each remove a few genes.

    - ``gene_to_reaction``: mean of a reaction's genes; 0 where the reaction is off or has no genes
    - ``reaction_to_metabolite``: sum of coefficient * x over the kept reactions of a metabolite
    - ``metabolite_to_reaction``: sum of coefficient * x over the metabolites of a reaction; 0 where it is off
    - ``reaction_to_gene``: mean of a gene's kept reactions; 0 where there are none

    Differentiable in ``x``; the coefficients are data.

    Args:
        graph: on the device of ``x``.
        x: [source nodes, B, H], f32, bf16 or f64.
        removed, ptr: the removed genes, as in :func:`lacuna.aggregate`.

    Returns:
        [target nodes, B, H] in the dtype of ``x``.
    """
    return torch.ops.lacuna.bipartite(
        graph.plan, graph.coefficients.float(), graph.sizes, step, x, as_int32("removed", removed), as_int32("ptr", ptr)
    )
