"""`lacuna features`: spectral features of the networks, checked with numpy, kept in the screen, read by models."""

import json

import numpy as np
import pytest
from program import lacuna, succeed
from seeds import seed_of
from train_files import error, make_tables, words


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """A screen of 30 genes: a weighted network in both directions, and one without weights, directed."""
    folder = tmp_path_factory.mktemp("features")
    draw = np.random.default_rng(seed_of("test_features"))
    genes = [f"g{i}" for i in range(30)]
    pairs = {tuple(sorted(draw.choice(30, 2, replace=False))) for _ in range(120)}
    rows = "".join(f"{genes[a]},{genes[b]},{draw.uniform(0.1, 2):.4f}\n" for a, b in sorted(pairs))
    (folder / "both.csv").write_text("source,target,weight\n" + rows)
    ways = {tuple(draw.choice(30, 2, replace=False)) for _ in range(120)}
    (folder / "ways.csv").write_text("source,target\n" + "".join(f"{genes[a]},{genes[b]}\n" for a, b in sorted(ways)))
    (folder / "genes.csv").write_text("\n".join(["gene", *genes]) + "\n")
    (folder / "rows.csv").write_text("a,b,y\n" + "".join(f"g{i},g{i + 1},{i % 3}\n" for i in range(29)))
    succeed("import", "screen", folder / "screen", "--genes", folder / "genes.csv",
            "--network", f"both={folder}/both.csv,weight=weight", "--network", f"ways={folder}/ways.csv,directed",
            "--samples", f"{folder}/rows.csv,removed=a+b,label=y")
    return folder / "screen"


def expected(screen, network, count):
    """[N, count] by numpy: sqrt(N s) u, the largest entry of u positive."""
    sources, targets = np.load(screen / f"edges/gene.{network}.gene.npy").astype(int)
    file = screen / f"edges/gene.{network}.gene.weight.npy"
    weights = np.load(file).astype(float) if file.exists() else np.ones(len(sources))
    matrix = np.zeros((30, 30))
    np.add.at(matrix, (targets, sources), weights)
    arriving, leaving = np.abs(matrix).sum(1), np.abs(matrix).sum(0)
    scale = np.sqrt(np.outer(arriving, leaving))
    u, s, _ = np.linalg.svd(np.divide(matrix, scale, out=np.zeros_like(matrix), where=scale > 0))
    u = u[:, :count]
    return u * np.sign(u[np.abs(u).argmax(0), range(count)]) * np.sqrt(30 * s[:count])


def test_spectral_features_are_those_of_numpy(weighted):
    said = succeed("features", weighted, "--spectral", 6)
    assert "12 columns, 6 of each of 2 networks" in said
    found = np.load(weighted / "nodes/gene.spectral.npy")
    assert found.dtype == np.float32 and found.shape == (30, 12)
    for place, network in enumerate(("both", "ways")):
        wanted = expected(weighted, network, 6)
        assert np.allclose(found[:, 6 * place : 6 * place + 6], wanted, atol=1e-4), network
    succeed("info", weighted, "--check")
    assert "features gene.spectral" in json.loads((weighted / "manifest.json").read_text())["fingerprint"]
    assert "have a feature 'spectral' already" in error(1, "features", weighted, "--spectral", 3)
    before = (weighted / "nodes/gene.spectral.npy").read_bytes()
    succeed("features", weighted, "--remove")
    assert not (weighted / "nodes/gene.spectral.npy").exists()
    succeed("info", weighted, "--check")
    succeed("features", weighted, "--spectral", 6, "--name", "again")
    assert (weighted / "nodes/gene.again.npy").read_bytes() == before  # the same bits


def test_mistakes_are_named(weighted):
    assert "ask for 1 to 30" in error(1, "features", weighted, "--spectral", 31, "--name", "many")
    assert "no feature 'nothing'" in error(1, "features", weighted, "--remove", "--name", "nothing")
    assert lacuna("features", weighted).returncode == 2
    assert lacuna("features", weighted, "--remove", "--spectral", 3).returncode == 2


def test_a_model_reads_the_features_it_names(tmp_path):
    split = make_tables(tmp_path, "screen")
    succeed("features", tmp_path / "screen", "--spectral", 3)
    changes = dict(split=split, train__epochs=1, model__name="wild_type", model__features="instead")
    out = tmp_path / "run"
    succeed(*words(tmp_path, out, **changes, model__feature_names="[spectral]"))
    succeed("features", tmp_path / "screen", "--spectral", 2, "--name", "other")  # which it does not read
    succeed("evaluate", out)
    everything = tmp_path / "everything"
    succeed(*words(tmp_path, everything, **changes))
    succeed("features", tmp_path / "screen", "--name", "other", "--remove")
    assert "features gene.other differ" in error(1, "evaluate", everything)
    assert "has 'spectrum'" in error(1, *words(tmp_path, tmp_path / "no", **changes, model__feature_names="[spectrum]"))
