"""Effects of single removals against predictions made one by one."""

import sys

import numpy as np
import pytest
import torch

import lacuna

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    return lacuna.Screen.generate(tmp_path_factory.mktemp("influence") / "tiny", seed=2)


def model_of(screen, **settings):
    graph = lacuna.nn.GeneGraph.of(screen)
    model = lacuna.nn.make_model({"name": "hetero_gin", "width": 8, "layers": 2, **settings}, graph, 1, seed=3).double()
    model.label_names, model.label_sd = screen.label_names, torch.full((1,), 2.5, dtype=torch.float64)
    return model


@pytest.mark.parametrize("settings", [{"merge": "mean", "dropout": 0.3}, {"norm": "batch_graph", "merge": "sum"}], ids=str)
def test_effects_are_those_of_one_by_one(screen, settings):
    model = model_of(screen, **settings)
    found = lacuna.influence(model, screen, batch=7)
    assert model.training  # as it was; dropout did not act
    model.eval()
    with torch.no_grad():
        one_by_one = torch.cat([model.predict(*lacuna.removed_lists([s])) for s in [[], *([g] for g in range(40))]])
    want = (one_by_one[1:] - one_by_one[0]).numpy()
    assert found.effect.shape == (40, 1) and np.abs(want).max() > 1e-6
    np.testing.assert_allclose(found.effect, want, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.wild_type, one_by_one[0], rtol=0, atol=1e-12)


def test_what_is_shown(screen):
    model = model_of(screen)
    found = lacuna.influence(model, screen)
    assert isinstance(found, lacuna.Influence) and len(found) == len(screen.genes)
    table = found.to_pandas()
    assert table.columns.tolist() == ["gene", *screen.label_names] and table["gene"].tolist() == screen.genes
    strongest = table[screen.label_names[0]].abs().idxmax()
    assert found.strongest(1)[0][0] == screen.genes[strongest] and screen.genes[strongest] in repr(found)
    assert screen.genes[strongest] in found._repr_html_()
    some = lacuna.influence(model, screen, genes=[screen.genes[5], screen.genes[2]])
    np.testing.assert_allclose(some.effect, found.effect[[5, 2]], rtol=0, atol=1e-12)
    with pytest.raises(lacuna.UsageError, match="no gene 'nobody'"):
        lacuna.influence(model, screen, genes=["nobody"])
    with pytest.raises(lacuna.UsageError, match="no label"):
        found.strongest(label="height")


def test_any_function_of_removed_and_ptr(screen):
    weights = torch.randn(len(screen.genes), dtype=torch.float64)

    def additive(removed, ptr):
        return torch.stack([weights[genes.long()].sum() + 1 for genes in removed.split(ptr.diff().tolist())])

    found = lacuna.influence(additive, screen)
    np.testing.assert_allclose(found.effect[:, 0], weights, rtol=0, atol=1e-12)
    assert found.wild_type.tolist() == [1]


def test_progress_is_shown_by_genes(screen, monkeypatch):
    told = []
    monkeypatch.setitem(sys.modules, "ipykernel", sys)  # as in a notebook
    monkeypatch.setattr("lacuna._progress.Progress.show", lambda _, *words: told.append(words))
    lacuna.influence(model_of(screen), screen, batch=16)
    assert told == [("removing each gene", done, 40, "genes") for done in (15, 31, 40)]


def test_plot(screen, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = lacuna.influence(model_of(screen), screen)
    ax = found.plot(count=5)
    assert [label.get_text() for label in ax.get_yticklabels()] == [gene for gene, _ in found.strongest(5)][::-1]
    ax.figure.savefig(tmp_path / "influence.png")
    assert (tmp_path / "influence.png").stat().st_size > 1000
