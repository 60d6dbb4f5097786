"""lacuna.aggregate against PyG on explicit subgraphs and on masked copies, and what must hold of it by itself."""

import pytest
import torch

import lacuna
import oracle

REDUCTIONS = ["sum", "mean", "gcn", "max"]


def leaves(*tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def gradients(out, weights, inputs):
    """Gradients of sum(out * weights): every output element takes part with a weight of its own."""
    return torch.autograd.grad((out * weights).sum(), inputs)


def assert_close(mine, theirs):
    scale = theirs.norm().clamp(min=1e-300)
    assert (mine - theirs).norm() / scale < 1e-12 or torch.equal(mine, theirs)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("self_term", [False, True])
def test_equals_pyg_on_subgraphs(case, device, reduce, self_term):
    c = case(device=device)
    x, eps = leaves(c.x, c.eps)
    inputs = [x, eps] if self_term else [x]
    mine = lacuna.aggregate(c.graph, x, c.removed, c.ptr, reduce, eps=eps if self_term else None)
    theirs = oracle.over_subgraphs(c, reduce, x, eps=eps if self_term else None)
    weights = torch.randn_like(mine)
    assert_close(mine, theirs)
    for a, b in zip(gradients(mine, weights, inputs), gradients(theirs, weights, inputs)):
        assert_close(a, b)


@pytest.mark.parametrize("oracle_of", [oracle.over_subgraphs, oracle.over_masked_copies])
def test_values_equal_pyg(case, device, oracle_of):
    c = case(device=device)
    x, values = leaves(c.x, c.values)
    mine = lacuna.aggregate(c.graph, x, c.removed, c.ptr, values=values)
    theirs = oracle_of(c, "sum", x, values) if oracle_of is oracle.over_subgraphs else oracle_of(c, x, values)
    weights = torch.randn_like(mine)
    assert_close(mine, theirs)
    for a, b in zip(gradients(mine, weights, [x, values]), gradients(theirs, weights, [x, values])):
        assert_close(a, b)


def test_equals_pyg_on_masked_copies(case, device):
    c = case(device=device)
    (x,) = leaves(c.x)
    mine = lacuna.aggregate(c.graph, x, c.removed, c.ptr)
    theirs = oracle.over_masked_copies(c, x)
    weights = torch.randn_like(mine)
    assert_close(mine, theirs)
    assert_close(gradients(mine, weights, x)[0], gradients(theirs, weights, x)[0])


@pytest.mark.parametrize("reduce", ["sum", "mean", "gcn"])
def test_sum_types(case, device, reduce):
    c = case(device=device)
    x, eps = leaves(c.x, c.eps)
    each = lacuna.aggregate(c.graph, x, c.removed, c.ptr, reduce, eps=eps).sum(0)
    at_once = lacuna.aggregate(c.graph, x, c.removed, c.ptr, reduce, eps=eps, sum_types=True)
    weights = torch.randn_like(at_once)
    assert_close(at_once, each)
    for a, b in zip(gradients(at_once, weights, [x, eps]), gradients(each, weights, [x, eps])):
        assert_close(a, b)


def differentiable(c, reduce, sum_types=False):
    def f(x, values, eps):
        return lacuna.aggregate(c.graph, x, c.removed, c.ptr, reduce, sum_types=sum_types, eps=eps,
                                values=False if values is None else values)
    return f


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("sum_types", [False, True])
def test_gradcheck(case, device, reduce, sum_types):
    if reduce == "max" and sum_types:
        pytest.skip("max has no sum over types")
    c = case(nodes=8, edges=(20, 11), samples=((3,), (0, 7, 7), ()), width=2, device=device)
    x, values, eps = leaves(c.x, c.values, c.eps)
    f = differentiable(c, reduce, sum_types)
    assert torch.autograd.gradcheck(f, (x, values if reduce == "sum" else None, eps))


# |err| <= 2 deg 2^-24 sum|x| an element for f32; bf16 adds 2^-8 |out|, from rounding the result.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding(case, device, dtype):
    c = case(dtype=dtype, width=64, device=device)
    mine = lacuna.aggregate(c.graph, c.x, c.removed, c.ptr).double()
    exact = oracle.over_subgraphs(c, "sum", c.x.double())
    absolute = oracle.over_subgraphs(c, "sum", c.x.double().abs())
    degree = oracle.over_subgraphs(c, "sum", torch.ones_like(c.x, dtype=torch.float64))
    bound = 2 * degree * 2.0**-24 * absolute
    if dtype == torch.bfloat16:
        bound = bound + 2.0**-8 * exact.abs()
    assert ((mine - exact).abs() <= bound).all()


# ---- properties
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_removing_nothing_is_the_plain_product(case, device, reduce):
    c = case(samples=((), ()), device=device)
    mine = lacuna.aggregate(c.graph, c.x, c.removed, c.ptr, reduce)
    for t, edge_index in enumerate(c.edges.values()):
        for b in range(2):
            assert_close(mine[t, :, b], oracle.convolve(reduce, c.x[:, b], edge_index.to(device)))


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_permuting_samples_permutes_outputs(case, device, reduce, dtype):
    c = case(dtype=dtype, device=device)
    order = torch.randperm(c.batch).tolist()
    removed, ptr = lacuna.removed_lists([c.samples[b] for b in order], device=device)
    mine = lacuna.aggregate(c.graph, c.x[:, order], removed, ptr, reduce)
    assert torch.equal(mine, lacuna.aggregate(c.graph, c.x, c.removed, c.ptr, reduce)[:, :, order])


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_removing_twice_is_removing_once(case, device, reduce):
    c = case(device=device)
    twice, ptr = lacuna.removed_lists([2 * list(sample) for sample in c.samples], device=device)
    mine = lacuna.aggregate(c.graph, c.x, twice, ptr, reduce)
    assert torch.equal(mine, lacuna.aggregate(c.graph, c.x, c.removed, c.ptr, reduce))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_relabelling_nodes_commutes(case, device, reduce):
    c = case(device=device)
    label = torch.randperm(c.nodes)  # node u is now label[u]
    graph = lacuna.Graph.from_edges(c.nodes, {name: label[index] for name, index in c.edges.items()}).to(device)
    removed, ptr = lacuna.removed_lists([label[list(sample)].tolist() for sample in c.samples], device=device)
    x = torch.empty_like(c.x)
    x[label] = c.x
    mine = lacuna.aggregate(graph, x, removed, ptr, reduce)
    assert_close(mine[:, label], lacuna.aggregate(c.graph, c.x, c.removed, c.ptr, reduce))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_removed_node_has_no_influence(case, device, reduce):
    c = case(samples=((3,), (3, 9), ()), device=device)
    c.x[3] += 100  # the largest wherever it is summed, so that a maximum sees it too
    (x,) = leaves(c.x)
    out = lacuna.aggregate(c.graph, x, c.removed, c.ptr, reduce)
    (grad,) = gradients(out, torch.randn_like(out), x)
    assert (grad[3, :2] == 0).all() and (grad[9, 1] == 0).all()  # exactly
    assert (grad[3, 2] != 0).any()  # the wild type does see it
    assert (out[:, 3, :2] == 0).all()
    poisoned = c.x.clone()
    poisoned[3, :2] = torch.nan
    assert torch.equal(lacuna.aggregate(c.graph, poisoned, c.removed, c.ptr, reduce), out)


def test_same_bits_in_every_run_and_for_every_number_of_threads(case):
    c = case(nodes=300, edges=(9000, 4000), dtype=torch.float32, width=64)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            (x, values) = leaves(c.x, c.values)
            out = lacuna.aggregate(c.graph, x, c.removed, c.ptr, values=values)
            results.append((out, *gradients(out, torch.ones_like(out), [x, values])))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0]))


def test_spare_capacity_is_not_read(case, device):
    c = case(device=device)
    spare = torch.cat([c.removed, torch.full((50,), 2**31 - 1, dtype=torch.int32, device=device)])
    assert torch.equal(lacuna.aggregate(c.graph, c.x, spare, c.ptr),
                       lacuna.aggregate(c.graph, c.x, c.removed, c.ptr))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_strided_input_gives_the_same(case, device, reduce):
    c = case(device=device)
    strided = c.x.transpose(0, 2).contiguous().transpose(0, 2)
    assert not strided.is_contiguous()
    (x,), (y,) = leaves(c.x), [strided.detach().requires_grad_()]
    eps = torch.stack([c.eps, c.eps], dim=1)[:, 0]
    removed = torch.stack([c.removed, c.removed], dim=1)[:, 0]
    mine = lacuna.aggregate(c.graph, y, removed, c.ptr, reduce, eps=eps)
    plain = lacuna.aggregate(c.graph, x, c.removed, c.ptr, reduce, eps=c.eps)
    assert torch.equal(mine, plain)
    weights = torch.randn_like(mine).transpose(1, 3).contiguous().transpose(1, 3)  # a strided gradient
    assert torch.equal(gradients(mine, weights, y)[0], gradients(plain, weights.contiguous(), x)[0])
