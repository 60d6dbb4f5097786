"""The pieces of lacuna.nn, one by one, against loops and torch's own functions; in f64, with weights away from their start."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import lacuna

nn = lacuna.nn
G, ROWS, H = 3, 7, 8


def moved(module):
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_linears(seed):
    dense, x = moved(nn.Dense(4, 6)), random(2, 5, 4)
    close(dense(x), F.linear(x, dense.weight.t(), dense.bias))
    assert nn.Dense(400, 300, std=0.02).weight.std() < 0.03 < nn.Dense(400, 300).weight.std()
    many, x = moved(nn.GraphDense(G, 4, 6)), random(G, ROWS, 4)
    for g in range(G):
        close(many(x)[g], F.linear(x[g], many.weight[g].t(), many.bias[g, 0]))
    assert repr(dense) == "Dense(4, 6)" and repr(many) == "GraphDense(3, 4, 6)"


@pytest.mark.parametrize("graphs", [0, G])
def test_norms(graphs, seed):
    x = random(*([G] if graphs else []), ROWS, H)
    layer = moved(nn.Norm("layer", H, graphs))
    close(layer(x), F.layer_norm(x, [H]) * layer.weight + layer.bias)
    whole = moved(nn.Norm("batch_graph", H, graphs))
    for g in range(max(1, graphs)):
        block, weight, bias = (t[g] if graphs else t for t in (x, whole.weight, whole.bias))
        expected = (block - block.mean()) / (block.std(correction=0) + 1e-5) * weight + bias
        close(whole(x)[g] if graphs else whole(x), expected)
    with pytest.raises(ValueError, match="layer or batch_graph"):
        nn.Norm("batch", H)


def test_the_mlp_of_a_layer(seed):
    mlp, u = moved(nn.GraphMlp(G, H)), random(G, ROWS, H)
    for g in range(G):
        v = u[g]
        for number in range(4):
            dense = getattr(mlp, f"dense{number}")
            v = (F.gelu(v) if number else v) @ dense.weight[g] + dense.bias[g]
        close(mlp(u)[g], F.gelu(F.layer_norm(v, [H]) * mlp.norm.weight[g] + mlp.norm.bias[g]))


def test_attention_of_a_set(seed):
    q, k, v = (random(5, 4, H) for _ in range(3))
    split = [x.unflatten(-1, (2, H // 2)).transpose(1, 2) for x in (q, k, v)]
    close(nn.attend(q, k, v, heads=2), F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))
    blocked = torch.eye(4, dtype=torch.bool).expand(5, 4, 4).clone()
    seen = F.scaled_dot_product_attention(*split, attn_mask=~blocked.unsqueeze(1)).transpose(1, 2).flatten(2)
    close(nn.attend(q, k, v, heads=2, blocked=blocked), seen)
    blocked[:, 1] = True  # sees nobody
    assert nn.attend(q, k, v, heads=2, blocked=blocked)[:, 1].eq(0).all()


def test_merges(seed):
    y = random(G, ROWS, H)
    close(nn.SumMerge()(y), y[0] + y[1] + y[2])
    close(nn.MeanMerge()(y), (y[0] + y[1] + y[2]) / 3)
    attention = moved(nn.AttentionMerge(G, H))
    for row in range(ROWS):
        tokens = y[:, row] + attention.position
        states = nn.attend(attention.query(tokens), attention.key(tokens), attention.value(tokens), heads=4)
        close(attention(y)[row], attention.out(states).mean(0))
    pairwise = moved(nn.PairwiseMerge(G, H))
    for row in range(ROWS):
        options = [
            F.gelu(torch.cat([y[i, row], y[j, row]]) @ pairwise.hidden.weight[p] + pairwise.hidden.bias[p, 0])
            @ pairwise.out.weight[p] + pairwise.out.bias[p, 0]
            for p, (i, j) in enumerate(itertools.combinations_with_replacement(range(G), 2))
        ]  # fmt: skip
        options = torch.stack([*options, y[:, row].mean(0)])
        scores = pairwise.score(F.gelu(pairwise.score_hidden(options)))
        close(pairwise(y)[row], pairwise.norm((options * scores.softmax(0)).sum(0)))
    kinds = {"sum": nn.SumMerge, "mean": nn.MeanMerge, "attention": nn.AttentionMerge, "pairwise": nn.PairwiseMerge}
    assert all(type(nn.make_merge(name, G, H)) is kind for name, kind in kinds.items())
    with pytest.raises(ValueError, match="sum, mean, attention or pairwise"):
        nn.make_merge("max", G, H)
    with pytest.raises(ValueError, match="multiple of 4"):
        nn.AttentionMerge(G, 6)


def test_pool_and_heads(seed):
    x, keep = random(ROWS, 3, H), torch.rand(ROWS, 3) < 0.7
    keep[:, 2] = False  # a sample without genes
    pool = moved(nn.Pool(H))
    for b in range(2):
        kept = x[keep[:, b], b]
        weights = pool.gate(F.gelu(pool.gate_hidden(kept))).softmax(0)
        close(pool(x, keep)[b], (weights * F.gelu(pool.value(kept))).sum(0))
    assert pool(x, keep)[2].eq(0).all()
    head, difference = moved(nn.GlobalHead(H, 2)), random(4, H)
    close(head(difference), head.score(F.gelu(head.hidden(difference))))
    local, genes = moved(nn.LocalHead(H, 4, 2)), random(10, H)
    sets = torch.tensor([[1, 4, 9], [2, 5, -1], [3, -1, -1], [-1, -1, -1]])
    together = local(genes, sets)
    for b, members in enumerate(([1, 4, 9], [2, 5])):  # a sample does not see the width of its batch
        close(together[b : b + 1], local(genes, torch.tensor([members])))
    close(together[2], local.score.bias)  # alone: nothing changes, the score of 0
    assert together[3].eq(0).all()
    with pytest.raises(ValueError, match="multiple"):
        nn.LocalHead(H, 3, 1)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return nn.GeneGraph.of(lacuna.Screen.generate(tmp_path_factory.mktemp("pieces") / "s", seed=2))


def test_states_and_pools_of_hetero_gin(graph, seed):
    model = moved(nn.HeteroGin(graph, 2, width=H, layers=1, output="global", dropout=0.5)).eval()
    removed, ptr = lacuna.removed_lists([[1, 2], []])
    states = model.states(removed, ptr)
    assert states.shape == (graph.num_genes, 3, H) and model.preprocess().shape == (graph.num_genes, H)
    close(states[:, 1], states[:, 2])  # a sample that removes nobody is the wild type
    pooled = model.pooled(states, nn.gene_sets(removed, ptr))
    close(model(removed, ptr), model.get_submodule("global")(pooled[-1] - pooled[:-1]))
    assert graph.num_types == len(graph.types) and graph.graph is graph
    with pytest.raises(ValueError, match="average, gate, global or local"):
        nn.HeteroGin(graph, output="both")


def test_reconstruction_of_dango(graph, seed):
    model = moved(nn.Dango(graph, width=H, zero_weight=0.2))
    h = model.embed()
    assert h.shape == (graph.num_types, graph.num_genes, H) and model.meta(h).shape == (graph.num_genes, H)
    total = 0
    for t, edges in enumerate(graph.edges.values()):
        adjacency = torch.zeros(graph.num_genes, graph.num_genes, dtype=torch.float64)
        adjacency[edges[1], edges[0]] = 1  # row v: the sources of its edges
        error = (h[t] @ model.rows.weight[t] + model.rows.bias[t] - adjacency).square()
        total = total + (error * (0.2 + 0.8 * adjacency)).mean() / graph.num_types
    close(model.reconstruction(h), total)
    with pytest.raises(RuntimeError, match="call the model first"):
        nn.Dango(graph, width=H).total_loss(torch.zeros(()))


def test_the_mlp_adds_what_is_removed(graph, seed):
    model = moved(nn.GeneMlp(graph, width=H)).eval()
    assert isinstance(model, nn.Model)
    out = model(*lacuna.removed_lists([[3, 1, 3], [1, 3], []]))
    x = model.table[1] + model.table[3]
    expected = model.score(F.gelu(model.second(F.gelu(model.first(x)))))
    close(out[0], expected)
    close(out[1], expected)
    close(model.predict(*lacuna.removed_lists([[1, 3]]))[0], expected)  # no scale yet


def test_a_checkpoint_fits_its_model(tmp_path):
    screen = lacuna.Screen.generate(tmp_path / "s", seed=3)
    screen.make_split("random")
    config = tmp_path / "config.yaml"
    config.write_text(f"screen: {screen.path}\nmodel: {{name: mlp, width: 4}}\n"
                      "train: {epochs: 1, device: cpu}\nevaluate: {baselines: false, bootstrap: 0}\n")
    run = lacuna.Run.train(config, tmp_path / "run", show=False)
    checkpoint = nn.load_checkpoint(run.checkpoint("last"))
    assert isinstance(checkpoint, nn.Checkpoint) and "mlp" in repr(checkpoint)
    model = nn.GeneMlp(nn.GeneGraph.of(screen), width=4)
    checkpoint.load_into(model)
    assert torch.equal(model.table, run.model("last").table) and model.label_names == screen.label_names
    with pytest.raises(lacuna.Error, match="has shape"):
        checkpoint.load_into(nn.GeneMlp(nn.GeneGraph.of(screen), width=5))
    checkpoint.check_graph(checkpoint.fingerprint, "here")
    with pytest.raises(lacuna.Error, match="genes differ from those of elsewhere"):
        checkpoint.check_graph({**checkpoint.fingerprint, "genes": "0"}, "elsewhere")
