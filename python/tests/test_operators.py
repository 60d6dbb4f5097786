"""The operators as torch sees them: schemas, meta functions, autograd, torch.compile, autocast."""

import pathlib
import sysconfig

import pytest
import torch
from torch.library import opcheck

import lacuna

REDUCTIONS = ["sum", "mean", "gcn", "max"]


def aggregate_arguments(c, reduce="sum", sum_types=False, values=None, eps=None, x=None):
    return (c.graph.buffer_list, c.graph.sizes, c.x if x is None else x, c.removed, c.ptr, reduce, sum_types, values, eps)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_opcheck_aggregate(case, device, reduce, dtype):
    c = case(dtype=dtype, device=device)
    x = c.x.requires_grad_()
    opcheck(torch.ops.lacuna.aggregate, aggregate_arguments(c, reduce, x=x))
    opcheck(torch.ops.lacuna.aggregate, aggregate_arguments(c, reduce, x=x, eps=c.eps.requires_grad_()))


def test_opcheck_aggregate_values(case, device):
    c = case(device=device)
    values = c.values.requires_grad_()
    opcheck(torch.ops.lacuna.aggregate, aggregate_arguments(c, sum_types=True, values=values))
    opcheck(torch.ops.lacuna.aggregate, aggregate_arguments(c, values=values, eps=c.eps, x=c.x.requires_grad_()))


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("need", [False, True])
def test_opcheck_aggregate_backward(case, device, reduce, need):
    c = case(device=device)
    grad = torch.randn(3, *c.x.shape, dtype=c.x.dtype, device=device)
    needs_x = need or reduce == "max"
    opcheck(torch.ops.lacuna.aggregate_backward,
            (c.graph.buffer_list, c.graph.sizes, grad, c.x if needs_x else None, c.removed, c.ptr, reduce, False,
             c.values if reduce == "sum" else None, c.eps, need and reduce == "sum", need))


# ---- torch.compile
def layer(graph, x, removed, ptr, eps, values):
    a = lacuna.aggregate(graph, torch.tanh(x), removed, ptr, eps=eps, values=values)
    return torch.relu(a).mean(0)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_gives_the_same_numbers(case, device, backend, dynamic):
    if backend == "inductor" and not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        pytest.skip("inductor compiles against Python's headers, which are not here (python3-dev)")
    c = case(device=device)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend=backend, dynamic=dynamic, fullgraph=True)
    results = []
    for f in (layer, compiled):
        inputs = [t.detach().clone().requires_grad_() for t in (c.x, c.eps, c.values)]
        out = f(c.graph, inputs[0], c.removed, c.ptr, inputs[1], inputs[2])
        results.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_compile_takes_another_batch(case, device):
    c, d = case(device=device), case(device=device, samples=((1,), (2, 3), (4,), (), (9, 9)))
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager", dynamic=True, fullgraph=True)
    for k in (c, d):
        torch.testing.assert_close(compiled(k.graph, k.x, k.removed, k.ptr, k.eps, k.values),
                                   layer(k.graph, k.x, k.removed, k.ptr, k.eps, k.values))


# ---- autocast
def test_autocast_computes_in_bf16(case, device):
    c = case(dtype=torch.float32, device=device)
    x = c.x.requires_grad_()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        out = lacuna.aggregate(c.graph, x, c.removed, c.ptr, eps=c.eps)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, lacuna.aggregate(c.graph, x.bfloat16(), c.removed, c.ptr, eps=c.eps))
    out.float().sum().backward()
    assert x.grad.dtype == torch.float32


def test_autocast_leaves_f64_alone_and_never_computes_in_f16(case, device):
    for dtype, expected in ((torch.float64, torch.float64), (torch.float16, torch.float32)):
        c = case(dtype=torch.float64, device=device)
        with torch.autocast(device.type, dtype=torch.float16):
            assert lacuna.aggregate(c.graph, c.x.to(dtype), c.removed, c.ptr).dtype == expected


def test_second_derivative_is_refused(case):
    c = case()
    x = c.x.requires_grad_()
    out = lacuna.aggregate(c.graph, x * x, c.removed, c.ptr)
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="aggregate_backward"):
        grad.sum().backward()
