"""The models of lacuna/nn once more, the slow and obvious way: plain PyTorch and PyG, f64, no line shared with Lacuna.

Written from the description of the models, not from the C++ code. Every sample gets a copy of the whole graph of its
own, with the edges that a boolean mask keeps; every pair and every place of an adjacency is formed. What travels between
the two is weights by name; a Linear's weight stands as [in, out], and weights of several graphs in one tensor with the
graph in front. tests/test_oracle.py and bench/plain_predictions.py compare with it.

    predict(weights, screen, settings, removed) -> [B, L], what else is minimised
"""

import functools
import json
import pathlib

import numpy
import torch
import torch.nn.functional as F
from torch_geometric.nn import LayerNorm, SimpleConv
from torch_geometric.utils import scatter, softmax, subgraph

DROPOUT_SEED = 11  # set before every forward pass, here and in probe.cpp


# ---- the screen
class Screen:
    """A screen's graph, read from its files with numpy."""

    def __init__(self, path, features=None, values=None):
        """values: by network the .npy file of what its edges count; those that are not named count 1."""
        path = pathlib.Path(path)
        self.genes = len((path / "nodes/gene.txt").read_text().splitlines())
        names = sorted(file.name.split(".")[1] for file in (path / "edges").glob("gene.*.gene.npy"))
        self.networks = [self.edges(path, f"gene.{name}.gene") for name in names]  # alphabetical
        self.values = [
            torch.from_numpy(numpy.load((values or {})[name])).double()
            if name in (values or {}) else torch.ones(edges.shape[1]).double()
            for name, edges in zip(names, self.networks)
        ]  # [E] each
        self.features = None if features is None else torch.from_numpy(numpy.load(features)).double()  # [N, d]
        self.reactions = self.metabolites = 0
        self.rules = self.stoichiometry = torch.zeros(2, 0, dtype=torch.int64)
        self.coefficients = torch.zeros(0, 1).double()  # [E, 1]
        if not (path / "nodes/reaction.txt").exists():
            return
        self.reactions = len((path / "nodes/reaction.txt").read_text().splitlines())
        self.metabolites = len((path / "nodes/metabolite.txt").read_text().splitlines())
        self.rules = self.edges(path, "gene.rule.reaction")
        self.stoichiometry = self.edges(path, "reaction.stoichiometry.metabolite")
        values = numpy.load(path / "edges/reaction.stoichiometry.metabolite.coefficient.npy")
        self.coefficients = torch.from_numpy(values).double()[:, None]

    @staticmethod
    def edges(path, key):
        return torch.from_numpy(numpy.load(path / f"edges/{key}.npy").astype(numpy.int64))  # [2, E]


    def weights(self, kind):
        """[E] of each network, f32 numbers as the values are."""
        if kind == "none":
            return [torch.ones_like(values) for values in self.values]
        if kind == "values":
            return self.values
        result = []
        for (sources, targets), values in zip(self.networks, self.values):
            leaves = [values[sources == gene].abs().sum() for gene in range(self.genes)]
            arrives = [values[targets == gene].abs().sum() for gene in range(self.genes)]
            scale = [(leaves[u] * arrives[v]).sqrt() for u, v in zip(sources, targets)]
            normalised = [value / s if s > 0 else value for value, s in zip(values, scale)]
            result.append(torch.stack(normalised).float().double() if normalised else values)
        return result


class Copies:
    """A perturbed copy of the graph for each sample, side by side: row b * N + g is gene g of sample b."""

    def __init__(self, screen, removed, weights="none"):
        self.count = len(removed)
        self.keep = torch.ones(self.count, screen.genes, dtype=torch.bool)  # [B, N]
        for keep, genes in zip(self.keep, removed):
            keep[list(genes)] = False
        self.networks, self.weights = [], []
        for edges, values in zip(screen.networks, screen.weights(weights)):
            kept = [subgraph(keep, edges, values, num_nodes=screen.genes) for keep in self.keep]
            self.networks.append(torch.cat([edges + b * screen.genes for b, (edges, _) in enumerate(kept)], 1))
            self.weights.append(torch.cat([values for _, values in kept]))
        # A reaction is on where all of its genes are kept; its edges go with it.
        rules, stoichiometry, coefficients, self.on = [], [], [], []
        for b, keep in enumerate(self.keep):
            on = torch.ones(screen.reactions, dtype=torch.bool)
            for gene, reaction in screen.rules.T.tolist():
                on[reaction] &= keep[gene]
            shift = torch.tensor([[screen.genes], [screen.reactions]]) * b
            rules.append(screen.rules[:, on[screen.rules[1]]] + shift)
            shift = torch.tensor([[screen.reactions], [screen.metabolites]]) * b
            stays = on[screen.stoichiometry[0]]
            stoichiometry.append(screen.stoichiometry[:, stays] + shift)
            coefficients.append(screen.coefficients[stays])
            self.on.append(on)
        self.rules, self.stoichiometry = torch.cat(rules, 1), torch.cat(stoichiometry, 1)
        self.coefficients, self.on = torch.cat(coefficients), torch.cat(self.on)  # [E, 1], [B * R]


copies_of = functools.cache(Copies)  # training asks for the same ones at every step


# ---- pieces
class Weights:
    """The weights whose names start with `prefix`."""

    def __init__(self, values, prefix=""):
        self.values, self.prefix = values, prefix

    def at(self, name):
        return Weights(self.values, f"{self.prefix}{name}.")

    def __getitem__(self, name):
        return self.values[self.prefix + name]

    def linear(self, name, x):
        return x @ self[f"{name}.weight"] + self[f"{name}.bias"]

    def linear_of(self, name, graph, x):
        """That of one of several graphs."""
        return x @ self[f"{name}.weight"][graph] + self[f"{name}.bias"][graph, 0]


def normalise(kind, x, weight, bias):
    """x [rows, H]"""
    if kind == "layer":
        return F.layer_norm(x, x.shape[-1:], weight, bias)
    return LayerNorm(x.shape[-1], affine=False, mode="graph")(x) * weight + bias


def network_mlp(w, graph, kind, x):
    """Four Linears with GELU between, norm, GELU."""
    for i in range(4):
        x = w.linear_of(f"dense{i}", graph, F.gelu(x) if i else x)
    return F.gelu(normalise(kind, x, w["norm.weight"][graph, 0], w["norm.bias"][graph, 0]))


def attention(w, x, heads, blocked=None):
    """Multi-head self-attention by PyTorch's own; x [tokens, rows, H]"""
    parts = ("query", "key", "value")
    return F.multi_head_attention_forward(
        x, x, x, x.shape[2], heads,
        torch.cat([w[f"{part}.weight"].T for part in parts]), torch.cat([w[f"{part}.bias"] for part in parts]),
        None, None, False, 0.0, w["out.weight"].T, w["out.bias"], need_weights=False, attn_mask=blocked,
    )[0]  # fmt: skip


# ---- HeteroGin
def merge(w, kind, norm, y):
    """y: a list of [rows, H]"""
    if kind == "sum":
        return sum(y)
    if kind == "mean":
        return sum(y) / len(y)
    if kind == "attention":
        return attention(w, torch.stack(y) + w["position"][:, None], heads=4).mean(0)
    options = []
    for i in range(len(y)):
        for j in range(i, len(y)):
            hidden = F.gelu(w.linear_of("hidden", len(options), torch.cat([y[i], y[j]], 1)))
            options.append(w.linear_of("out", len(options), hidden))
    options = torch.stack([*options, sum(y) / len(y)])  # [options, rows, H]
    scores = w.linear("score", F.gelu(w.linear("score_hidden", options)))
    return normalise(norm, (options * scores.softmax(0)).sum(0), w["norm.weight"], w["norm.bias"])


def metabolism(w, norm, screen, copies, x):
    """x [B * N, H] -> [B * N, H]"""
    reactions, metabolites = copies.count * screen.reactions, copies.count * screen.metabolites
    gene, of_gene = copies.rules
    reaction, metabolite = copies.stoichiometry
    r = scatter(x[gene], of_gene, dim_size=reactions, reduce="mean")
    has_genes = torch.zeros(screen.reactions, dtype=torch.bool)
    has_genes[screen.rules[1]] = True
    r = torch.where(has_genes.repeat(copies.count)[:, None], r, w["start"])
    r = r * copies.on[:, None]
    sent = copies.coefficients * w.linear("to_metabolite", r)[reaction]
    m = scatter(sent, metabolite, dim_size=metabolites, reduce="sum")
    heard = scatter(copies.coefficients * m[metabolite], reaction, dim_size=reactions, reduce="sum")
    after = F.gelu(w.linear("back", torch.cat([r, heard], 1)))
    y = scatter(after[of_gene], gene, dim_size=len(x), reduce="mean")
    return network_mlp(w.at("mlp"), 0, norm, y)


def visible_rows(w, settings):
    """The learned rows, those of hidden genes replaced."""
    hidden = settings.get("hidden")
    return w["table"] if hidden is None else torch.stack(
        [w["hidden.unknown"] if is_hidden else row for is_hidden, row in zip(hidden, w["table"])])


def preprocess(w, screen, settings):
    """[N, H]"""
    features = settings["features"]
    x = torch.zeros(()) if features == "instead" else visible_rows(w, settings)
    if features != "none":
        x = x + w.linear("from_features", screen.features)
    for block in ("pre0", "pre1"):
        x = normalise(settings["norm"], w.linear(block, x), w["pre_norm.weight"], w["pre_norm.bias"])
        x = F.dropout(F.gelu(x), settings["dropout"])
    return x


def encode(w, screen, settings, copies, x):
    """x [N, H], the preprocessed rows -> [B * N, H]"""
    norm = settings["norm"]
    x = x.repeat(copies.count, 1)
    neighbours = SimpleConv(aggr="sum")
    for i in range(settings["layers"]):
        layer = w.at(f"layer{i}")
        y = []
        for g, (edges, weights) in enumerate(zip(copies.networks, copies.weights)):
            u = neighbours(x, edges, weights) + (1 + layer["eps"][g]) * x
            y.append(network_mlp(layer.at("mlp"), g, norm, u))
        if settings["metabolism"]:
            y.append(metabolism(layer.at("metabolism"), norm, screen, copies, x))
        x = merge(layer.at("merge"), settings["merge"], norm, y)
    return x


def pool(w, x, keep):
    """Over the kept genes of each copy: x [B * N, H], keep [B, N] -> [B, H]"""
    kept = keep.flatten().nonzero()[:, 0]
    sample = kept // keep.shape[1]
    x = x[kept]
    gate = softmax(w.linear("gate", F.gelu(w.linear("gate_hidden", x))), sample, num_nodes=len(keep))
    return scatter(gate * F.gelu(w.linear("value", x)), sample, dim_size=len(keep), reduce="sum")


def local_head(w, states, removed, heads):
    """states [N, H] of the wild type -> [B, L]"""
    scores = []
    for genes in removed:
        genes = sorted(set(genes))
        if not genes:
            scores.append(torch.zeros_like(w["score.bias"]))
            continue
        fixed = F.gelu(w.linear("static", states[genes]))  # [k, H]
        moved = fixed
        if len(genes) > 1:
            itself = torch.eye(len(genes), dtype=torch.bool)
            for name in ("layer0", "layer1"):
                layer = w.at(name)
                moved = moved + layer["beta"] * attention(layer, moved[:, None], heads, itself)[:, 0]
        scores.append(w.linear("score", (moved - fixed) ** 2).mean(0))
    return torch.stack(scores)


def pair_head(w, states, removed):
    """states(b, gene): [H] of a removed gene in sample b -> [B, L]"""
    scores = []
    for b, genes in enumerate(removed):
        rows = [states(b, gene) for gene in sorted(set(genes))]
        score = torch.zeros_like(w["offset.bias"])
        for row in rows:
            score = score + w.linear("offset", F.gelu(w.linear("offset_hidden", row)))
        pairs = [torch.cat([p + q, p * q, (p - q).abs()]) for i, p in enumerate(rows) for q in rows[:i]]
        of_pairs = [w.linear("pair", F.gelu(w.linear("pair_hidden", pair))) for pair in pairs]
        scores.append(score + sum(of_pairs) / len(pairs) if pairs else score)
    return torch.stack(scores)


def neighbour_mean(screen, keep, states, gene):
    """Of the kept neighbours of a gene in a sample: keep [N], states [N, H] -> [H]"""
    near = {int(u) for edges in screen.networks for u, v in edges.T if v == gene and u != gene and keep[u]}
    return states[sorted(near)].mean(0) if near else torch.zeros(states.shape[1])


def hetero_gin(w, screen, settings, removed):
    weights = settings.get("weights", "none")
    samples = copies_of(screen, tuple(map(tuple, removed)), weights)
    wild_type = copies_of(screen, ((),), weights)
    rows = preprocess(w, screen, settings)  # once: wild type and samples differ in what is removed, not in dropout
    states, wild_states = (encode(w, screen, settings, copies, rows) for copies in (samples, wild_type))
    output = settings["output"]
    if output != "local":
        pooling = w.at("pool")
        difference = pool(pooling, wild_states, wild_type.keep) - pool(pooling, states, samples.keep)
        head = w.at("global")
        globally = head.linear("score", F.gelu(head.linear("hidden", difference)))
    if output != "global":
        of_sample = states.reshape(len(removed), screen.genes, -1)
        local = settings.get("local", "attention")
        if local == "attention":
            locally = local_head(w.at("local"), wild_states, removed, heads=8)
        elif local == "wild_type":
            locally = pair_head(w.at("local"), lambda b, gene: wild_states[gene], removed)
        else:
            locally = pair_head(
                w.at("local"), lambda b, gene: neighbour_mean(screen, samples.keep[b], of_sample[b], gene), removed)
    if output == "global":
        return globally
    if output == "local":
        return locally
    if output == "average":
        return (globally + locally) / 2
    both = torch.stack([globally, locally], -1)  # [B, L, 2]
    return (both * w.linear("gate", F.gelu(w.linear("gate_hidden", both))).softmax(-1)).sum(-1)


# ---- WildType
def wild_type_model(w, screen, settings, removed):
    features = settings["features"]
    x = torch.zeros(()) if features == "instead" else visible_rows(w, settings)
    if features != "none":
        x = x + w.linear("from_features", screen.features)
    weights = screen.weights(settings["weights"])
    width = x.shape[1]
    for i in range(settings["layers"]):
        layer = w.at(f"layer{i}")
        y = x @ layer["own.weight"] + layer["own.bias"] + layer["heard.bias"]
        for g, ((sources, targets), values) in enumerate(zip(screen.networks, weights)):
            adjacency = torch.zeros(screen.genes, screen.genes)
            adjacency.index_put_((targets, sources), values, accumulate=True)
            y = y + adjacency @ x @ layer["heard.weight"][g * width : (g + 1) * width]
        x = normalise("layer", x + F.gelu(y), layer["norm.weight"], layer["norm.bias"])
    return pair_head(w.at("local"), lambda b, gene: x[gene], removed)


# ---- Factors
def similar_to(screen, weights, count, unseen):
    """[N, N] of a network with weights [N, N]: how much gene v hears x, which is like it and no one unseen."""
    genes = range(screen.genes)
    sizes = weights.norm(dim=1)
    likeness = torch.zeros(screen.genes, screen.genes)
    for v in genes:
        for x in genes:
            product = (weights[v] * weights[x]).sum()
            if x != v and product > 0:
                likeness[v, x] = float(((product / (sizes[v] * sizes[x])) ** 2).float())
    found = torch.zeros_like(likeness)
    for v in genes:
        others = sorted((x for x in genes if likeness[v, x] > 0 and x not in unseen), key=lambda x: (-likeness[v, x], x))
        for x in others[:count]:
            found[v, x] = likeness[v, x]
            if v not in unseen:
                found[x, v] = likeness[v, x]
    arrives = found.sum(1)
    scale = (arrives[:, None] * torch.maximum(arrives[None], found)).sqrt()
    return torch.where(found > 0, found / scale, 0).float().double()


def factors(w, screen, settings, removed):
    """Predictions, and the mean square of the rows of genes that are not unseen."""
    rows = visible_rows(w, settings)
    unseen = set(settings.get("unseen", []))
    networks = []
    for (sources, targets), values in zip(screen.networks, screen.weights(settings["weights"])):
        networks.append(torch.zeros(screen.genes, screen.genes).index_put((targets, sources), values, accumulate=True))
    if settings["similar"]:
        networks += [similar_to(screen, network, settings["similar"], unseen) for network in networks]
    x = w["own"] * rows + sum(strength * network @ rows for strength, network in zip(w["heard"], networks))
    if settings["features"] != "none":
        x = x + w.linear("from_features", screen.features)
    head, labels = w.at("head"), len(w["head.bias"])
    scores = []
    for genes in removed:
        states = [x[gene] for gene in sorted(set(genes))]
        score = head["bias"] + sum((state[-labels:] for state in states), torch.zeros(labels))
        of_pairs = []
        for i, p in enumerate(states):
            for q in states[:i]:
                a, b = p[:-labels], q[:-labels]
                of_pairs.append((a * b) @ head["products"])
                if "head.first.weight" in w.values:
                    inside = F.gelu(head.linear("first", torch.cat([a + b, a * b])))
                    of_pairs[-1] = of_pairs[-1] + head.linear("second", inside)
        scores.append(score + sum(of_pairs) / len(of_pairs) if of_pairs else score)
    kept = [gene for gene in range(screen.genes) if gene not in unseen]
    return torch.stack(scores), settings["shrink"] * (w["table"][kept] ** 2).mean()


# ---- the baselines
def dango(w, screen, settings, removed):
    """Predictions, and the reconstruction error."""
    mean = SimpleConv(aggr="mean")
    embeddings, errors = [], []
    for t, edges in enumerate(screen.networks):
        h = visible_rows(w, settings)
        for name in ("sage1", "sage2"):
            sage = w.at(name)
            h = F.relu(sage.linear_of("left", t, mean(h, edges)) + h @ sage["right"][t])
        embeddings.append(h)
        adjacency = torch.zeros(screen.genes, screen.genes)  # row v: 1 where an edge u -> v is
        adjacency[edges[1], edges[0]] = 1
        weight = torch.where(adjacency > 0, 1.0, settings["zero_weight"])
        errors.append((weight * (w.linear_of("rows", t, h) - adjacency) ** 2).mean())
    embeddings = torch.stack(embeddings)  # [T, N, H]
    scores = w.linear("score", F.relu(w.linear("score_hidden", embeddings)))
    meta = (embeddings * scores.softmax(0)).sum(0)
    return local_head(w.at("local"), meta, removed, heads=4), sum(errors) / len(errors)


def gene_mlp(w, settings, removed):
    rows = torch.stack([visible_rows(w, settings)[sorted(set(genes))].sum(0) for genes in removed])
    return w.linear("score", F.gelu(w.linear("second", F.gelu(w.linear("first", rows)))))


# ---- all of it
DEFAULTS = {
    "hetero_gin": dict(layers=3, merge="sum", norm="layer", output="average", features="none", metabolism=False),
    "dango": dict(zero_weight=0.1, ramp_epochs=10),
    "mlp": {},
    "wild_type": dict(layers=2, weights="normalised", features="none"),
    "factors": dict(similar=32, weights="normalised", shrink=10, features="none"),
}


def predict(weights, screen, settings, removed):
    """Predictions [B, L] of samples that remove these genes, standardised, and what else is minimised."""
    w, name = Weights(weights), settings["name"]
    settings = {**DEFAULTS[name], **settings}
    if name == "hetero_gin":
        return hetero_gin(w, screen, settings, removed), 0
    if name == "dango":
        return dango(w, screen, settings, removed)
    if name == "wild_type":
        return wild_type_model(w, screen, settings, removed), 0
    if name == "factors":
        return factors(w, screen, settings, removed)
    return gene_mlp(w, settings, removed), 0


def total_loss(weights, screen, settings, case):
    """Predictions [B, L] and what is minimised, of a case as tests/oracle/probe.cpp takes it."""
    labels = torch.tensor(case["labels"])
    torch.manual_seed(DROPOUT_SEED)
    prediction, reconstruction = predict(weights, screen, settings, case["removed"])
    share = 0
    if settings["name"] == "dango":
        ramp_epochs = settings.get("ramp_epochs", DEFAULTS["dango"]["ramp_epochs"])
        share = 1 - 0.5 * min(1, case["epoch"] / ramp_epochs)
    difference = prediction - labels
    loss = (difference**2).mean() if case["loss"] == "mse" else torch.log(torch.cosh(difference)).mean()
    if settings["name"] == "factors":
        return prediction, loss + reconstruction  # which is not weighed
    return prediction, share * reconstruction + (1 - share) * loss


# ---- files
DTYPES = {"F32": torch.float32, "F64": torch.float64}


def read_safetensors(path):
    """f64 tensors by name, f32 ones widened."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    arrays = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(bytearray(data[first:last]), dtype=DTYPES[entry["dtype"]])
            arrays[name] = values.double().reshape(entry["shape"])
    return arrays
