"""`lacuna generate screen` as a user meets it; the graph part of the labels against NumPy."""

import json
import os
import resource

import numpy as np
import pytest
from program import lacuna

REMOVED = 8  # enough for some samples to hit two genes or more in a type of three neighbours a gene
PARTS = ["truth_gene", "truth_pair", "truth_graph", "truth_noise"]


def generate(*words, **keywords):
    return lacuna("generate", "screen", *words, **keywords)


def files(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    path = tmp_path_factory.mktemp("generate") / "screen"
    options = ["--samples", 5000, "--seed", 7, "--removed", REMOVED, "--interaction-type", "regulatory",
               "--share-graph", 0.05]
    done = generate(path, "--size", "small", *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress where nobody looks at a terminal
    return path


def test_labels_are_the_sum_of_their_parts(screen):
    labels = np.load(screen / "samples/label.npy")
    parts = [np.load(screen / f"samples/{part}.npy").astype(float) for part in PARTS]
    assert np.abs(labels - (sum(parts) - 0.0099)).max() < 2e-7
    assert abs(labels.mean() + 0.0099) < 1e-5
    assert abs(labels.std() - 0.0621) < 2e-4
    assert -1.08 <= labels.min() and labels.max() <= 1.13


def test_graph_part_counts_kept_genes_with_two_removed_in_neighbours(screen):
    genes = len((screen / "nodes/gene.txt").read_text().splitlines())
    source, target = np.load(screen / "edges/gene.regulatory.gene.npy").astype(int)
    adjacency = np.zeros((genes, genes), int)
    adjacency[source, target] = 1
    removed = np.load(screen / "samples/removed.npy").reshape(-1, REMOVED).astype(int)
    in_neighbours = adjacency[removed].sum(axis=1)  # [S, genes]
    in_neighbours[np.arange(len(removed))[:, None], removed] = 0  # kept genes only
    count = (in_neighbours >= 2).sum(axis=1)
    graph = np.load(screen / "samples/truth_graph.npy")
    assert count.max() > 1
    slope, start = np.polyfit(count, graph, 1)
    assert slope < 0
    assert np.abs(graph - (start + slope * count)).max() < 1e-6


def test_query_pairs_recur_and_are_named(screen):
    names = (screen / "nodes/gene.txt").read_text().splitlines()
    manifest = json.loads((screen / "manifest.json").read_text())
    assert manifest["made_by"]["settings"]["seed"] == 7
    removed = np.load(screen / "samples/removed.npy").reshape(-1, REMOVED)
    pair = np.load(screen / "samples/query_pair.npy")
    assert set(np.bincount(pair)) == {50}  # 5,000 samples of 100 pairs
    for code in range(100):
        first, second = np.unique(removed[pair == code][:, :2], axis=0)[0]
        assert f'"{names[first]}+{names[second]}"' in json.dumps(manifest)


def test_same_options_same_bytes(tmp_path):
    made = []
    for place, threads in [("a", "1"), ("b", "4")]:
        (tmp_path / place).mkdir()
        environment = dict(os.environ, LACUNA_THREADS=threads)
        done = generate("screen", "--size", "small", "--samples", 9000, "--seed", 3, cwd=tmp_path / place, env=environment)
        assert done.returncode == 0, done.stderr
        made.append(files(tmp_path / place / "screen"))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--size", "huge"], "--size"),
        (["--samples", "many"], "--samples"),
        (["--size", "tiny", "--removed", 2], "--removed: Value 2 not in range"),
        (["--size", "tiny", "--interaction-type", "magic"], "no gene-gene edge type 'magic'"),
        (["--size", "tiny", "--share-noise", -1], "a share of the variance is -1"),
        (["--size", "tiny", "--samples", 5000], "would repeat; give at most 1350"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(tmp_path, words, message):
    done = generate(tmp_path / "out", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_overwritten(screen):
    before = files(screen)
    done = generate(screen, "--size", "tiny")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert files(screen) == before


def test_a_full_disk_is_one_line_that_names_the_file(tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    done = generate(tmp_path / "out", "--size", "small", preexec_fn=limit)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/out/") and done.stderr.count("\n") == 1
    assert "cannot write: File too large" in done.stderr
    assert not (tmp_path / "out/manifest.json").exists()


def test_help_has_an_example():
    done = generate("--help")
    assert done.returncode == 0
    assert "lacuna generate screen demo --size yeast" in done.stdout
