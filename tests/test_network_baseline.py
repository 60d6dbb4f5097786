"""The baseline `network` against a slow form of it in NumPy: dense matrices, one sample after another."""

import json
import os

import numpy as np
import pytest
from program import TORCH_PROGRAM, succeed
from seeds import seed_of

os.environ.setdefault("OMP_NUM_THREADS", "1")
pytestmark = pytest.mark.skipif(not TORCH_PROGRAM.exists(), reason="this build has no torch")

OFFSET_STRENGTHS = (10000, 3000, 1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1)
STRENGTHS = (1e6, 3e5, 1e5, 3e4, 1e4, 3e3, 1e3, 300, 100, 30, 10, 3, 1)


def ridge(x, y, strength):
    """Coefficients and intercept, which is not shrunk."""
    centre = x.mean(0)
    w = np.linalg.solve((x - centre).T @ (x - centre) + strength * np.eye(x.shape[1]), (x - centre).T @ (y - y.mean()))
    return w, y.mean() - centre @ w


def networks_of(screen, genes):
    """Dense A of every gene-gene edge type: undirected, no self loops, the largest is 1."""
    for file in sorted((screen / "edges").glob("gene.*.gene.npy")):
        edges, weight = np.load(file).astype(int), file.with_suffix("").with_suffix(".gene.weight.npy")
        a = np.zeros((genes, genes))
        np.maximum.at(a, (edges[1], edges[0]), np.load(weight).ravel().astype(float) if weight.exists() else 1.0)
        np.fill_diagonal(a, 0)
        a = np.maximum(a, a.T)
        yield a / a.max()


def columns_of(a, sets, train, residual, effect, seen):
    """[S, 8] of one network, and the effects of like genes for genes that training never saw."""
    degree, n = a.sum(1), (a > 0).sum(1)
    root = np.sqrt(np.where(degree > 0, degree, 1))
    l = a / root[:, None] / root[None]
    length = np.sqrt((l**2).sum(1)) + 1e-9
    ll = l @ l
    cosine = ll / length[:, None] / length[None]
    like = np.maximum(cosine, 0) ** 2
    np.fill_diagonal(like, 0)

    def from_(sample, g, h):
        total = weight = 0.0
        for s, value in zip(train, residual):
            if h in sets[s]:
                for other in sets[s] - {h} - sets[sample]:
                    total += like[g, other] * value
                    weight += like[g, other]
        return total / (weight + 0.05)

    rows = []
    for s, genes in enumerate(sets):
        pairs = [(g, h) for g in genes for h in genes if g < h]
        logs = np.log1p(n)
        rows.append(np.mean([[a[g, h], l[g, h], ll[g, h], cosine[g, h], degree[g] * degree[h], logs[g] + logs[h],
                              logs[g] * logs[h], from_(s, g, h) + from_(s, h, g)] for g, h in pairs], axis=0))
    return np.array(rows), np.where(seen, 0, like @ (effect * seen) / (like @ seen + 0.05))


def slow_network(screen, sets, y, part):
    genes = len((screen / "nodes/gene.txt").read_text().split())
    train, validation = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    x = np.array([[gene in s for gene in range(genes)] for s in sets], float)
    mean, sd = y[train].mean(), y[train].std()
    z = (y - mean) / sd
    fits = [ridge(x[train], y[train], strength) for strength in OFFSET_STRENGTHS]
    w, intercept = min(fits, key=lambda fit: np.mean((x[validation] @ fit[0] + fit[1] - y[validation]) ** 2))
    seen, effect = x[train].sum(0) > 0, w / sd
    offset = (x @ w + intercept - mean) / sd
    found = [columns_of(a, sets, train, (z - offset)[train], effect, seen) for a in networks_of(screen, genes)]
    columns = np.concatenate([rows for rows, _ in found], 1)
    spread = columns[train].std(0)
    columns = np.where(spread > 1e-12, (columns - columns[train].mean(0)) / np.where(spread > 1e-12, spread, 1), 0)
    columns = np.concatenate([(offset + x @ np.mean([effects for _, effects in found], 0))[:, None], columns], 1)
    fits = [ridge(columns[train], z[train], strength) for strength in STRENGTHS]
    best = max(fits, key=lambda fit: np.corrcoef(columns[validation] @ fit[0], y[validation])[0, 1])
    return mean + sd * (columns @ best[0] + best[1])


def weighted_pairs(folder, rng):
    """Pairs of 14 genes, the last two of them in the test part alone; one weighted network, one directed."""
    genes = [f"g{i}" for i in range(14)]
    (folder / "genes.csv").write_text("\n".join(["gene", *genes]) + "\n")
    for name in ("first", "second"):
        lines = {(a, b): f"{genes[a]},{genes[b]},{rng.uniform(0.1, 9):.3f}" for a, b in rng.integers(0, 14, (40, 2)) if a < b}
        (folder / f"{name}.csv").write_text("\n".join(["source,target,weight", *lines.values()]) + "\n")
    rows = []
    for a in range(14):
        for b in range(a):
            part = "test" if max(a, b) > 11 else ["train", "train", "train", "validation"][rng.integers(4)]
            rows.append(f"{genes[a]},{genes[b]},{rng.normal():.5f},{part}")
    (folder / "rows.csv").write_text("\n".join(["a,b,label,part", *rows]) + "\n")
    succeed("import", "screen", folder / "screen", "--genes", folder / "genes.csv", "--network",
            f"first={folder}/first.csv,weight=weight", "--network", f"second={folder}/second.csv,directed", "--samples",
            f"{folder}/rows.csv,removed=a+b,label=label,split=part")


def triples(folder, rng):
    succeed("generate", "screen", folder / "screen", "--size", "tiny", "--samples", 250, "--seed", rng.integers(1 << 30))
    succeed("split", folder / "screen", "--name", "gene", "--by", "gene", "--fractions", "0.6,0.2,0.2", "--seed", 1)


@pytest.mark.parametrize("make", [weighted_pairs, triples])
def test_network_is_that_of_numpy(tmp_path, make):
    rng = np.random.default_rng(seed_of(make.__name__))
    make(tmp_path, rng)
    screen = tmp_path / "screen"
    removed, ptr = (np.load(screen / "samples" / f"{name}.npy") for name in ("removed", "ptr"))
    sets = [set(removed[a:b].tolist()) for a, b in zip(ptr, ptr[1:])]
    y = np.load(screen / "samples" / "label.npy").ravel().astype(float)
    (split,) = (screen / "splits").glob("*.npy")
    np.save(tmp_path / "mine.npy", rng.normal(size=len(y)))
    said = succeed("evaluate", "--predictions", tmp_path / "mine.npy", "--screen", screen, "--split", split.stem, "--out",
                   tmp_path / "run")
    expected = slow_network(screen, sets, y, np.load(split).ravel())
    for part in ("validation", "test"):
        load = lambda what: np.load(tmp_path / "run" / "predictions" / f"{part}.{what}.npy").ravel()
        np.testing.assert_allclose(load("baseline.network"), expected[load("sample")], rtol=1e-4, atol=1e-4 * y.std())
    of = json.loads((tmp_path / "run" / "evaluation.json").read_text())["parts"]["test"]
    (label,) = of["labels"].values()
    assert "the best of 13 on validation" in label["baselines"]["network"]["note"]
    assert "network" in next(line for line in said.splitlines() if "the model is" in line)
    unseen = {group["name"]: group["model"]["count"] for group in label["groups"] if group["by"] == "unseen genes"}
    seen = set().union(*(s for s, p in zip(sets, np.load(split).ravel()) if p == 0))
    test = [s for s, p in zip(sets, np.load(split).ravel()) if p == 2]
    assert unseen.get("one", 0) == sum(len(s - seen) == 1 < len(s) for s in test)
    assert unseen.get("all", 0) == sum(not s & seen for s in test)
