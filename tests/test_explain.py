"""`lacuna explain`: against plain PyTorch over a graph without a network's edges, and NumPy."""

import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy
import pytest
from program import BUILD, fail, new_screen, succeed

pytestmark = pytest.mark.skipif(not (BUILD / "liblacuna_torch.so").exists(), reason="a build without torch")
PLAIN = pathlib.Path(__file__).parent.parent / "bench" / "plain_predictions.py"
CONFIG = """
screen: {screen}
split: random
model: {model}
train: {{epochs: 2, batch: 16, device: cpu, warmup_steps: 5, seed: 3}}
evaluate: {{baselines: false, bootstrap: 0}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    new_screen(folder / "screen", seed=5)
    for name, model in [("gin", "{name: hetero_gin, width: 8, layers: 2}"), ("mlp", "{name: mlp, width: 8}")]:
        (folder / f"{name}.yaml").write_text(CONFIG.format(screen=folder / "screen", model=model))
        succeed("train", folder / f"{name}.yaml", "--out", folder / name)
    # Genes that training never saw, whose row is one of the weights.
    succeed("split", folder / "screen", "--name", "gene", "--by", "gene", "--seed", 1)
    succeed("train", folder / "mlp.yaml", "--set", "split=gene", "--set", "train.hide=0.4", "--set", "train.lr=0.1",
            "--out", folder / "hidden")
    return folder


@pytest.fixture(scope="module")
def explained(folder):
    gene = (folder / "screen/nodes/gene.txt").read_text().split()[3]
    succeed("explain", folder / "gin", "--gene", gene, "--top", "4")
    return json.loads((folder / "gin/explanation.json").read_text())


def measured_sets(screen):
    removed, ptr = (numpy.load(screen / f"samples/{name}.npy") for name in ("removed", "ptr"))
    return [tuple(sorted(set(removed[a:b].tolist()))) for a, b in itertools.pairwise(ptr.astype(int))]


def model_settings(run):
    lines = (run / "config.yaml").read_text().split("\nmodel:\n")[1].splitlines()
    own = itertools.takewhile(lambda line: line.startswith("  "), lines)
    return [f"{key.strip()}={value.strip()}" for key, value in (line.split(":", 1) for line in own)]


def plain_predictions(screen, run, samples):
    """Standardised, of plain PyTorch, in f64."""
    checkpoint = next(run.glob("checkpoints/best_pearson*"))
    sets = itertools.chain.from_iterable(("--set", word) for word in model_settings(run))
    done = subprocess.run([sys.executable, PLAIN, screen, checkpoint, "--samples", ",".join(map(str, samples)), *sets],
                          capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines, done.stderr)
    return numpy.array([line["predicted"][0] for line in lines])


def test_without_a_network_is_what_plain_pytorch_says_without_its_edges(folder, explained, tmp_path):
    pytest.importorskip("torch_geometric")
    screen, run = folder / "screen", folder / "gin"
    samples = numpy.load(run / "predictions/test.sample.npy").tolist()
    assert explained["samples"] == len(samples)
    measured = numpy.load(run / "predictions/test.measured.npy")[:, 0]
    network = explained["networks"][0]
    shutil.copytree(screen, tmp_path / "less")
    edges = tmp_path / f"less/edges/gene.{network['name']}.gene.npy"
    numpy.save(edges, numpy.load(edges)[:, :0])
    for graph, scores in [(screen, explained["with_all"][0]), (tmp_path / "less", network["without"][0])]:
        pearson = numpy.corrcoef(plain_predictions(graph, run, samples), measured)[0, 1]
        assert scores["pearson"] == pytest.approx(pearson, abs=1e-4)
    assert abs(explained["with_all"][0]["pearson"] - network["without"][0]["pearson"]) > 1e-4


def test_the_strongest_are_the_extremes_of_what_is_not_measured(folder, explained, tmp_path):
    screen = folder / "screen"
    names = (screen / "nodes/gene.txt").read_text().split()
    measured = measured_sets(screen)
    size = max(set(map(len, measured)), key=list(map(len, measured)).count)
    given = explained["strongest"][1]["with"]
    lists = explained["strongest"][1]
    genes = sorted(set(itertools.chain.from_iterable(measured)))
    every = [s for s in itertools.combinations(genes, size) if names.index(given) in s and s not in set(measured)]
    assert lists["candidates"] == len(every)
    (tmp_path / "samples.txt").write_text("".join(" ".join(names[g] for g in s) + "\n" for s in every))
    succeed("predict", folder / "gin", "--samples", tmp_path / "samples.txt", "--out", tmp_path / "all.csv")
    predicted = sorted(float(line.split(",")[-1]) for line in (tmp_path / "all.csv").read_text().splitlines()[1:])
    assert [s["predicted"] for s in lists["lowest"]] == pytest.approx(predicted[:4], rel=1e-5, abs=1e-7)
    assert [s["predicted"] for s in lists["highest"]] == pytest.approx(predicted[:-5:-1], rel=1e-5, abs=1e-7)
    for sample in lists["lowest"] + explained["strongest"][0]["highest"]:
        assert tuple(sorted(names.index(g) for g in sample["genes"])) not in measured
        assert len(sample["change"]) == len(explained["networks"])


@pytest.mark.parametrize("run", ["mlp", "hidden"])
def test_a_model_without_a_graph_loses_nothing(folder, run):
    succeed("explain", folder / run, "--top", "2", "--candidates", "50")
    found = json.loads((folder / run / "explanation.json").read_text())
    for network in found["networks"]:
        assert network["without"] == found["with_all"]
    assert all(change == 0 for sample in found["strongest"][0]["lowest"] for change in sample["change"])


def test_the_report_shows_it(folder, explained, tmp_path):
    gene = explained["strongest"][1]["with"]
    succeed("report", folder / "gin", "--gene", gene, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Which network helps" in page and f"Gene {gene}</h2>" in page
    for network in explained["networks"]:
        assert network["name"] in page
    saved = re.findall(r'download="([^"]*)" href="data:text/csv;charset=utf-8,([^"]*)"', page)
    assert [name for name, _ in saved].count("unmeasured.csv") == 1
    from urllib.parse import unquote
    rows = unquote(dict(saved)["unmeasured.csv"]).splitlines()
    assert rows[0].startswith("gene_1,gene_2") and len(rows) == 1 + 8


def test_wrong_calls_are_told(folder):
    assert "did you mean" in fail("explain", folder / "mlp", "--gene", "nothing")
    assert "did you mean" in fail("explain", folder / "mlp", "--label", "nothing")
    assert "run.json" in fail("explain", folder / "screen")
    assert "did you mean" in fail("report", folder / "mlp", "--gene", "nothing", "--out", folder / "x.html")
    assert not (folder / "x.html").exists()
