"""lacuna evaluate as a user meets it: intervals over what was held out, differences from the same draws, baselines told
apart by what they were fitted on, and files that are checked."""

import json
import os
import shutil

import numpy as np
import pytest
from program import accept_file, lacuna, succeed

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: a second thread only waits

SETTINGS = {"model.name": "mlp", "model.width": 8, "train.epochs": 1, "train.batch": 16, "train.warmup_steps": 0,
            "evaluate.bootstrap": 200}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A screen with a split by pair and one by gene, and a column of weights; a run on the split by pair, `run`."""
    folder = tmp_path_factory.mktemp("evaluate")
    succeed("generate", "screen", folder / "generated", "--size", "tiny", "--samples", 600, "--seed", 1)
    for by in ("pair", "gene"):
        succeed("split", folder / "generated", "--name", by, "--by", by, "--fractions", "0.5,0.1,0.4", "--seed", 1)
    train(folder, "run", split="pair")
    return folder


def train(folder, name, screen="generated", **changes):
    (folder / "empty.yaml").write_text("{}\n")
    settings = {**SETTINGS, "screen": folder / screen, **{key.replace("__", "."): value for key, value in changes.items()}}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return succeed("train", folder / "empty.yaml", "--out", folder / name, *words)


def evaluation(run, part="test"):
    return json.loads((run / "evaluation.json").read_text())["parts"][part]


def sets_of(screen):
    """The genes that each sample removes, as NumPy reads them."""
    removed, ptr = (np.load(screen / "samples" / f"{name}.npy") for name in ("removed", "ptr"))
    return [frozenset(removed[a:b].tolist()) for a, b in zip(ptr, ptr[1:])]


def test_intervals_and_differences_are_those_of_draws_of_pairs(folder):
    run = folder / "run"
    of = evaluation(run)
    assert of["resampled"]["unit"] == "pairs" and 6 <= of["resampled"]["count"] < of["samples"] / 3
    draws = np.load(run / "predictions" / "test.draws.npy")  # [P, rounds, L, 3]
    assert draws.shape == (len(of["predictors"]), 200, 1, 3) and of["predictors"][0] == "model"
    (label,) = of["labels"].values()
    for p, name in enumerate(of["predictors"]):
        scores = label["model"] if p == 0 else label["baselines"][name]
        for m, metric in enumerate(("pearson", "spearman", "mse")):
            kept = draws[p, :, 0, m][~np.isnan(draws[p, :, 0, m])]
            if len(kept):
                assert scores["interval"][metric] == pytest.approx(list(np.quantile(kept, [0.025, 0.975])), rel=1e-4, abs=1e-5)
            if p == 0 or name == "mean":
                continue
            low, high = np.nanquantile(draws[0, :, 0, m] - draws[p, :, 0, m], [0.025, 0.975])
            difference = scores["difference"][metric]
            assert difference["interval"] == pytest.approx([low, high], rel=1e-3, abs=1e-5)
            assert difference["value"] == pytest.approx(label["model"][metric] - scores[metric])
            if metric == "pearson":
                expected = "ahead" if low > 0 else "behind" if high < 0 else "not told apart"
                assert scores["difference"]["model_is"] == expected and scores["difference"]["judged_by"] == "pearson"
    assert label["baselines"]["mean"]["difference"]["judged_by"] == "mse"
    # The baselines' predictions lie beside the model's.
    measured = np.load(run / "predictions" / "test.measured.npy")
    for name, scores in label["baselines"].items():
        predicted = np.load(run / "predictions" / f"test.baseline.{name}.npy")
        assert scores["mse"] == pytest.approx(np.mean((predicted - measured) ** 2.0), rel=1e-4)


def test_the_interval_of_a_split_by_gene_is_that_of_a_bootstrap_of_genes_in_numpy(folder):
    said = train(folder, "by-gene", split="gene")
    run, screen = folder / "by-gene", folder / "generated"
    of = evaluation(run)
    parts, sets = np.load(screen / "splits" / "gene.npy"), sets_of(screen)
    trained = frozenset().union(*(sets[s] for s in np.flatnonzero(parts == 0)))
    held = [sorted(sets[s] - trained) for s in np.flatnonzero(parts == 2)]
    genes = sorted({gene for genes in held for gene in genes})
    assert of["resampled"] | {"xxh3": ""} == {"unit": "genes", "count": len(genes), "xxh3": ""}
    assert f"draws of its {len(genes)} genes" in said
    predicted = np.load(run / "predictions" / "test.baseline.ridge.npy")[:, 0].astype(float)
    measured = np.load(run / "predictions" / "test.measured.npy")[:, 0].astype(float)
    rng, found = np.random.default_rng(1), []
    for _ in range(2000):
        times = dict(zip(genes, np.bincount(rng.integers(0, len(genes), len(genes)), minlength=len(genes))))
        weights = np.array([np.prod([times[gene] for gene in own]) for own in held], dtype=float)
        if weights.sum() > 0:
            found.append(np.average((predicted - measured) ** 2, weights=weights))
    (label,) = of["labels"].values()
    low, high = label["baselines"]["ridge"]["interval"]["mse"]
    expected = np.quantile(found, [0.025, 0.975])
    assert [low, high] == pytest.approx(list(expected), abs=0.35 * (expected[1] - expected[0]))


def test_what_the_model_is_stands_below_the_table(folder):
    done = lacuna("evaluate", folder / "run")
    assert done.returncode == 0, done.stderr
    (label,) = evaluation(folder / "run")["labels"].items()
    line = next(line for line in done.stdout.splitlines() if line.startswith(f"test: on '{label[0]}' the model is "))
    for name, scores in label[1]["baselines"].items():
        words = {"ahead": "ahead of", "behind": "behind", "not told apart": "not told apart from"}
        said = next(part for part in line.split("the model is ")[1].split("; ") if name in part.split(" ", 1)[1].replace(",", "").split())
        assert said.startswith(words[scores["difference"]["model_is"]]), line


def test_a_screen_of_the_same_samples_with_other_labels_is_another_screen(folder):
    shutil.copytree(folder / "generated", folder / "replicate")
    labels = folder / "replicate" / "samples" / "label.npy"
    np.save(labels, np.load(labels)[::-1].copy())
    accept_file(folder / "replicate", "samples/label.npy", "label gene_interaction")
    done = lacuna("evaluate", folder / "run", "--screen", folder / "replicate", "--out", folder / "of-replicate")
    assert done.returncode == 0, done.stderr
    load = lambda where, what: np.load(folder / where / "predictions" / f"test.{what}.npy")
    own, here, refitted = load("run", "baseline.ridge"), load("of-replicate", "baseline.ridge"), load(
        "of-replicate", "baseline.ridge.other")
    assert np.array_equal(own, here) and not np.allclose(here, refitted, atol=1e-6)
    assert not np.array_equal(load("run", "measured"), load("of-replicate", "measured"))


def test_baselines_of_another_screen_are_told_apart(folder):
    labels = np.load(folder / "generated" / "samples" / "label.npy").ravel()
    most = round(float(np.quantile(labels, 0.8)), 4)
    succeed("subset", folder / "generated", folder / "other", "--where", "split:pair=train,test", "--where",
            f"gene_interaction<={most}")

    def evaluate():
        done = lacuna("evaluate", folder / "run", "--screen", folder / "other", "--out", folder / "elsewhere")
        assert done.returncode == 0, done.stderr
        return done.stderr, evaluation(folder / "elsewhere")["labels"]["gene_interaction"]["baselines"]

    said, both = evaluate()
    names = ["mean", "gene", "pair", "ridge", "ridge_pairs", "network", "mlp"]
    assert list(both) == names + [f"{name} (fitted on other)" for name in names]
    assert "are fitted on the training part of split 'pair' of" in said
    # Those without a label are the run's own, on the samples that both have.
    load = lambda where, what: np.load(folder / where / "predictions" / f"test.{what}.npy")
    shared = load("run", "measured")[:, 0] <= most
    assert 0 < shared.sum() == len(load("elsewhere", "sample")) < len(shared)
    for name in names:
        own, here = load("run", f"baseline.{name}")[shared], load("elsewhere", f"baseline.{name}")
        assert np.allclose(own, here, atol=1e-6), name
        assert not np.allclose(here, load("elsewhere", f"baseline.{name}.other"), atol=1e-6), name
    page = folder / "elsewhere.html"
    shutil.copy(folder / "run" / "run.json", folder / "elsewhere")
    succeed("report", folder / "elsewhere", "--out", page)
    assert "ridge (fitted on other)" in page.read_text()
    (folder / "generated").rename(folder / "away")
    try:
        said, one = evaluate()
    finally:
        (folder / "away").rename(folder / "generated")
    assert "no baselines are fitted on the samples that the model was trained on: the screen" in said
    assert list(one) == [f"{name} (fitted on other)" for name in names]


def test_weights_of_samples_are_those_of_the_baselines_too(tmp_path):
    rng = np.random.default_rng(5)
    genes = [f"g{i}" for i in range(10)]
    rows = [(*rng.choice(10, 2, replace=False), rng.normal(), 0.001 * rng.integers(0, 4), ["train", "train", "test"][i % 3])
            for i in range(150)]
    (tmp_path / "genes.csv").write_text("\n".join(["gene", *genes]) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\ng0,g1\ng2,g3\n")
    lines = [f"{genes[a]},{genes[b]},{y:.6f},{w:.3f},{part}" for a, b, y, w, part in rows]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,label,weight,part", *lines]) + "\n")
    succeed("import", "screen", tmp_path / "screen", "--genes", tmp_path / "genes.csv", "--network",
            f"physical={tmp_path}/edges.csv", "--samples",
            f"{tmp_path}/rows.csv,removed=a+b,label=label,numbers=weight,split=part")
    (split,) = (tmp_path / "screen" / "splits").glob("*.npy")
    said = train(tmp_path, "run", screen="screen", split=split.stem, train__weight_column="weight", evaluate__parts="[test]")
    assert "was not drawn by lacuna" in said  # so samples are resampled, below the table
    x = np.zeros((150, 11))
    x[:, 0] = 1
    for i, (a, b, *_) in enumerate(rows):
        x[i, [a + 1, b + 1]] = 1
    y, w = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
    training, test = (np.array([row[4] == part for row in rows]) for part in ("train", "test"))
    used = training & (w > 0)
    w = w / w[used].mean()
    mean = np.average(y[used], weights=w[used])
    assert np.allclose(np.load(tmp_path / "run" / "predictions" / "test.baseline.mean.npy")[:, 0], mean, atol=1e-5)
    gram = x[used].T @ (w[used, None] * x[used]) + np.diag([0] + [1] * 10)  # strength 1, the intercept not shrunk
    effects = np.linalg.solve(gram, x[used].T @ (w[used] * y[used]))
    assert np.allclose(np.load(tmp_path / "run" / "predictions" / "test.baseline.gene.npy")[:, 0], x[test] @ effects, atol=1e-4)


@pytest.mark.parametrize("name", ["predictions/test.predicted.npy", "predictions/test.baseline.ridge.npy",
                                  "predictions/validation.draws.npy", "evaluation.json"])
def test_a_changed_byte_is_said_by_name(folder, tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    path = run / name
    whole = bytearray(path.read_bytes())
    whole[len(whole) * 2 // 3] ^= 1
    path.write_bytes(whole)
    for words in (["info", run], ["report", run, "--out", tmp_path / "report.html"]):
        done = lacuna(*words)
        assert done.returncode == 1 and path.name in done.stdout + done.stderr, done.stderr
