"""`lacuna generate screen` as a user meets it; the graph and the module part of the labels against NumPy."""

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


@pytest.mark.parametrize("removed_genes", [2, 3])
def test_module_part_is_the_mean_over_pairs_of_one_effect_for_every_two_modules(tmp_path, removed_genes):
    """A linear function of how often a sample has genes of each two modules, found by least squares; and genes of a module
    are linked: most neighbours of a gene, in the networks that are not even, are of its own."""
    modules, samples, path = 6, 2000, tmp_path / "screen"
    done = generate(path, "--size", "small", "--seed", 5, "--removed", removed_genes, "--samples", samples, "--modules",
                    modules, "--share-gene", 0.2, "--share-graph", 0, "--share-module", 0.6, "--share-noise", 0.2)
    assert done.returncode == 0, done.stderr
    of_gene = np.load(path / "samples/removed.npy").reshape(-1, removed_genes).astype(int) % modules  # [S, k]
    counts = np.zeros((samples, modules, modules))
    for i in range(removed_genes):
        for j in range(i):
            low, high = np.minimum(of_gene[:, i], of_gene[:, j]), np.maximum(of_gene[:, i], of_gene[:, j])
            counts[np.arange(samples), low, high] += 1
    counts = counts.reshape(samples, -1)[:, np.triu(np.ones((modules, modules), bool)).ravel()]  # [S, 21]
    part = np.load(path / "samples/truth_module.npy").astype(float)
    effects, _, rank, _ = np.linalg.lstsq(counts, part, rcond=None)
    assert rank == 21 and np.abs(counts @ effects - part).max() < 1e-6
    assert effects.std() > part.std() / 2  # they differ
    names = [name for name in PARTS if name != "truth_pair" or removed_genes > 2] + ["truth_module"]
    parts = {name: np.load(path / f"samples/{name}.npy").astype(float) for name in names}
    assert np.abs(np.load(path / "samples/label.npy") - (sum(parts.values()) - 0.0099)).max() < 2e-7
    assert np.isclose(parts["truth_module"].var() / parts["truth_gene"].var(), 3, rtol=0.01)
    for network, expected in [("physical", 1 / modules), ("regulatory", 0.8), ("coexpression", 0.75)]:
        source, target = np.load(path / f"edges/gene.{network}.gene.npy").astype(int)
        linked = source != target
        assert np.isclose((source % modules == target % modules)[linked].mean(), expected, atol=0.1), network


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
        (["--size", "tiny", "--removed", 1], "--removed: Value 1 not in range"),
        (["--size", "tiny", "--removed", 2, "--samples", 391], "give at most 390"),
        (["--size", "tiny", "--share-module", 1], "10 modules are too many at size tiny; give at most 5"),
        (["--size", "tiny", "--modules", 3], "--modules 3 without a share of the variance makes no modules"),
        (["--size", "tiny", "--removed", 2, "--share-pair", 0.3], "--share-pair 0.3 of samples that remove two genes"),
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
