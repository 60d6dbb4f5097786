"""lacuna.Graph: what it keeps, and how it moves."""

import copy

import pytest
import torch
from torch_geometric.data import HeteroData

import lacuna


def test_from_edges_keeps_order_and_counts(case):
    c = case()
    assert c.graph.num_nodes == 40
    assert c.graph.types == ("type0", "type1", "type2")
    assert c.graph.num_edges == {"type0": 160, "type1": 90, "type2": 0}
    assert c.graph.sizes == [40, 3, 160, 90, 0]
    assert "40 nodes" in repr(c.graph) and "type0: 160" in repr(c.graph)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_edge_index_of_any_integer_type(case, dtype):
    c = case()
    graph = lacuna.Graph.from_edges(c.nodes, {name: index.to(dtype) for name, index in c.edges.items()})
    assert torch.equal(graph.plan, c.graph.plan)


def test_from_edges_takes_numpy_and_lists():
    graph = lacuna.Graph.from_edges(3, {"a": [[0, 1], [1, 2]]})
    other = lacuna.Graph.from_edges(3, {"a": torch.tensor([[0, 1], [1, 2]]).numpy()})
    assert torch.equal(graph.plan, other.plan)


def test_from_hetero_data(case):
    c = case(dtype=torch.float32)
    data = HeteroData()
    data["gene"].num_nodes = c.nodes
    data["reaction"].num_nodes = 4
    for name, index in c.edges.items():
        data["gene", name, "gene"].edge_index = index
    data["gene", "in", "reaction"].edge_index = torch.tensor([[0, 1], [0, 3]])
    graph = lacuna.Graph.from_hetero_data(data)
    assert graph.types == c.graph.types and torch.equal(graph.plan, c.graph.plan) and graph.values is None

    weight = torch.randn(90)
    data["gene", "type1", "gene"].edge_weight = weight
    graph = lacuna.Graph.from_hetero_data(data, value="edge_weight")
    assert torch.equal(graph.values, torch.cat([torch.ones(160), weight]))
    with pytest.raises(ValueError, match="node_type 'protein' is not in data; it has gene, reaction"):
        lacuna.Graph.from_hetero_data(data, "protein")
    with pytest.raises(ValueError, match="no edges between nodes of type 'reaction'"):
        lacuna.Graph.from_hetero_data(data, "reaction")
    with pytest.raises(ValueError, match="value 'flux'"):
        lacuna.Graph.from_hetero_data(data, value="flux")


def test_own_values_are_the_default(case):
    c = case(dtype=torch.float32)
    values = {name: torch.randn(index.size(1)) for name, index in c.edges.items()}
    graph = lacuna.Graph.from_edges(c.nodes, c.edges, values)
    all_values = torch.cat(list(values.values()))
    weighted = lacuna.aggregate(c.graph, c.x, c.removed, c.ptr, values=all_values)
    assert torch.equal(lacuna.aggregate(graph, c.x, c.removed, c.ptr), weighted)
    assert torch.equal(lacuna.aggregate(graph, c.x, c.removed, c.ptr, values=False),
                       lacuna.aggregate(c.graph, c.x, c.removed, c.ptr))
    with pytest.raises(RuntimeError, match="values cannot go with reduce 'mean'"):
        lacuna.aggregate(graph, c.x, c.removed, c.ptr, "mean")
    lacuna.aggregate(graph, c.x, c.removed, c.ptr, "mean", values=False)


def test_graph_follows_its_model_and_stays_out_of_checkpoints(case, device):
    c = case(dtype=torch.float32)
    model = torch.nn.Module()
    model.graph = c.graph
    model.linear = torch.nn.Linear(5, 5)
    assert list(model.state_dict()) == ["linear.weight", "linear.bias"]
    assert len(list(model.parameters())) == 2
    model.to(device)
    assert model.graph.device.type == device.type
    for graph in (model.graph, copy.deepcopy(model.graph), model.graph.half()):
        out = lacuna.aggregate(graph, c.x.to(device), c.removed.to(device), c.ptr.to(device))
        assert out.device.type == device.type
        assert torch.equal(out.cpu(), lacuna.aggregate(case_on_cpu(c), c.x, c.removed, c.ptr)) or device.type == "cuda"


def case_on_cpu(c):
    return lacuna.Graph.from_edges(c.nodes, c.edges)


def test_removed_lists():
    removed, ptr = lacuna.removed_lists([[3], (1, 4), [], torch.tensor([2])])
    assert removed.dtype == ptr.dtype == torch.int32
    assert removed.tolist() == [3, 1, 4, 2] and ptr.tolist() == [0, 1, 3, 3, 4]
    removed, ptr = lacuna.removed_lists([])
    assert removed.tolist() == [] and ptr.tolist() == [0]
