"""HeteroGin (merge sum or pairwise, output global) as one would write it without Lacuna: plain PyTorch and PyG.

    usual     a copy of the graph for every sample, a boolean mask over its edges, PyG message passing
    shared    the strongest plain form: one CSR matrix a network, the samples side by side in the columns of x, genes
              zeroed before and after the product; the wild type is one more sample
    compiled  the same with torch.compile over the dense parts

All share the dense parts below. Weights are those of a file that Lacuna wrote, by name, kept in f32; states and
products are in `dtype`. Networks stand in alphabetical order.
"""

import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import MessagePassing

FORMS = ("usual", "shared", "compiled")
warnings.filterwarnings("ignore", message="Sparse")  # that CSR is young, and unchecked


# ---- dense parts
class Linear(nn.Module):
    """A Linear in the dtype of its input. weight [in, out], as Lacuna keeps it."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight.t().clone(memory_format=torch.contiguous_format))
        self.bias = nn.Parameter(bias.reshape(-1).clone())

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class Norm(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.reshape(-1).clone()), nn.Parameter(bias.reshape(-1).clone())

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight.to(x.dtype), self.bias.to(x.dtype))


class Weights:
    """Those of a file whose names start with `prefix`."""

    def __init__(self, values, prefix=""):
        self.values, self.prefix = values, prefix

    def at(self, name):
        return Weights(self.values, f"{self.prefix}{name}.")

    def __getitem__(self, name):
        return self.values[self.prefix + name]

    def linear(self, name, index=...):
        return Linear(self[f"{name}.weight"][index], self[f"{name}.bias"][index])

    def norm(self, name, index=...):
        return Norm(self[f"{name}.weight"][index], self[f"{name}.bias"][index])


class Gin(MessagePassing):
    """One network of one layer."""

    def __init__(self, weights, network):
        super().__init__(aggr="add")
        self.eps = nn.Parameter(weights["eps"][network].clone())
        self.linears = nn.ModuleList([weights.linear(f"mlp.dense{i}", network) for i in range(4)])
        self.norm = weights.norm("mlp.norm", network)

    def forward(self, x, edges, mask):
        """x [rows, H], edges [2, E], mask [E]: the edges that are kept."""
        return self.dense(self.propagate(edges, x=x, mask=mask), x)

    def message(self, x_j, mask):
        return x_j * mask[:, None].to(x_j.dtype)

    def dense(self, sums, x):
        v = sums + (1 + self.eps).to(x.dtype) * x
        for i, linear in enumerate(self.linears):
            v = linear(F.gelu(v) if i else v)
        return F.gelu(self.norm(v))


class SumMerge(nn.Module):
    def __init__(self, weights, networks):
        super().__init__()

    def forward(self, *ys):
        return sum(ys[1:], ys[0])


class PairwiseMerge(nn.Module):
    def __init__(self, weights, networks):
        super().__init__()
        self.pairs = [(i, j) for i in range(networks) for j in range(i, networks)]
        self.hidden = nn.ModuleList([weights.linear("hidden", p) for p in range(len(self.pairs))])
        self.out = nn.ModuleList([weights.linear("out", p) for p in range(len(self.pairs))])
        self.score_hidden, self.score = weights.linear("score_hidden"), weights.linear("score")
        self.norm = weights.norm("norm")

    def forward(self, *ys):
        options = [
            out(F.gelu(hidden(torch.cat([ys[i], ys[j]], -1))))
            for (i, j), hidden, out in zip(self.pairs, self.hidden, self.out)
        ]
        options = torch.stack([*options, torch.stack(ys).mean(0)])  # [P + 1, .., H]
        shares = torch.softmax(self.score(F.gelu(self.score_hidden(options))), 0)
        return self.norm((options * shares).sum(0))


MERGES = {"sum": SumMerge, "pairwise": PairwiseMerge}


# ---- the graph
class SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(context, matrix, transposed, x):
        context.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(context, grad):
        return None, None, context.transposed @ grad.contiguous()


def sparse(edges, genes, dtype):
    """[2, E] -> the CSR matrix that sums a gene's in-neighbours."""
    ones = torch.ones(edges.shape[1], dtype=dtype, device=edges.device)
    return torch.sparse_coo_tensor(edges.flip(0), ones, (genes, genes)).coalesce().to_sparse_csr()


def keep_matrix(removed, genes, device):
    keep = torch.ones(len(removed), genes, dtype=torch.bool)
    for row, names in zip(keep, removed):
        row[list(names)] = False
    return keep.to(device)  # [B, N]


# ---- the model
class HeteroGin(nn.Module):
    def __init__(self, form, values, merge, layers, networks, genes, dtype, device):
        """networks: edges [2, E] each; values: the weights by name."""
        super().__init__()
        weights = Weights({name: value.float() for name, value in values.items()})
        self.form, self.genes, self.dtype = form, genes, dtype
        self.table = nn.Parameter(weights["table"].clone())
        self.pre = nn.ModuleList([weights.linear("pre0"), weights.linear("pre1")])
        self.pre_norm = weights.norm("pre_norm")
        at = [weights.at(f"layer{i}") for i in range(layers)]
        self.gins = nn.ModuleList([nn.ModuleList([Gin(w, g) for g in range(len(networks))]) for w in at])
        self.merges = nn.ModuleList([MERGES[merge](w.at("merge"), len(networks)) for w in at])
        self.gate_hidden, self.gate = weights.linear("pool.gate_hidden"), weights.linear("pool.gate")
        self.value = weights.linear("pool.value")
        self.hidden, self.score = weights.linear("global.hidden"), weights.linear("global.score")
        self.to(device)
        networks = [edges.to(device) for edges in networks]
        if form == "usual":
            self.networks = networks
        else:
            self.matrices = [(sparse(e, genes, dtype), sparse(e.flip(0), genes, dtype)) for e in networks]
        if form == "compiled":
            self.compile_dense()

    def compile_dense(self):
        for gins in self.gins:
            for gin in gins:
                gin.dense = torch.compile(gin.dense, dynamic=False)
        for merge in self.merges:
            merge.forward = torch.compile(merge.forward, dynamic=False)
        self.pool = torch.compile(self.pool, dynamic=False)

    def prepare(self, removed):
        """What a form needs of a batch, ready on the device."""
        keep = keep_matrix(removed, self.genes, self.table.device)  # [B, N]
        if self.form != "usual":
            return torch.cat([keep, torch.ones_like(keep[:1])])
        shift = torch.arange(len(removed), device=keep.device) * self.genes  # [B]
        copies, masks, alone = [], [], []
        for edges in self.networks:
            copies.append((edges[:, None, :] + shift[None, :, None]).reshape(2, -1))  # [2, B * E]
            masks.append((keep[:, edges[0]] & keep[:, edges[1]]).reshape(-1))  # [B * E]
            alone.append(torch.ones(edges.shape[1], dtype=torch.bool, device=keep.device))
        return {"keep": keep, "copies": copies, "masks": masks, "alone": alone}

    def forward(self, batch):
        """-> [B, L] f32"""
        x = self.table
        for linear in self.pre:
            x = F.gelu(self.pre_norm(linear(x)))
        x = x.to(self.dtype)
        if self.form == "usual":
            keep = batch["keep"]
            states = self.encode_copies(x.repeat(len(keep), 1), batch["copies"], batch["masks"], len(keep))
            mutant = self.pool(states, keep)
            wild = self.pool(self.encode_copies(x, self.networks, batch["alone"], 1), torch.ones_like(keep[:1]))
        else:
            pooled = self.pool(self.encode_shared(x, batch), batch)
            mutant, wild = pooled[:-1], pooled[-1:]
        return self.score(F.gelu(self.hidden(wild - mutant)))

    def encode_copies(self, x, networks, masks, batch):
        """x [B * N, H] -> [N, B, H]"""
        for gins, merge in zip(self.gins, self.merges):
            x = merge(*[gin(x, edges, mask) for gin, edges, mask in zip(gins, networks, masks)])
        return x.reshape(batch, self.genes, -1).transpose(0, 1)

    def encode_shared(self, x, keep):
        """x [N, H], keep [B, N] -> [N, B, H]"""
        batch, width = len(keep), x.shape[1]
        x = x[:, None, :].expand(-1, batch, -1)
        kept = keep.t()[:, :, None].to(x.dtype)  # [N, B, 1]
        for gins, merge in zip(self.gins, self.merges):
            flat = (x * kept).reshape(self.genes, batch * width)
            x = merge(*[
                gin.dense(SparseProduct.apply(*matrices, flat).reshape(self.genes, batch, width) * kept, x)
                for gin, matrices in zip(gins, self.matrices)
            ])  # fmt: skip
        return x

    def pool(self, x, keep):
        """x [N, B, H], keep [B, N] -> [B, H] f32"""
        gate = self.gate(F.gelu(self.gate_hidden(x))).squeeze(-1).float()  # [N, B]
        shares = torch.softmax(gate.masked_fill(~keep.t(), -1e30), 0)
        return (shares[:, :, None] * F.gelu(self.value(x)).float()).sum(0)
