"""A planted effect that needs the graph: the graph model finds it on query pairs it has never seen, the simple baselines do
not, and neither does the same model over a shuffled graph (same degrees, other partners)."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from program import succeed

# Pearson on the test part by which the model must be ahead.
MARGIN = 0.05
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}  # two runs side by side
CONFIG = """
screen: {screen}
split: pair
model: {{name: hetero_gin, width: 8, layers: 1, output: global, dropout: 0}}
train: {{epochs: 6, batch: 16, lr: 2e-2, warmup_steps: 50, restart_epochs: 6, clip: 1, device: cpu}}
evaluate: {{bootstrap: 0, parts: [test]}}
"""


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Pearson on the test part by graph and predictor."""
    folder = tmp_path_factory.mktemp("graph_effect")
    screen = folder / "screen"
    shares = ["--share-gene", 0.1, "--share-pair", 0.05, "--share-graph", 0.8, "--share-noise", 0.05]
    succeed("generate", "screen", screen, "--size", "small", "--samples", 4000, "--query-pairs", 200, *shares, "--seed", 1)
    succeed("split", screen, "--name", "pair", "--by", "pair", "--column", "query_pair", "--seed", 1)
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(screen=screen))

    def train(graph):
        run = folder / graph
        succeed("train", config, "--set", f"graph={graph}", "--out", run, env=ALONE)
        found = json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["gene_interaction"]
        return {"model": found["model"]["pearson"], **{k: v["pearson"] for k, v in found["baselines"].items()}}

    with ThreadPoolExecutor() as pool:
        return dict(zip(("kept", "shuffled"), pool.map(train, ("kept", "shuffled"))))


def test_the_graph_model_beats_the_simple_baselines(scores):
    kept = scores["kept"]
    for baseline in ("gene", "ridge", "pair", "ridge_pairs"):
        assert kept["model"] > kept[baseline] + MARGIN, kept


def test_over_a_shuffled_graph_it_does_not(scores):
    shuffled = scores["shuffled"]
    assert shuffled["model"] < max(shuffled[name] for name in ("gene", "ridge", "pair", "ridge_pairs")) + MARGIN, shuffled
    assert scores["kept"]["model"] > shuffled["model"] + MARGIN, scores
