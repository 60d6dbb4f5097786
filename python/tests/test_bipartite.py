"""lacuna.bipartite against PyG on explicitly filtered edges."""

import pytest
import torch
from torch.library import opcheck
from torch_geometric.utils import scatter

import lacuna

STEPS = ["gene_to_reaction", "reaction_to_metabolite", "metabolite_to_reaction", "reaction_to_gene"]


class Metabolism:
    """A random graph with a reaction without genes, a repeated edge and a gene without reactions."""

    def __init__(self, device="cpu", dtype=torch.float64, width=3, samples=((3,), (0, 7, 7), (), (5, 1, 2))):
        self.genes, self.reactions, self.metabolites, self.samples = 12, 9, 7, samples
        self.gene_reaction = torch.stack([torch.randint(11, (20,)), torch.randint(8, (20,))])
        self.gene_reaction[:, 1] = self.gene_reaction[:, 0]
        self.reaction_metabolite = torch.stack([torch.randint(9, (30,)), torch.randint(7, (30,))])
        self.coefficients = torch.randn(30)
        self.graph = lacuna.BipartiteGraph.from_edges(12, 9, 7, self.gene_reaction, self.reaction_metabolite,
                                                      self.coefficients).to(device)
        self.removed, self.ptr = lacuna.removed_lists(samples, device=device)
        self.x = {step: torch.randn(count, len(samples), width, dtype=dtype, device=device)
                  for step, count in zip(STEPS, (12, 9, 7, 9))}

    def explicit(self, step, x):
        """Each sample by itself: edges filtered by the rules, then PyG's scatter."""
        columns = []
        for b, nodes in enumerate(self.samples):
            gene_kept = torch.ones(self.genes, dtype=torch.bool)
            gene_kept[list(nodes)] = False
            off = self.gene_reaction[1][~gene_kept[self.gene_reaction[0]]]
            reaction_kept = torch.ones(self.reactions, dtype=torch.bool)
            reaction_kept[off] = False
            by_gene = step in ("gene_to_reaction", "reaction_to_gene")
            edges = self.gene_reaction if by_gene else self.reaction_metabolite
            keep = reaction_kept[edges[1 if by_gene else 0]]
            if step == "reaction_to_gene":
                keep &= gene_kept[edges[0]]
            source, target = (edges if step in STEPS[:2] else edges.flip(0))[:, keep].to(x.device)
            message = x[source, b]
            if not by_gene:
                message = message * self.coefficients[keep].to(x)[:, None]
            count = {"gene_to_reaction": 9, "reaction_to_metabolite": 7, "metabolite_to_reaction": 9,
                     "reaction_to_gene": 12}[step]
            columns.append(scatter(message, target, dim=0, dim_size=count, reduce="mean" if by_gene else "sum"))
        return torch.stack(columns, dim=1)


@pytest.mark.parametrize("step", STEPS)
def test_equals_pyg_on_filtered_edges(device, step):
    m = Metabolism(device)
    x = m.x[step].requires_grad_()
    mine, theirs = lacuna.bipartite(m.graph, step, x, m.removed, m.ptr), m.explicit(step, x)
    assert mine.shape == theirs.shape
    weights = torch.randn_like(mine)
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    grads = [torch.autograd.grad((out * weights).sum(), x)[0] for out in (mine, theirs)]
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_operator(device, step):
    m = Metabolism(device, width=2)
    x = m.x[step].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: lacuna.bipartite(m.graph, step, x, m.removed, m.ptr), x)
    arguments = (m.graph.plan, m.graph.coefficients, m.graph.sizes, step)
    opcheck(torch.ops.lacuna.bipartite, (*arguments, x, m.removed, m.ptr))
    grad = lacuna.bipartite(m.graph, step, x, m.removed, m.ptr).detach()
    opcheck(torch.ops.lacuna.bipartite_backward, (*arguments, grad, m.removed, m.ptr))
    for dtype in (torch.float32, torch.bfloat16):
        low = lacuna.bipartite(m.graph, step, x.detach().to(dtype), m.removed, m.ptr)
        assert low.dtype == dtype
        torch.testing.assert_close(low.double(), grad, rtol=0.05, atol=0.05)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert lacuna.bipartite(m.graph, step, x.detach().float(), m.removed, m.ptr).dtype == torch.bfloat16


def test_bad_input():
    m = Metabolism(dtype=torch.float32)
    x = m.x["gene_to_reaction"]
    for changed, words in [
        (dict(step="gene_to_metabolite"), "gene_to_metabolite"),
        (dict(x=x[1:]), r"x has shape \[11, 4, 3\]"),
        (dict(x=x[:, 1:]), r"x has shape \[12, 3, 3\]"),
        (dict(x=x.half()), "x has dtype Half"),
        (dict(removed=torch.tensor([12, 0, 0, 0, 0, 0, 0])), "removed.* = 12"),
        (dict(ptr=torch.tensor([0, 3, 1, 1, 1])), "ptr"),
        (dict(ptr=m.ptr.to("meta")), "ptr is on meta, but x is on cpu"),
    ]:
        arguments = dict(graph=m.graph, step="gene_to_reaction", x=x, removed=m.removed, ptr=m.ptr) | changed
        with pytest.raises(RuntimeError, match=words):
            lacuna.bipartite(**arguments)
    with pytest.raises(RuntimeError, match="graph is on meta, but x is on cpu"):
        lacuna.bipartite(Metabolism().graph.to("meta"), "gene_to_reaction", x, m.removed, m.ptr)
    make = lacuna.BipartiteGraph.from_edges
    with pytest.raises(RuntimeError, match="12"):
        make(12, 9, 7, torch.tensor([[12], [0]]), m.reaction_metabolite, m.coefficients)
    with pytest.raises(ValueError, match=r"coefficients has shape \[29\]"):
        make(12, 9, 7, m.gene_reaction, m.reaction_metabolite, m.coefficients[1:])
    with pytest.raises(ValueError, match="gene_reaction has shape"):
        make(12, 9, 7, m.gene_reaction[0], m.reaction_metabolite, m.coefficients)
    with pytest.raises(TypeError, match="reaction_metabolite has dtype"):
        make(12, 9, 7, m.gene_reaction, m.reaction_metabolite.float(), m.coefficients)
