"""Predictions of any model evaluated, and runs read back."""

import json

import numpy as np
import pytest

import lacuna

pd = pytest.importorskip("pandas")

CONFIG = """
screen: {screen}
split: half
model: {{name: hetero_gin, width: 8, layers: 1}}
train: {{epochs: 9, batch: 16, lr: 1e-2, device: cpu, threads: 1}}
evaluate: {{bootstrap: 50}}
"""


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    screen = lacuna.Screen.generate(tmp_path_factory.mktemp("results") / "screen", seed=2)
    screen.make_split("half", fractions=(0.5, 0.2, 0.3), seed=1)
    return screen


@pytest.fixture(scope="module")
def run(screen, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").write_text(CONFIG.format(screen=screen.path))
    return lacuna.Run.train(folder / "config.yaml", folder / "run", train__epochs=2)


def noisy(screen, seed):
    return screen.labels[:, 0] + 0.05 * np.random.default_rng(seed).standard_normal(len(screen)).astype(np.float32)


def test_metrics_are_those_of_numpy(screen, tmp_path, seed):
    predicted = noisy(screen, seed)
    evaluation = lacuna.evaluate(screen, "half", predicted, out=tmp_path / "mine")
    table = evaluation.to_pandas().set_index(["part", "predictor"])
    split = screen.split("half")
    for part in ("test", "validation"):
        chosen = split.samples(part)
        x, y = predicted[chosen].astype(float), screen.labels[chosen, 0].astype(float)
        row = table.loc[part, "model"]
        assert row["count"] == len(chosen)
        assert row["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-6)
        assert row["spearman"] == pytest.approx(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1], abs=1e-6)
        assert row["mse"] == pytest.approx(np.mean((x - y) ** 2), rel=1e-5)
        assert row["pearson_low"] < row["pearson"] < row["pearson_high"]
    assert {"mean", "gene", "pair", "ridge", "ridge_pairs", "network", "mlp"} <= set(table.loc["test"].index)
    report = evaluation.report(tmp_path / "report.html")
    assert "ridge" in report.read_text() and "mine" in report.read_text()
    assert "pearson" in evaluation._repr_html_()


def test_a_table_of_one_part(screen, tmp_path, seed):
    chosen = screen.split("half").test
    predicted = noisy(screen, seed)
    frame = pd.DataFrame({"sample": chosen, "prediction": predicted[chosen]})
    evaluation = lacuna.evaluate(screen.path, "half", frame, baselines=False)
    assert list(evaluation.contents["parts"]) == ["test"]
    whole = lacuna.evaluate(screen, "half", predicted, baselines=False)
    one, all_parts = (e.contents["parts"]["test"]["labels"] for e in (evaluation, whole))
    assert one == all_parts


def test_what_cannot_be_evaluated_is_named(screen, tmp_path):
    nothing = np.full(len(screen), np.nan)
    with pytest.raises(lacuna.Error, match="no test or validation sample"):
        lacuna.evaluate(screen, "half", nothing)
    some = nothing.copy()
    some[screen.split("half").test[1:]] = 0.5
    with pytest.raises(lacuna.Error, match=f"sample {screen.split('half').test[0]} has none"):
        lacuna.evaluate(screen, "half", some, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(lacuna.UsageError, match="shape"):
        lacuna.evaluate(screen, "half", np.zeros(7))
    with pytest.raises(lacuna.Error, match="no split|split"):
        lacuna.evaluate(screen, "none", np.zeros(len(screen)))


def test_a_run_is_read_back(run, screen, tmp_path):
    assert run.status == "finished" and "hetero_gin" in run.config
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    metrics = run.metrics()
    assert metrics["train_loss"].tolist() == [line["train_loss"] for line in epochs] and len(metrics) == 2
    found = run.predictions("test")
    assert sorted(found["sample"]) == screen.split("half").test.tolist()
    assert np.array_equal(found["measured"], screen.labels[found["sample"]])
    again = lacuna.evaluate(screen, "half", pd.DataFrame({"sample": found["sample"], "prediction": found["predicted"][:, 0]}))
    ours, theirs = (e.to_pandas().query("part == 'test'").set_index("predictor") for e in (again, run.evaluation))
    assert ours.loc["model", "pearson"] == pytest.approx(theirs.loc["model", "pearson"], abs=1e-9)
    for baseline in ("mean", "gene", "ridge", "mlp"):
        assert ours.loc[baseline, "mse"] == pytest.approx(theirs.loc[baseline, "mse"], rel=1e-9)
    assert run.report(tmp_path / "r.html").stat().st_size > 10_000


def test_predictions_of_gene_sets(run, screen):
    found = run.predictions("test")
    first = [screen.removed_of(s) for s in found["sample"][:5]] + [[]]
    predicted = run.predict(first)
    assert np.allclose(predicted[screen.label_names[0]][:5], found["predicted"][:5, 0], atol=1e-6)
    assert len(predicted) == 6


def test_what_is_no_run_is_named(tmp_path, screen):
    with pytest.raises(lacuna.Error, match="run"):
        lacuna.Run.open(screen.path)
    with pytest.raises(lacuna.Error):
        lacuna.Run.train(tmp_path / "no.yaml", tmp_path / "out")
