"""Predictions of any model evaluated, and runs read back."""

import json
import sys

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


def test_a_table_that_means_nothing_is_refused(screen):
    test = screen.split("half").test
    ones = np.ones(len(test))
    for table, words in {
        "negative": ({"sample": [-1], "prediction": [0.0]}, r"row 0 is of sample -1, .*200 samples \(0 to 199\)"),
        "too large": ({"sample": [3, 10**7], "prediction": [0.0, 1.0]}, "row 1 is of sample 10000000"),
        "lengths": ({"sample": test[:3], "prediction": [0.0, 1.0]}, r"shape \[2\], but there are 3 sample numbers"),
        "floats": ({"sample": test.astype(float), "prediction": ones}, "'sample' is of float64.*astype"),
        "twice": ({"sample": [4, 5, 4], "prediction": [0.0, 1.0, 2.0]}, "sample 4 stands there twice"),
        "words": ({"sample": test[:1], "prediction": ["high"]}, "column 'prediction' is not made of numbers"),
        "no numbers": ({"prediction": ones}, "no column 'sample'.*it has 'prediction'"),
        "no column": ({"sample": test}, "no column 'gene_interaction', and no column 'prediction'"),
        "one number": (3.0, "shape"),
    }.values():
        with pytest.raises(lacuna.UsageError, match=words):
            lacuna.evaluate(screen, "half", table)
    whole = pd.DataFrame({"sample": pd.array(test, dtype="Int64"), "prediction": ones})
    assert lacuna.evaluate(screen, "half", whole, baselines=False).contents["parts"]["test"]


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
    a, b = screen.genes[:2]
    alone, both = run.predict([a, [b]]), run.predict([[a], [b]])
    assert alone.equals(both)  # a name alone is one gene, not its letters


def test_samples_that_cannot_be_predicted_are_named(run, screen):
    known = screen.genes[0]
    with pytest.raises(lacuna.Error, match=r"^samples\[1\]: there is no gene 'ABC'"):
        run.predict([[known], ["ABC"]])
    with pytest.raises(lacuna.Error, match=r"^samples\[0\]: there is no gene 'A B, #C'"):
        run.predict([["A B, #C"]])
    with pytest.raises(lacuna.Error, match="^samples: no samples"):
        run.predict([])
    with pytest.raises(lacuna.UsageError, match=rf"samples is '{known}'.*\[\['{known}'\]\]"):
        run.predict(known)
    with pytest.raises(lacuna.UsageError, match=r"samples\[0\] has 3, .*names"):
        run.predict([[3]])
    model = run.model()
    assert [t.tolist() for t in model.samples([known, []])] == [[0], [0, 1, 1]]
    with pytest.raises(ValueError, match="a list of samples"):
        model.samples(known)


def test_a_config_may_be_a_mapping(screen, tmp_path):
    config = {"screen": screen, "split": "half", "model": {"name": "mlp", "width": np.int64(4)},
              "train": {"epochs": 1, "device": "cpu"}, "evaluate": {"baselines": False, "bootstrap": 0}}
    run = lacuna.Run.train(config, tmp_path / "run", show=False, train__epochs=2)
    assert run.status == "finished" and len(run.metrics()) == 2 and "width: 4" in run.config
    with pytest.raises(lacuna.UsageError, match="config has .*object"):
        lacuna.Run.train({"screen": object()}, tmp_path / "other")


@pytest.fixture(scope="module")
def recording_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    recording = lacuna.Recording.generate(folder / "rec", sessions=2, minutes=0.3, seed=1, side=17, units=3)
    recording.make_split("trials", fractions=(0.6, 0.2, 0.2))
    config = {"recording": recording, "split": "trials", "window": {"lags": 4},
              "model": {"name": "core_readout", "channels": 2, "temporal": 2, "layers": 1},
              "train": {"epochs": 1, "device": "cpu"}, "evaluate": {"bootstrap": 20}}
    return lacuna.Run.train(config, folder / "run", show=False)


def test_the_evaluation_of_a_recording(recording_run, tmp_path):
    run = recording_run
    table = run.evaluation.to_pandas().set_index(["part", "session", "predictor"])
    stored = json.loads((run.path / "recording_evaluation.json").read_text())
    for part in stored["parts"]:
        for session in part["sessions"]:
            found = session["all"]
            for score in found["scores"]:
                row = table.loc[part["part"], found["name"], score["predictor"]]
                assert row["spikes"] == found["spikes"]
                want = pd.Series(score["bits_per_spike"] + score["correlation"], dtype=float)
                names = [name + end for name in ("bits_per_spike", "correlation") for end in ("", "_low", "_high")]
                assert np.array_equal(row[names].astype(float), want, equal_nan=True)
        models = table.xs("model", level="predictor").loc[part["part"], "bits_per_spike"]
        assert models["mean of sessions"] == pytest.approx(models.drop("mean of sessions").mean(), rel=1e-9)
    assert "bits_per_spike" in run.evaluation._repr_html_() and run.metrics().filter(like="bits_per_spike").size
    assert run.checkpoint().stem == "best_bits_per_spike"
    assert run.evaluation.report(tmp_path / "report.html").stat().st_size > 10_000


def test_what_the_run_of_a_recording_does_not_have(recording_run):
    run = recording_run
    for call, words in {run.predictions: "keeps no predictions of samples", run.model: "has a model that lacuna.nn has not",
                        lambda: run.predict([["A"]]): "predicts no gene sets"}.items():
        with pytest.raises(lacuna.UsageError, match=f"run of a recording, which {words}; `lacuna predict .* writes its rates"):
            call()


def test_where_pandas_is_missing_the_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as where it is not installed
    for call in (run.metrics, run.evaluation.to_pandas, lambda: run.predict([[]])):
        with pytest.raises(ImportError, match=r"needs pandas: `pip install 'lacuna\[data\]'`"):
            call()


def test_what_is_no_run_is_named(tmp_path, screen):
    with pytest.raises(lacuna.Error, match="run"):
        lacuna.Run.open(screen.path)
    with pytest.raises(lacuna.Error):
        lacuna.Run.train(tmp_path / "no.yaml", tmp_path / "out")
