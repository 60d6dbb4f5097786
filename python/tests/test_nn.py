"""lacuna.nn against the same models in plain PyTorch and PyG (bench/plain_models.py), and against the program."""

import contextlib
import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import lacuna

pytest.importorskip("pandas")
PyG = pytest.importorskip("torch_geometric")
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
plain_models = pytest.importorskip("plain_models")

SAMPLES = [[0, 1, 2], [5, 9], [7], [], [3, 3, 8], list(range(0, 40, 3)), list(range(40))]


def gin(**settings):
    return {"name": "hetero_gin", "width": 8, "layers": 2, "dropout": 0, **settings}


CASES = {
    **{merge: gin(merge=merge) for merge in ("sum", "mean", "attention", "pairwise")},
    "batch_graph": gin(norm="batch_graph", merge="pairwise"),
    "global": gin(output="global"),
    "local": gin(output="local"),
    "gate": gin(output="gate", layers=1),
    "beside": gin(features="beside"),
    "instead": gin(features="instead", metabolism=True),
    "metabolism": gin(metabolism=True, merge="attention", norm="batch_graph"),
    "dropout": gin(dropout=0.4),
    "dango": {"name": "dango", "width": 8, "zero_weight": 0.3},
    "mlp": {"name": "mlp", "width": 8, "dropout": 0},
    "values": gin(weights="values"),
    "normalised": gin(weights="normalised", local="wild_type"),
    "neighbours": gin(local="neighbours", output="local"),
    "wild_type": {"name": "wild_type", "width": 8, "dropout": 0},
    "wild_type-instead": {"name": "wild_type", "width": 8, "layers": 1, "dropout": 0, "weights": "none", "features":
                          "instead", "feature_names": ["x"]},
    "factors": {"name": "factors", "width": 8, "similar": 3},
    "factors-beside": {"name": "factors", "width": 8, "head_width": 0, "similar": 0, "weights": "none", "features": "beside"},
}


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    """A tiny synthetic screen with node features, two labels and a split."""
    folder = tmp_path_factory.mktemp("nn")
    tiny = lacuna.Screen.generate(folder / "tiny", seed=5)
    data = PyG.data.HeteroData()
    for node_type in ("gene", "reaction", "metabolite"):
        data[node_type].names = tiny.nodes(node_type)
    data["gene"].x = torch.from_numpy(np.random.default_rng(1).standard_normal((len(tiny.genes), 5)).astype(np.float32))
    for key, edges in tiny.edges().items():
        data[key].edge_index = torch.from_numpy(edges.astype(np.int64))
        for name, values in tiny.edge_values()[key].items():
            data[key][name] = torch.from_numpy(np.array(values))
    for number, key in enumerate(sorted(key for key in tiny.edges() if key[0] == key[2] == "gene")):
        if number > 0:  # the first network has no values
            weight = np.random.default_rng(number).uniform(0.1, 3, tiny.edges()[key].shape[1]).astype(np.float32)
            data[key].weight = torch.from_numpy(weight)
    table = tiny.to_pandas()[["removed", tiny.label_names[0]]].rename(columns={tiny.label_names[0]: "first"})
    table["second"] = table["first"] ** 2 + 3
    parts = ["train", "train", "train", "validation", "test"] * (len(tiny) // 5)
    return lacuna.Screen.write(folder / "screen", data, table, labels=["first", "second"], splits={"given": parts})


@contextlib.contextmanager
def in_f64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def plain_screen(screen, folder):
    np.save(folder / "features.npy", screen.features()["x"])
    values = {file.name.split(".")[1]: file for file in screen.path.glob("edges/gene.*.gene.weight.npy")}
    assert values
    return plain_models.Screen(screen.path, folder / "features.npy", values)


def moved(model):
    """Every weight away from its start, where biases are 0 and scales 1: a mistake in them shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def gradients(model, loss):
    return dict(zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters()))))


@pytest.mark.parametrize("name", CASES)
def test_predictions_and_gradients_are_the_oracles(screen, tmp_path, name):
    settings = CASES[name]
    with in_f64():
        model = moved(lacuna.nn.make_model(settings, lacuna.nn.GeneGraph.of(screen), labels=2).double())
        target = torch.randn(len(SAMPLES), 2)
        torch.manual_seed(7)
        ours = model(*lacuna.removed_lists(SAMPLES))
        ours_loss = model.total_loss((ours - target).square().mean(), epoch=3)
        torch.manual_seed(7)
        theirs, reconstruction = plain_models.predict(
            dict(model.named_parameters()), plain_screen(screen, tmp_path), settings, SAMPLES
        )
        share = 1 - 0.5 * 3 / 10 if settings["name"] == "dango" else 0
        theirs_loss = share * reconstruction + (1 - share) * (theirs - target).square().mean()
        if settings["name"] == "factors":
            theirs_loss = theirs_loss + reconstruction
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
        a, b = gradients(model, ours_loss), gradients(model, theirs_loss)
    largest = max(gradient.abs().max() for gradient in b.values())
    for parameter in b:
        torch.testing.assert_close(a[parameter], b[parameter], rtol=1e-9, atol=1e-9 * float(largest), msg=parameter)
    assert sum(bool(gradient.norm() > 1e-6 * largest) for gradient in b.values()) > len(b) / 2


CONFIG = """
screen: {screen}
split: given
model: {{{model}}}
train: {{epochs: 2, batch: 32, lr: {lr}, device: cpu, seed: 3, warmup_steps: 1, hide: {hide}}}
evaluate: {{baselines: false, bootstrap: 0, parts: [validation]}}
graph: {graph}
"""


def train(screen, folder, settings, lr="1e-2", graph="kept", hide=0):
    model = ", ".join(f"{key}: {str(value).lower()}" for key, value in settings.items())
    (folder / "config.yaml").write_text(CONFIG.format(screen=screen.path, model=model, lr=lr, graph=graph, hide=hide))
    return lacuna.Run.train(folder / "config.yaml", folder / "run")


def names_of(screen, samples):
    return [[screen.genes[gene] for gene in dict.fromkeys(sample)] for sample in samples]


def assert_predicts_as_the_program(run, model, names, checkpoint=None):
    said = run.predict(names, checkpoint)[model.label_names].to_numpy()
    ours = model.predict(*model.samples(names)).detach().numpy()
    assert np.abs(ours - said).max() <= 1e-6 * max(1, np.abs(said).max())
    assert np.ptp(said, axis=0).min() > 1e-5  # they do differ between samples


@pytest.mark.parametrize("name", CASES)
def test_a_run_opens_and_predicts_as_the_program(screen, tmp_path, name):
    run = train(screen, tmp_path, {**CASES[name], **({"dropout": 0.2} if name == "mlp" else {})})
    model = run.model()
    assert model.label_names == ["first", "second"] and not model.training
    names = names_of(screen, SAMPLES)
    assert_predicts_as_the_program(run, model, names)
    model.predict(*model.samples(names)).sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", ["sum", "wild_type", "factors", "dango", "mlp"])
def test_a_run_with_hidden_genes_opens_and_predicts_as_the_program(screen, tmp_path, name):
    run = train(screen, tmp_path, CASES[name], hide=0.4, lr="0.1")
    model = run.model()
    assert isinstance(model.hidden, lacuna.nn.HiddenGenes)
    assert "hidden.unknown" in model.state_dict() and model.hidden.unknown.norm() > 1e-3
    assert_predicts_as_the_program(run, model, names_of(screen, SAMPLES))
    rows = model.visible_rows()
    for gene, unseen in enumerate(model.hidden.unseen.flatten().tolist()):
        assert torch.equal(rows[gene], model.hidden.unknown if unseen else model.table[gene])
    model.train()
    hidden = (model.visible_rows() == model.hidden.unknown).all(1)
    assert hidden[model.hidden.unseen.flatten()].all() and 0 < hidden.sum() < len(hidden)


def test_the_graph_of_a_model_is_a_graph_with_the_screens_plan(screen):
    graph = lacuna.nn.GeneGraph.of(screen)
    assert isinstance(graph, lacuna.Graph) and graph.graph is graph
    assert graph.plan.data_ptr() == screen.graph.plan.data_ptr()  # made and held once
    removed, ptr = lacuna.removed_lists(SAMPLES)
    x = torch.randn(graph.num_nodes, len(SAMPLES), 4)
    expected = lacuna.aggregate(screen.graph, x, removed, ptr)
    model = lacuna.nn.make_model(CASES["normalised"], graph, labels=2)
    shuffled = lacuna.nn.GeneGraph.of(screen, {name: e.flip(0).numpy() for name, e in graph.edges.items()})
    for one in (model.graph, copy.deepcopy(model).graph, pickle.loads(pickle.dumps(model.graph))):
        assert torch.equal(lacuna.aggregate(one, x, removed, ptr), expected)  # edges count 1 unless a model asks for more
        assert torch.equal(one.weights("values"), graph.weights("values")) and one.genes == screen.genes
        assert torch.equal(one.chosen_features(["x"]), graph.features)
        assert one.metabolism is not None and one.without_genes.shape == graph.without_genes.shape
    assert not torch.equal(lacuna.aggregate(shuffled, x, removed, ptr), expected)
    assert lacuna.masks(model.graph, removed, ptr).shape == (len(SAMPLES), screen.graph.mask_stride)
    arrived = {name: torch.full([index.shape[1]], 2.0) for name, index in graph.edges.items()}
    twice = lacuna.nn.GeneGraph.from_edges(graph.num_genes, graph.edges, arrived)
    torch.testing.assert_close(lacuna.aggregate(twice, x, removed, ptr), 2 * expected)
    torch.testing.assert_close(lacuna.aggregate(copy.deepcopy(twice), x, removed, ptr), 2 * expected)


def test_features_are_chosen_by_name(screen):
    graph = lacuna.nn.GeneGraph.of(screen)
    assert torch.equal(graph.chosen_features(), torch.from_numpy(np.array(screen.features()["x"])))
    assert torch.equal(graph.chosen_features(["x", "x"]), torch.cat([graph.features] * 2, 1))
    with pytest.raises(ValueError, match="no feature 'y'; the genes have: x"):
        graph.chosen_features(["y"])
    assert isinstance(lacuna.nn.make_model(CASES["wild_type-instead"], graph, labels=2), lacuna.nn.WildType)
    assert isinstance(lacuna.nn.make_model(CASES["factors-beside"], graph, labels=2), lacuna.nn.Factors)


def test_factors_hear_the_likest_genes_that_training_saw(screen):
    graph = lacuna.nn.GeneGraph.of(screen)
    model = lacuna.nn.make_model({"name": "factors", "width": 4, "similar": 2, "weights": "values"}, graph, labels=1)
    assert model.networks() is model.networks() and len(model.networks().types) == 2 * graph.num_types
    unseen = list(range(0, graph.num_genes, 7))
    model.hide_genes(unseen)
    nobody, each = lacuna.removed_lists([[]]), torch.eye(graph.num_genes).unsqueeze(1)
    heard = lacuna.aggregate(model.networks(), each, *nobody, values=False).squeeze(2)  # [2 G, target, source]
    weights = graph.weights("values").split([index.shape[1] for index in graph.edges.values()])
    for place, (name, index) in enumerate(graph.edges.items()):
        incoming = np.zeros([graph.num_genes] * 2)  # [target, source]
        np.add.at(incoming, (index[1].numpy(), index[0].numpy()), weights[place].numpy())
        sizes = np.linalg.norm(incoming, axis=1)
        alike = incoming @ incoming.T / np.maximum(np.outer(sizes, sizes), 1e-30)
        np.fill_diagonal(alike, 0)
        alike[:, unseen] = 0
        best = np.argsort(-alike, axis=1, kind="stable")[:, :2]
        expected = {(int(x), v) for v in range(graph.num_genes) for x in best[v] if alike[v, x] > 0}
        expected |= {(v, x) for x, v in expected if v not in unseen}
        found = {(x, v) for v, x in heard[graph.num_types + place].nonzero().tolist()}
        assert found == expected and expected, name


def test_a_pair_head_adds_offsets_and_the_mean_of_pairs(seed):
    torch.manual_seed(seed)
    head, rows = moved(lacuna.nn.PairHead(6, 2)), torch.randn(1, 3, 6)

    def score(*genes):  # of one sample that removes these rows; -1: none
        return head(rows[:, list(genes)], torch.tensor([genes]))[0]

    one, two, three = (score(gene) for gene in range(3))
    pairs = [score(0, 1) - one - two, score(0, 2) - one - three, score(1, 2) - two - three]
    torch.testing.assert_close(score(0, 1, 2), one + two + three + sum(pairs) / 3)
    torch.testing.assert_close(score(2, 0, 1), score(0, 1, 2))
    torch.testing.assert_close(head(rows, torch.tensor([[0, 1, -1]]))[0], score(0, 1))
    assert not head(rows, torch.tensor([[-1, -1, -1]])).any() and pairs[0].abs().min() > 1e-6


def test_a_product_head_adds_offsets_products_and_the_mean_of_pairs(seed):
    torch.manual_seed(seed)
    head, rows = moved(lacuna.nn.ProductHead(4, 3, 2)), torch.randn(1, 3, 6)

    def score(*genes):
        return head(rows[:, list(genes)], torch.tensor([genes]))[0] - head.bias

    torch.testing.assert_close(score(1), rows[0, 1, 4:])  # its offsets alone
    pairs = [score(a, b) - score(a) - score(b) for a, b in ((0, 1), (0, 2), (1, 2))]
    torch.testing.assert_close(score(0, 1, 2), sum(score(gene) for gene in range(3)) + sum(pairs) / 3)
    torch.testing.assert_close(score(2, 0, 1), score(0, 1, 2))
    assert torch.equal(head(rows, torch.tensor([[-1, -1, -1]]))[0], head.bias) and pairs[0].abs().min() > 1e-6
    alone = lacuna.nn.ProductHead(4, 0, 1)
    a, b = rows[0, 0], rows[0, 1]
    expected = a[4] + b[4] + a[0] * b[0] - a[1] * b[1] + a[2] * b[2] - a[3] * b[3]
    torch.testing.assert_close(alone(rows[:, :2, :5], torch.tensor([[0, 1]]))[0, 0], expected)


def test_a_model_without_rows_hides_none(screen):
    model = lacuna.nn.make_model(CASES["instead"], lacuna.nn.GeneGraph.of(screen), labels=2)
    with pytest.raises(ValueError, match="no row of a gene"):
        model.hide_genes([1])


@pytest.mark.parametrize("name", ["dango", "instead", "mlp", "gate", "normalised", "wild_type-instead", "factors", "factors-beside"])
def test_the_same_seed_starts_from_the_programs_weights(screen, tmp_path, name):
    run = train(screen, tmp_path, CASES[name], lr="0")
    weights = lacuna.nn.load_checkpoint(run.checkpoint("last")).weights
    model = lacuna.nn.make_model(CASES[name], lacuna.nn.GeneGraph.of(screen), labels=2, seed=3)
    assert {key: value.shape for key, value in model.state_dict().items()} == {k: v.shape for k, v in weights.items()}
    for key, value in model.state_dict().items():
        assert torch.equal(value, weights[key]), key


def test_weights_go_back_to_the_program(screen, tmp_path):
    run = train(screen, tmp_path, CASES["mean"])
    model, before = run.model("last"), run.model("last")
    moved(model)
    lacuna.nn.save_checkpoint(model, run.checkpoint("last"))
    names = names_of(screen, SAMPLES)
    assert_predicts_as_the_program(run, run.model("last"), names, "last")
    assert_predicts_as_the_program(run, model, names, "last")
    assert not torch.allclose(before.predict(*before.samples(names)), model.predict(*model.samples(names)), atol=1e-3)
    other = lacuna.nn.make_model(gin(merge="attention"), lacuna.nn.GeneGraph.of(screen), labels=2)
    with pytest.raises(lacuna.Error, match="merge.position.*other model settings"):
        lacuna.nn.save_checkpoint(other, run.checkpoint("last"))
    with pytest.raises(lacuna.UsageError, match="no .*new.safetensors"):
        lacuna.nn.save_checkpoint(model, tmp_path / "new.safetensors")


def test_a_shuffled_graph_is_that_of_the_run(screen, tmp_path):
    run = train(screen, tmp_path, CASES["sum"], graph="shuffled")
    model = run.model()
    kept = lacuna.nn.GeneGraph.of(screen)
    assert any(not torch.equal(kept.edges[name], edges) for name, edges in model.graph.edges.items())
    assert_predicts_as_the_program(run, model, names_of(screen, SAMPLES))


def test_what_does_not_belong_is_refused(screen, tmp_path):
    run = train(screen, tmp_path, CASES["mlp"])
    other = lacuna.Screen.generate(tmp_path / "other", seed=8)
    with pytest.raises(lacuna.Error, match="another graph: .*edges gene"):
        run.model(screen=other)
    with pytest.raises(lacuna.Error, match="no checkpoint 'best'.*last"):
        run.model("best")
    with pytest.raises(ValueError, match="no gene 'nobody'"):
        run.model().samples([["nobody"]])
    file = run.checkpoint("last")
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    with pytest.raises(lacuna.Error, match="last.safetensors is damaged"):
        run.model("last")
    graph = lacuna.nn.GeneGraph(4, {"a": torch.tensor([[0], [1]])})
    for wrong in ({"merge": "max"}, {"norm": "none"}, {"output": "all"}, {"features": "beside"}, {"metabolism": True},
                  {"local": "all"}, {"weights": "all"}, {"weights": "values"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            lacuna.nn.HeteroGin(graph, width=8, **wrong)


def test_gene_sets_are_sorted_and_without_repeats(seed):
    rng = np.random.default_rng(seed)
    samples = [rng.integers(0, 9, rng.integers(0, 6)).tolist() for _ in range(50)]
    removed, ptr = lacuna.removed_lists(samples)
    removed = torch.cat([removed, torch.tensor([3, 4], dtype=torch.int32)])  # what is behind ptr is not read
    rows = [[gene for gene in row if gene >= 0] for row in lacuna.nn.gene_sets(removed, ptr).tolist()]
    assert rows == [sorted(set(sample)) for sample in samples]
    assert lacuna.nn.gene_sets(*lacuna.removed_lists([[]])).tolist() == [[-1]]


# ---- layers on their own, one sample at a time on its explicit subgraph
def of_subgraph(case, b, edges):
    return PyG.utils.subgraph(case.keep(b), edges, num_nodes=case.nodes)[0]


def test_sage_is_that_of_pyg(case):
    one = case(edges=(160, 90), width=6)
    layer = lacuna.nn.SAGE(2, 6, 4).double()
    own = torch.randn(2, one.nodes, one.batch, 6, dtype=torch.float64)
    shared, of_own = layer(one.graph, one.x, one.removed, one.ptr), layer(one.graph, own, one.removed, one.ptr)
    assert shared.shape == of_own.shape == (2, one.nodes, one.batch, 4)
    for t, edges in enumerate(one.edges.values()):
        pyg = PyG.nn.SAGEConv(6, 4).double()
        pyg.load_state_dict({"lin_l.weight": layer.left.weight[t].T, "lin_l.bias": layer.left.bias[t, 0],
                             "lin_r.weight": layer.right[t].T})  # fmt: skip
        for b in range(one.batch):
            kept = of_subgraph(one, b, edges)
            torch.testing.assert_close(shared[t, :, b], pyg(one.x[:, b], kept))
            torch.testing.assert_close(of_own[t, :, b], pyg(own[t, :, b], kept))


def test_gcn_and_gin_are_those_of_pyg(case):
    one = case(edges=(160, 90), width=6)
    gcn, gin_layer = lacuna.nn.GCN(2, 6, 3).double(), moved(lacuna.nn.GIN(2, 6).double())
    found = gcn(one.graph, one.x, one.removed, one.ptr)
    of_gin = gin_layer(one.graph, one.x, one.removed, one.ptr)
    x = one.x[:, 0].contiguous()
    of_shared = gin_layer(one.graph, x, one.removed, one.ptr)
    assert found.shape == (2, one.nodes, one.batch, 3) and of_gin.shape == (2, one.nodes, one.batch, 6)
    for t, edges in enumerate(one.edges.values()):
        pyg = PyG.nn.GCNConv(6, 3, add_self_loops=False).double()
        pyg.load_state_dict({"lin.weight": gcn.dense.weight[t].T, "bias": gcn.dense.bias[t, 0]})
        w = plain_models.Weights(dict(gin_layer.mlp.named_parameters()))
        conv = PyG.nn.GINConv(lambda u: plain_models.network_mlp(w, t, "layer", u))
        conv.eps = gin_layer.eps[t].detach()  # the constructor's is rounded to f32
        for b in range(one.batch):
            kept = of_subgraph(one, b, edges)
            torch.testing.assert_close(found[t, :, b], pyg(one.x[:, b], kept))
            torch.testing.assert_close(of_gin[t, :, b], conv(one.x[:, b], kept))
            torch.testing.assert_close(of_shared[t, :, b], conv(x, kept))


def test_pairwise_in_blocks_gives_the_same(monkeypatch):
    merge = moved(lacuna.nn.PairwiseMerge(3, 8).double())
    y = torch.randn(3, 20, 8, dtype=torch.float64, requires_grad=True)
    whole = merge(y)
    (expected,) = torch.autograd.grad(whole.square().sum(), y)
    monkeypatch.setattr("lacuna.nn.merges._ROWS", 7)
    blocks = merge(y)
    (found,) = torch.autograd.grad(blocks.square().sum(), y)
    torch.testing.assert_close(blocks, whole)
    torch.testing.assert_close(found, expected)
