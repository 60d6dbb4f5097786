"""What is particular to a GPU: streams, captured graphs, errors that arrive later, plans that outlive their graph."""

import copy
import gc
import io

import pytest
import torch

import lacuna

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is visible to torch"),
    pytest.mark.skipif(not lacuna.has_cuda(), reason="liblacuna_torch was built without CUDA"),
]


@pytest.fixture(autouse=True)
def no_error_is_left():
    yield
    if torch.cuda.is_available() and lacuna.has_cuda():
        lacuna.check_errors()


def large(case, dtype=torch.bfloat16, **arguments):
    """Wide and long enough for the kernel that keeps columns in shared memory."""
    samples = [torch.randint(700, (k % 4,)).tolist() for k in range(28)]
    return case(nodes=700, edges=(30000, 9000, 500), samples=samples, width=64, dtype=dtype, device="cuda", **arguments)


def on_cpu(c):
    graph = lacuna.Graph.from_edges(c.nodes, c.edges)
    return graph, c.x.detach().cpu(), c.removed.cpu(), c.ptr.cpu()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("sum_types", [False, True])
def test_large_sums_equal_the_cpu(case, dtype, sum_types):
    c = large(case, dtype)
    results = []
    weights = None
    for graph, x, removed, ptr in ((c.graph, c.x, c.removed, c.ptr), on_cpu(c)):
        x, eps = x.detach().requires_grad_(), c.eps.detach().to(x.device).requires_grad_()
        out = lacuna.aggregate(graph, x, removed, ptr, eps=eps, sum_types=sum_types)
        weights = torch.randn_like(out) if weights is None else weights
        out.backward(weights.to(out.device))
        results.append([t.detach().double().cpu() for t in (out, x.grad, eps.grad)])
    for mine, theirs in zip(*results):
        assert (mine - theirs).norm() <= (2e-5 if dtype == torch.float32 else 4e-3) * theirs.norm()


def test_same_bits_in_every_run(case):
    c = large(case)
    x = c.x.requires_grad_()
    runs = []
    for _ in range(3):
        out = lacuna.aggregate(c.graph, x, c.removed, c.ptr)
        runs.append((out, torch.autograd.grad(out, x, torch.ones_like(out))[0]))
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0]))


def test_work_goes_to_the_current_stream(case):
    c = large(case)
    expected = lacuna.aggregate(c.graph, c.x, c.removed, c.ptr)
    late = torch.zeros_like(c.x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # on another stream the sum would be done before x is there
        late.copy_(c.x)
        out = lacuna.aggregate(c.graph, late, c.removed, c.ptr)
    stream.synchronize()
    assert torch.equal(out, expected)


def test_captured_step_is_replayed_with_other_samples(case):
    c = large(case)
    removed = torch.zeros(200, dtype=torch.int32, device="cuda")  # spare capacity
    removed[: c.removed.numel()] = c.removed
    ptr, x = c.ptr.clone(), c.x.clone().requires_grad_()
    c.graph.make_mask_table()

    def step():
        out = lacuna.aggregate(c.graph, x, removed, ptr, eps=c.eps)
        (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
        shared = lacuna.aggregate_shared(c.graph, x.detach()[:, 0], removed, ptr)
        records = lacuna.masks(c.graph, removed, ptr)
        return out, grad, shared, records, lacuna.aggregate_masked(c.graph, x.detach(), records)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    side.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):  # a synchronisation in here would be an error
        results = step()
    for _ in range(3):
        samples = [torch.randint(700, (torch.randint(5, ()),)).tolist() for _ in range(28)]
        new_removed, new_ptr = lacuna.removed_lists(samples, device="cuda")
        removed[: new_removed.numel()] = new_removed
        ptr.copy_(new_ptr)
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
        captured.replay()
        for replayed, direct in zip(results, step()):
            assert torch.equal(replayed, direct)


def test_nothing_synchronises(case):
    c = large(case)
    x = c.x.requires_grad_()
    c.graph.make_mask_table()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = lacuna.aggregate(c.graph, x, c.removed, c.ptr, eps=c.eps)
        out.backward(torch.ones_like(out))
        lacuna.masks(c.graph, c.removed, c.ptr)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("bad", [700, -1, 2**31 - 1])
def test_wrong_index_is_skipped_and_reported(case, dtype, bad):
    c = large(case, dtype)
    lists = [list(sample) for sample in c.samples]
    lists[5].append(bad)
    expected = lacuna.aggregate(c.graph, c.x, c.removed, c.ptr)
    out = lacuna.aggregate(c.graph, c.x, *lacuna.removed_lists(lists, device="cuda"))
    with pytest.raises(RuntimeError, match="removed"):
        lacuna.check_errors()
    lacuna.check_errors()  # once
    assert torch.equal(out, expected)


def test_wrong_index_is_thrown_by_the_next_operator(case):
    c = large(case)
    wrong = torch.tensor([9999], dtype=torch.int32, device="cuda")
    lacuna.masks(c.graph, wrong, torch.tensor([0, 1], dtype=torch.int32, device="cuda"))
    torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="removed"):
        lacuna.aggregate(c.graph, c.x, c.removed, c.ptr)
    lacuna.aggregate(c.graph, c.x, c.removed, c.ptr)


@pytest.mark.parametrize("position, value", [(0, 1), (3, -5), (28, 10**6)])
def test_wrong_ptr_is_reported(case, position, value):
    c = large(case)
    ptr = c.ptr.clone()
    ptr[position] = value
    lacuna.aggregate(c.graph, c.x, c.removed, ptr)
    with pytest.raises(RuntimeError, match="ptr"):
        lacuna.check_errors()


def test_backward_after_the_graph_is_gone(case):
    c = large(case)
    x = c.x.requires_grad_()
    out = lacuna.aggregate(c.graph, x, c.removed, c.ptr)
    (expected,) = torch.autograd.grad(out, x, torch.ones_like(out), retain_graph=True)
    del c.graph
    gc.collect()
    assert torch.equal(torch.autograd.grad(out, x, torch.ones_like(out))[0], expected)


def test_copies_stand_on_their_own(case):
    c = large(case)
    expected = lacuna.aggregate(c.graph, c.x, c.removed, c.ptr)
    buffer = io.BytesIO()
    torch.save(c.graph, buffer)
    buffer.seek(0)
    copies = [copy.deepcopy(c.graph), torch.load(buffer, weights_only=False), copy.deepcopy(c.graph).cpu().cuda()]
    del c.graph
    gc.collect()
    for graph in copies:
        assert torch.equal(lacuna.aggregate(graph, c.x, c.removed, c.ptr), expected)


def test_compiled_with_cuda_graphs(case):
    c = large(case)
    torch._dynamo.reset()
    f = torch.compile(lambda x: torch.relu(lacuna.aggregate(c.graph, x * 2, c.removed, c.ptr)).sum(0), mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn_like(c.x)
        expected = torch.relu(lacuna.aggregate(c.graph, x * 2, c.removed, c.ptr)).sum(0)
        torch.testing.assert_close(f(x), expected, rtol=2e-2, atol=2e-2)
