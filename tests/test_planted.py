"""What a graph model is for, shown where the truth is known.

A screen with three planted parts: an effect a gene, an effect a query pair, and one that only the graph tells: the number
of kept genes that lost two or more in-neighbours. Every gene has as many in- and out-neighbours as every other, so
neither gene nor pair nor degree gives that part away. On query pairs that the training never saw, HeteroGin must find it,
the baselines without a graph cannot, and neither can HeteroGin on a graph with the same degrees and other partners.
"""

import json
import os
import subprocess

import numpy as np
import pytest
from program import PROGRAM, succeed

GENES, DEGREE, REMOVED, SAMPLES, PAIRS = 200, 6, 5, 5000, 100
SHARES = {"gene": 0.2, "pair": 0.05, "graph": 0.7, "noise": 0.05}  # of the labels' variance
SETTINGS = {
    "split": "part", "model.width": 16, "model.layers": 1, "model.output": "global", "model.dropout": 0,
    "train.epochs": 30, "train.restart_epochs": 30, "train.batch": 16, "train.lr": 5e-3, "train.warmup_steps": 50,
    "train.weight_decay": 0.1, "train.clip": 1, "train.device": "cpu", "evaluate.bootstrap": 0,
}


def regular_graph(rng):
    """[target, source], DEGREE in each row and column: permutations that do not meet."""
    edges = np.zeros((GENES, GENES), bool)
    everyone = np.arange(GENES)
    for _ in range(DEGREE):
        while True:
            sources = rng.permutation(GENES)
            if not (sources == everyone).any() and not edges[everyone, sources].any():
                break
        edges[everyone, sources] = True
    return edges


def standard(values):
    return (values - values.mean()) / values.std()


def write_screen(folder, seed):
    rng = np.random.default_rng(seed)
    edges = regular_graph(rng)
    query = np.array([rng.choice(GENES, 2, replace=False) for _ in range(PAIRS)])
    pair = np.arange(SAMPLES) % PAIRS
    removed = np.array([[*query[p], *rng.choice(np.setdiff1d(np.arange(GENES), query[p]), REMOVED - 2, replace=False)]
                        for p in pair])
    is_removed = np.zeros((SAMPLES, GENES), int)
    is_removed[np.arange(SAMPLES)[:, None], removed] = 1
    hit = ((is_removed @ edges.T.astype(int) >= 2) & (is_removed == 0)).sum(1)
    parts = {"gene": is_removed @ rng.normal(size=GENES), "pair": rng.normal(size=PAIRS)[pair], "graph": -hit,
             "noise": rng.normal(size=SAMPLES)}
    label = sum(np.sqrt(SHARES[name]) * standard(values) for name, values in parts.items())
    place = rng.permutation(PAIRS)[pair]
    part = np.where(place < 10, "validation", np.where(place < 25, "test", "train"))

    (folder / "genes.csv").write_text("gene\n" + "".join(f"g{i}\n" for i in range(GENES)))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"g{s},g{t}\n" for t, s in zip(*np.nonzero(edges))))
    rows = zip(removed, label, part)
    (folder / "samples.csv").write_text("removed,label,part\n" + "".join(
        f"{'+'.join(f'g{gene}' for gene in genes)},{value:.6f},{part}\n" for genes, value, part in rows))
    succeed("import", "screen", folder / "screen", "--genes", folder / "genes.csv",
            "--network", f"net={folder}/edges.csv,directed",
            "--samples", f"{folder}/samples.csv,removed=removed,gene-separator=+,label=label,split=part")


@pytest.fixture(scope="module")
def pearson(tmp_path_factory):
    """Of the test part: {graph: {predictor: Pearson}}. Both runs at once, a core each."""
    folder = tmp_path_factory.mktemp("planted")
    write_screen(folder, seed=1)
    (folder / "empty.yaml").write_text("{}\n")
    running = {}
    for graph in ("kept", "shuffled"):
        settings = {**SETTINGS, "screen": folder / "screen", "graph": graph}
        words = [PROGRAM, "train", folder / "empty.yaml", "--out", folder / graph]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        running[graph] = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    result = {}
    for graph, process in running.items():
        assert process.wait(timeout=600) == 0
        labels = json.loads((folder / graph / "evaluation.json").read_text())["parts"]["test"]["labels"]["label"]
        result[graph] = {"model": labels["model"]["pearson"],
                         **{name: metrics["pearson"] for name, metrics in labels["baselines"].items()}}
    print(result)
    return result


BASELINES = ("gene", "ridge", "pair", "ridge_pairs", "mlp")


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_graph_model_beats_what_has_no_graph(pearson, baseline):
    assert pearson["kept"]["model"] > pearson["kept"][baseline] + 0.25


def test_with_other_partners_it_does_not(pearson):
    assert pearson["shuffled"]["model"] < max(pearson["shuffled"][name] for name in BASELINES) + 0.05
    assert pearson["kept"]["model"] > pearson["shuffled"]["model"] + 0.25
