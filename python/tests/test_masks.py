"""lacuna.masks against the rule in torch's own words, and aggregate_masked against aggregate, bit by bit."""

import pytest
import torch
from torch.library import opcheck

import lacuna


def expected_masks(c):
    """By name, [B, elements] u8."""
    keep = torch.stack([c.keep(b) for b in range(c.batch)])  # [B, N]
    parts = {"nodes": keep}
    for name, (source, target) in c.edges.items():
        parts[name] = keep[:, source] & keep[:, target]
    return {name: part.to(torch.uint8) for name, part in parts.items()}


def assert_masks(c, records):
    assert records.dtype == torch.uint8 and records.shape == (c.batch, c.graph.mask_stride)
    expected = expected_masks(c)
    parts = lacuna.split_masks(c.graph, records)
    assert list(parts) == list(expected)
    for name, part in parts.items():
        assert torch.equal(part.cpu(), expected[name]), name
    assert records.sum() == sum(part.sum() for part in expected.values())  # nothing stands between the parts


def test_masks_follow_the_rule(case, device):
    c = case(device=device)
    assert_masks(c, lacuna.masks(c.graph, c.removed, c.ptr))
    buffer = torch.full((6, c.graph.mask_stride), 77, dtype=torch.uint8, device=device)
    assert_masks(c, lacuna.masks(c.graph, c.removed, c.ptr, out=buffer))
    assert (buffer[4:] == 77).all()


def test_arena_follows_batch_after_batch(case, device):
    c = case(device=device)
    arena = lacuna.MaskArena(c.graph, capacity=5)
    for _ in range(6):
        batch = torch.randint(1, 6, ()).item()
        c.samples = [torch.randint(c.nodes, (torch.randint(4, ()),)).tolist() for _ in range(batch)]
        assert_masks(c, arena(*lacuna.removed_lists(c.samples, device=device)))


def test_masks_bad_input(case):
    c = case()
    table, counts = c.graph.mask_table, c.graph.mask_counts
    room = torch.zeros(4, c.graph.mask_stride, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="removed.* = 40"):
        lacuna.masks(c.graph, torch.tensor([40]), torch.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="records has room for 3 samples, but the batch has 4"):
        lacuna.masks(c.graph, c.removed, c.ptr, out=room[:3])
    with pytest.raises(RuntimeError, match="records has shape"):
        lacuna.masks(c.graph, c.removed, c.ptr, out=room[:, 1:])
    with pytest.raises(RuntimeError, match="records has dtype Int"):
        lacuna.masks(c.graph, c.removed, c.ptr, out=room.int())
    with pytest.raises(RuntimeError, match="records is not contiguous"):
        lacuna.masks(c.graph, c.removed, c.ptr, out=room.T.contiguous().T)
    with pytest.raises(RuntimeError, match="table is on meta, but removed is on cpu"):
        torch.ops.lacuna.masks([t.to("meta") for t in table], counts, c.removed, c.ptr)
    with pytest.raises(RuntimeError, match="table holds parts of two tables"):
        torch.ops.lacuna.masks([table[0], table[1][1:]], counts, c.removed, c.ptr)
    arena = lacuna.MaskArena(c.graph, capacity=3)
    with pytest.raises(RuntimeError, match="records has room for 3 samples"):
        arena(c.removed, c.ptr)
    with pytest.raises(RuntimeError, match="removed.* = -1"):
        arena(torch.tensor([-1]), torch.tensor([0, 1]))
    assert_masks(case(samples=((),), edges=(160, 90, 0)), arena(torch.tensor([]).int(), torch.tensor([0, 0])))


def test_opcheck_masks(case, device):
    c = case(device=device)
    table, counts = c.graph.mask_table, c.graph.mask_counts
    opcheck(torch.ops.lacuna.masks, (table, counts, c.removed, c.ptr))
    room = lacuna.masks(c.graph, c.removed, c.ptr)
    opcheck(torch.ops.lacuna.write_masks, (table, counts, c.removed, c.ptr, torch.zeros_like(room)))
    opcheck(torch.ops.lacuna.update_masks, (table, counts, c.removed, c.ptr, *lacuna.removed_lists([[1], [2]], device), room))


# ---- aggregate_masked
def both(c, reduce="sum", **arguments):
    """aggregate and aggregate_masked on fresh leaves, with all their gradients."""
    records = lacuna.masks(c.graph, c.removed, c.ptr)
    weights = None
    for f in (lambda *a, **k: lacuna.aggregate(c.graph, a[0], c.removed, c.ptr, reduce, **k),
              lambda *a, **k: lacuna.aggregate_masked(c.graph, a[0], records, reduce, **k)):
        x = c.x.detach().clone().requires_grad_()
        leaves = {name: value.detach().clone().requires_grad_() for name, value in arguments.items()
                  if isinstance(value, torch.Tensor)}
        out = f(x, **{**arguments, **leaves})
        weights = torch.randn_like(out) if weights is None else weights
        yield out, dict(zip(["x", *leaves], torch.autograd.grad((out * weights).sum(), [x, *leaves.values()])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("reduce", ["sum", "mean", "gcn"])
@pytest.mark.parametrize("sum_types", [False, True])
def test_masked_has_the_same_bits(case, device, dtype, reduce, sum_types):
    c = case(dtype=dtype, width=19, device=device)
    (out, grads), (masked, masked_grads) = both(c, reduce, sum_types=sum_types, eps=c.eps)
    assert torch.equal(out, masked)
    assert all(torch.equal(grads[name], masked_grads[name]) for name in grads)


def test_masked_with_values(case, device):
    c = case(device=device)
    (out, grads), (masked, masked_grads) = both(c, values=c.values)
    assert torch.equal(out, masked) and torch.equal(grads["x"], masked_grads["x"])
    torch.testing.assert_close(grads["values"], masked_grads["values"], rtol=1e-12, atol=1e-12)


def test_one_mask_byte_matters(case, device):
    c = case(samples=((3,), ()), device=device)
    records = lacuna.masks(c.graph, c.removed, c.ptr)
    edge = 100
    source, target = c.edges["type0"][:, edge].tolist()
    before = lacuna.aggregate_masked(c.graph, c.x, records)
    lacuna.split_masks(c.graph, records)["type0"][1, edge] = 0
    after = lacuna.aggregate_masked(c.graph, c.x, records)
    expected = before.clone()
    expected[0, target, 1] -= c.x[source, 1]
    torch.testing.assert_close(after, expected)
    assert not torch.equal(before, after)


@pytest.mark.parametrize("reduce", ["sum", "mean", "gcn"])
def test_masked_gradcheck(case, device, reduce):
    c = case(nodes=8, edges=(20, 11), samples=((3,), (0, 7, 7), ()), width=2, device=device)
    records = lacuna.masks(c.graph, c.removed, c.ptr)
    x, values, eps = (t.requires_grad_() for t in (c.x, c.values, c.eps))

    def f(x, values, eps):
        return lacuna.aggregate_masked(c.graph, x, records, reduce, eps=eps, values=False if values is None else values)

    assert torch.autograd.gradcheck(f, (x, values if reduce == "sum" else None, eps))


def test_opcheck_aggregate_masked(case, device):
    c = case(device=device)
    records = lacuna.masks(c.graph, c.removed, c.ptr)
    graph, sizes, offsets = c.graph.buffer_list, c.graph.sizes, c.graph.mask_offsets
    opcheck(torch.ops.lacuna.aggregate_masked, (graph, sizes, c.x.requires_grad_(), records, offsets, "mean"))
    opcheck(torch.ops.lacuna.aggregate_masked,
            (graph, sizes, c.x, records, offsets, "sum", False, c.values.requires_grad_(), c.eps.requires_grad_()))
    grad = torch.randn(3, *c.x.shape, dtype=c.x.dtype, device=device)
    opcheck(torch.ops.lacuna.aggregate_masked_backward,
            (graph, sizes, grad, c.x.detach(), records, offsets, "sum", False, c.values.detach(), c.eps.detach(), True, True))


def test_masked_bad_input(case):
    c = case(dtype=torch.float32)
    records = lacuna.masks(c.graph, c.removed, c.ptr)
    for changed, words in [
        (dict(masks=records[:3]), r"x has shape \[40, 4, 5\]"),
        (dict(masks=records[:, :-64]), "mask"),
        (dict(masks=records[0]), "masks has shape"),
        (dict(masks=records.float()), "masks has dtype Float"),
        (dict(masks=records.to("meta")), "masks is on meta, but x is on cpu"),
        (dict(reduce="max"), "reduce 'max' is not offered with masks"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            lacuna.aggregate_masked(**(dict(graph=c.graph, x=c.x, masks=records) | changed))
    strided = records.T.contiguous().T
    assert torch.equal(lacuna.aggregate_masked(c.graph, c.x, strided), lacuna.aggregate_masked(c.graph, c.x, records))
