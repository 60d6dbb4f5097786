"""lacuna.aggregate_shared against aggregate on x repeated for every sample, and against PyG."""

import pytest
import torch
from torch.library import opcheck

import lacuna
import oracle


def close(mine, theirs, tolerance=1e-12):
    return (mine - theirs).norm() <= tolerance * theirs.norm().clamp(min=1e-300)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("sum_types", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_aggregate_on_repeated_x(case, device, reduce, sum_types, weighted):
    if weighted and reduce != "sum":
        pytest.skip("values go with sum")
    c = case(device=device)
    inputs = [c.x[:, 0].clone(), c.eps.clone()] + ([c.values.clone()] if weighted else [])
    results = []
    for shared in (True, False):
        leaves = [t.detach().clone().requires_grad_() for t in inputs]
        arguments = dict(eps=leaves[1], sum_types=sum_types, values=leaves[2] if weighted else False)
        if shared:
            out = lacuna.aggregate_shared(c.graph, leaves[0], c.removed, c.ptr, reduce, **arguments)
        else:
            repeated = leaves[0][:, None].expand(-1, c.batch, -1)
            out = lacuna.aggregate(c.graph, repeated, c.removed, c.ptr, reduce, **arguments)
        weights = torch.randn_like(out) if shared else weights
        results.append([out, *torch.autograd.grad((out * weights).sum(), leaves)])
    for mine, theirs in zip(*results):
        assert mine.shape == theirs.shape and close(mine, theirs)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_equals_pyg_on_subgraphs(case, device, reduce):
    c = case(device=device)
    x = c.x[:, 0].clone().requires_grad_()
    mine = lacuna.aggregate_shared(c.graph, x, c.removed, c.ptr, reduce)
    theirs = oracle.over_subgraphs(c, reduce, x[:, None].expand(-1, c.batch, -1))
    weights = torch.randn_like(mine)
    assert close(mine, theirs)
    assert close(*(torch.autograd.grad((out * weights).sum(), x)[0] for out in (mine, theirs)))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_gradcheck(case, device, reduce):
    c = case(nodes=8, edges=(20, 11), samples=((3,), (0, 7, 7), ()), width=2, device=device)
    x, values, eps = (t.requires_grad_() for t in (c.x[:, 0].clone(), c.values, c.eps))

    def f(x, values, eps):
        return lacuna.aggregate_shared(c.graph, x, c.removed, c.ptr, reduce, eps=eps,
                                       values=False if values is None else values)

    assert torch.autograd.gradcheck(f, (x, values if reduce == "sum" else None, eps))


def test_opcheck(case, device):
    c = case(device=device)
    graph, sizes, x = c.graph.buffer_list, c.graph.sizes, c.x[:, 0].clone()
    opcheck(torch.ops.lacuna.aggregate_shared, (graph, sizes, x.clone().requires_grad_(), c.removed, c.ptr, "mean"))
    opcheck(torch.ops.lacuna.aggregate_shared,
            (graph, sizes, x, c.removed, c.ptr, "sum", True, c.values.requires_grad_(), c.eps.requires_grad_()))
    grad = torch.randn(3, *c.x.shape, dtype=c.x.dtype, device=device)
    opcheck(torch.ops.lacuna.aggregate_shared_backward,
            (graph, sizes, grad, x, c.removed, c.ptr, "sum", False, c.values.detach(), c.eps.detach(), True, True))


def test_bad_input(case):
    c = case(dtype=torch.float32)
    for changed, words in [
        (dict(x=c.x), r"x has shape \[40, 4, 5\], but \[N, H\]"),
        (dict(x=c.x[1:, 0]), "x has shape"),
        (dict(reduce="gcn"), "gcn"),
        (dict(reduce="max"), "max"),
        (dict(removed=torch.tensor([0, 0, 0, 0, 0, 0, 40])), "removed.* = 40"),
        (dict(ptr=c.ptr.to("meta")), "ptr is on meta, but x is on cpu"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            lacuna.aggregate_shared(**(dict(graph=c.graph, x=c.x[:, 0], removed=c.removed, ptr=c.ptr) | changed))
    strided = c.x.transpose(0, 2)[:, 0].T
    assert torch.equal(lacuna.aggregate_shared(c.graph, strided, c.removed, c.ptr),
                       lacuna.aggregate_shared(c.graph, strided.contiguous(), c.removed, c.ptr))
