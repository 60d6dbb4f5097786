"""Whatever is wrong with an argument is an exception that names it; nothing wrong is computed."""

import pytest
import torch

import lacuna


def lists(*samples, device="cpu"):
    return lacuna.removed_lists(samples, device=device)


def run(c, **changed):
    arguments = dict(graph=c.graph, x=c.x, removed=c.removed, ptr=c.ptr, reduce="sum") | changed
    return lacuna.aggregate(**arguments)


INT = dict(dtype=torch.int32)


@pytest.mark.parametrize(
    "changed, words",
    [
        (dict(removed=torch.tensor([3, 40, 7, 7, 5, 1, 2])), "removed.* = 40"),
        (dict(removed=torch.tensor([3, -1, 7, 7, 5, 1, 2])), "removed.* = -1"),
        (dict(removed=torch.tensor([3, 2**32, 7, 7, 5, 1, 2])), "removed.*not a node"),
        (dict(ptr=torch.tensor([0, 1, 4, 3, 7])), "ptr"),
        (dict(ptr=torch.tensor([1, 1, 4, 4, 7])), "ptr"),
        (dict(ptr=torch.tensor([0, 1, 4, 4, 8])), "ptr"),
        (dict(ptr=torch.tensor([0, 1, 4, 7])), r"x has shape \[40, 4, 5\]"),
        (dict(ptr=torch.tensor([], **INT)), "ptr is empty"),
        (dict(ptr=torch.tensor([[0, 1, 4, 4, 7]])), "ptr has shape"),
        (dict(removed=torch.tensor([[3, 0, 7, 7, 5, 1, 2]])), "removed has shape"),
        (dict(ptr=torch.tensor([0.0, 1, 4, 4, 7])), "ptr has dtype"),
        (dict(removed=torch.tensor([True])), "removed has dtype"),
        (dict(ptr=None), "ptr"),
        (dict(removed=[3, 4]), "removed"),
        (dict(reduce="median"), "median.*sum"),
        (dict(reduce="max", sum_types=True), "sum_types"),
        (dict(x=torch.randn(39, 4, 5)), r"x has shape \[39, 4, 5\]"),
        (dict(x=torch.randn(40, 4)), "x has shape"),
        (dict(x=torch.randn(40, 4, 5).half()), "x has dtype Half"),
        (dict(x=torch.ones(40, 4, 5, **INT)), "x has dtype Int"),
        (dict(eps=torch.zeros(2)), r"eps has shape \[2\]"),
        (dict(eps=torch.zeros(3, 1)), "eps has shape"),
        (dict(values=torch.zeros(249)), r"values has shape \[249\]"),
        (dict(values=torch.zeros(250), reduce="mean"), "values cannot go with reduce 'mean'"),
    ],
)
def test_aggregate_names_the_argument(case, changed, words):
    c = case(dtype=torch.float32)
    with pytest.raises((RuntimeError, TypeError), match=words):
        run(c, **changed)


@pytest.mark.parametrize("name", ["removed", "ptr", "eps", "values", "x"])
def test_operator_refuses_other_dtypes(case, name):
    c = case(dtype=torch.float32)
    arguments = dict(graph=c.graph.buffer_list, sizes=c.graph.sizes, x=c.x, removed=c.removed, ptr=c.ptr, values=c.values,
                     eps=c.eps)
    arguments[name] = arguments[name].to(torch.int64 if name in ("removed", "ptr") else torch.float16)
    with pytest.raises(RuntimeError, match=f"{name} has dtype"):
        torch.ops.lacuna.aggregate(**arguments)


def test_parameters_follow_x(case):
    c = case(dtype=torch.float64)
    with pytest.raises(RuntimeError, match="eps has dtype Float, but Double"):
        torch.ops.lacuna.aggregate(c.graph.buffer_list, c.graph.sizes, c.x, c.removed, c.ptr, eps=c.eps.float())


@pytest.mark.parametrize("name", ["graph", "removed", "ptr", "eps", "values"])
def test_meta_device_is_another_device(case, name):
    """The meta device stands in for a second one where there is no GPU."""
    c = case(dtype=torch.float32)
    arguments = dict(graph=c.graph, removed=c.removed, ptr=c.ptr, eps=c.eps, values=c.values)
    arguments[name] = arguments[name].to("meta")
    with pytest.raises(RuntimeError, match=f"{name} is on meta, but x is on cpu"):
        lacuna.aggregate(x=c.x, **arguments)


@pytest.mark.parametrize("name", ["graph", "x", "removed", "ptr", "eps", "values"])
def test_other_device(case, name):
    if not torch.cuda.is_available() or not lacuna.has_cuda():
        pytest.skip("no GPU is visible to torch")
    c = case(dtype=torch.float32, device="cuda")
    arguments = dict(graph=c.graph, x=c.x, removed=c.removed, ptr=c.ptr, eps=c.eps, values=c.values)
    arguments[name] = arguments[name].to("cpu")
    with pytest.raises(RuntimeError, match=" is on c.*, but x is on c"):
        lacuna.aggregate(**arguments)


def test_meta_functions_check_shapes_too(case):
    c = case(dtype=torch.float32)
    meta = [c.x.to("meta"), c.removed.to("meta"), c.ptr.to("meta")]
    graph = c.graph.to("meta")
    assert lacuna.aggregate(graph, *meta).shape == (3, 40, 4, 5)
    with pytest.raises(RuntimeError, match="x has shape"):
        lacuna.aggregate(graph, meta[0][1:], *meta[1:])


# ---- graphs
@pytest.mark.parametrize(
    "edges, words",
    [
        ({}, "edges is empty"),
        ({"a": torch.zeros(3, 4, dtype=torch.int64)}, r"edges\['a'\] has shape \[3, 4\]"),
        ({"a": torch.zeros(2, 4)}, r"edges\['a'\] has dtype"),
        ({"a": torch.tensor([[0], [1]]), "b": torch.tensor([[0, 5], [1, 1]])}, r"edges\['b'\] has node 5 at \[0, 1\]"),
        ({"a": torch.tensor([[0], [-1]])}, r"edges\['a'\] has node -1 at \[1, 0\]"),
        ({"a": torch.tensor([[0], [2**32 + 1]])}, r"edges\['a'\] has node 4294967297"),
    ],
)
def test_from_edges_names_type_and_edge(edges, words):
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        lacuna.Graph.from_edges(5, edges)


def test_from_edges_checks_counts_and_values():
    edges = {"a": torch.tensor([[0, 1], [1, 2]])}
    with pytest.raises(RuntimeError, match="num_nodes is 0"):
        lacuna.Graph.from_edges(0, edges)
    with pytest.raises(ValueError, match="values has types that edges has not: b"):
        lacuna.Graph.from_edges(5, edges, {"b": torch.ones(2)})
    with pytest.raises(ValueError, match=r"values\['a'\] has shape \[3\]"):
        lacuna.Graph.from_edges(5, edges, {"a": torch.ones(3)})


def test_foreign_bytes_are_not_a_graph(case):
    c = case(dtype=torch.float32)
    arguments = (c.graph.sizes, c.x, c.removed, c.ptr)
    with pytest.raises(RuntimeError, match="plan"):
        torch.ops.lacuna.aggregate([torch.zeros(4096, dtype=torch.uint8)], *arguments)
    with pytest.raises(RuntimeError, match="cut short"):
        torch.ops.lacuna.aggregate([c.graph.plan[:-64]], *arguments)
    with pytest.raises(RuntimeError, match="sizes"):
        torch.ops.lacuna.aggregate(c.graph.buffer_list, [40, 2, 160, 90], c.x, c.removed, c.ptr)
