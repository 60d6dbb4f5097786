"""What a graph model is for, shown where the truth is known.

The screen of the demo: an effect a gene, an effect a query pair, and one that only the graph tells: the number of kept
genes that lost two or more in-neighbours, of a type in which all genes have the same degrees. On query pairs that the
training never saw, HeteroGin must find that part, the baselines without a graph cannot, and neither can HeteroGin over a
graph with the same degrees and other partners.

The margins leave room: on screens of seeds 1 to 3 the model is 0.36 or more ahead of the best baseline, and the control
0.13 or more behind it.

And the end of the demo: labels that hang on modules of genes, which the networks tell, and genes that no training sample
removes. With hidden rows `wild_type` finds them; without, it leans on rows that the held-out genes never learned; over other
partners it knows offsets, and no more. On screens of seeds 1 to 5 hiding gains 0.14 or more, and the control is never ahead of
the offsets.
"""

import json
import os
import subprocess

import pytest
from program import PROGRAM, ROOT, succeed, together

LABEL = "gene_interaction"
SHARES = ["--share-gene", 0.15, "--share-pair", 0.05, "--share-graph", 0.75, "--share-noise", 0.05]


@pytest.fixture(scope="module")
def pearson(tmp_path_factory):
    """Of the test part: {graph: {predictor: Pearson}}. Both runs at once, a core each."""
    folder = tmp_path_factory.mktemp("planted")
    succeed("generate", "screen", folder / "screen", "--size", "mini", "--removed", 8, "--seed", 1, *SHARES)
    succeed("split", folder / "screen", "--name", "pair", "--by", "pair", "--column", "query_pair", "--seed", 1)
    running = {}
    for graph in ("kept", "shuffled"):
        words = [PROGRAM, "train", ROOT / "configs" / "demo.yaml", "--out", folder / graph]
        for setting in (f"screen={folder}/screen", f"graph={graph}", "train.device=cpu", "evaluate.bootstrap=0"):
            words += ["--set", setting]
        running[graph] = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    result = {}
    for graph, process in running.items():
        assert process.wait(timeout=600) == 0
        of = json.loads((folder / graph / "evaluation.json").read_text())["parts"]["test"]["labels"][LABEL]
        result[graph] = {"model": of["model"]["pearson"],
                         **{name: metrics["pearson"] for name, metrics in of["baselines"].items()}}
    print(result)
    return result


BASELINES = ("gene", "ridge", "pair", "ridge_pairs", "mlp")


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_graph_model_beats_what_has_no_graph(pearson, baseline):
    assert pearson["kept"]["model"] > pearson["kept"][baseline] + 0.2


def test_with_other_partners_it_does_not(pearson):
    assert pearson["shuffled"]["model"] < max(pearson["shuffled"][name] for name in BASELINES) + 0.05
    assert pearson["kept"]["model"] > pearson["shuffled"]["model"] + 0.25


MODULES = ["--share-gene", 0.2, "--share-graph", 0, "--share-module", 0.6, "--share-noise", 0.2]


def test_hidden_rows_let_a_model_speak_for_unseen_genes(tmp_path):
    succeed("generate", "screen", tmp_path / "screen", "--size", "small", "--removed", 2, "--seed", 1, *MODULES)
    succeed("split", tmp_path / "screen", "--name", "gene", "--by", "gene", "--seed", 1)
    alone = "evaluate.baselines=false"
    factors = ["train.batch=256", "train.warmup_steps=100", alone]
    runs = {"hidden": ["train.hide=0.3"], "unhidden": ["train.hide=0", alone],
            "control": ["train.hide=0.3", "graph=shuffled", alone], "factors": factors, "factors-control": [*factors, "graph=shuffled"]}
    calls = []
    for name, settings in runs.items():
        config = "unseen-collins2007" if name.startswith("factors") else "unseen-demo"
        settings = [f"screen={tmp_path}/screen", "train.device=cpu", "train.compute_threads=1", "evaluate.bootstrap=0",
                    *settings]
        calls.append(["train", ROOT / "configs" / f"{config}.yaml", "--out", tmp_path / name,
                      *(word for setting in settings for word in ("--set", setting))])
    together(calls)
    scores = {name: json.loads((tmp_path / name / "evaluation.json").read_text())["parts"]["test"]["labels"][LABEL]
              for name in runs}
    hidden, unhidden, control, factors, factors_control = (scores[name]["model"]["pearson"] for name in runs)
    offsets = scores["hidden"]["baselines"]["ridge"]["pearson"]
    print(hidden, unhidden, control, factors, factors_control, offsets)
    assert hidden > offsets + 0.25 and hidden > unhidden + 0.1
    assert factors > offsets + 0.35 and factors > scores["hidden"]["baselines"]["network"]["pearson"]
    assert max(control, factors_control) < offsets + 0.05
