"""lacuna ensemble as a user meets it: means of runs and baselines, evaluated like a run."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from program import TORCH_PROGRAM, fail, lacuna, succeed

os.environ.setdefault("OMP_NUM_THREADS", "1")
pytestmark = pytest.mark.skipif(not TORCH_PROGRAM.exists(), reason="this build has no torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three sets of predictions of one split by gene as runs, the third of another split."""
    folder = tmp_path_factory.mktemp("ensemble")
    screen = folder / "screen"
    succeed("generate", "screen", screen, "--size", "tiny", "--samples", 400, "--seed", 1)
    rng = np.random.default_rng(1)
    labels = np.load(screen / "samples" / "label.npy").ravel()
    for name, split, noise in (("a", "gene", 1), ("b", "gene", 3), ("c", "other", 1)):
        if not (screen / "splits" / f"{split}.npy").exists():
            succeed("split", screen, "--name", split, "--by", "gene", "--fractions", "0.5,0.2,0.3", "--seed", 1)
        np.save(folder / f"{name}.npy", labels + noise * labels.std() * rng.normal(size=len(labels)))
        succeed("evaluate", "--predictions", folder / f"{name}.npy", "--screen", screen, "--split", split, "--out",
                folder / name)
    return folder


def predictions(run, what, part="test"):
    return np.load(run / "predictions" / f"{part}.{what}.npy")


def test_the_mean_and_the_spread_are_those_of_numpy(folder):
    said = succeed("ensemble", folder / "a", folder / "b", "--out", folder / "mean")
    for part in ("validation", "test"):
        both = np.stack([predictions(folder / name, "predicted", part) for name in "ab"])
        np.testing.assert_allclose(predictions(folder / "mean", "predicted", part), both.mean(0), rtol=1e-5)
        np.testing.assert_allclose(predictions(folder / "mean", "spread", part), both.std(0), rtol=1e-4, atol=1e-7)
    test = json.loads((folder / "mean" / "evaluation.json").read_text())["parts"]["test"]
    (label,) = test["labels"].values()
    assert {"network", "member 1", "member 2"} <= label["baselines"].keys()
    assert [of["level"] for of in label["uncertainty"]["coverage"]] == [0.5, 0.8, 0.9, 0.95]
    assert "calibrated on validation" in said and "member 2" in said
    succeed("report", folder / "mean", "--out", folder / "mean.html")
    page = (folder / "mean.html").read_text()
    assert "from the spread over members" in page
    for of in label["uncertainty"]["coverage"]:
        assert f'{of["level"]:.0%}</td><td class="n">{of["covered"]:.1%}</td>' in page
    said = succeed("info", folder / "mean")
    assert "finished; an ensemble of 2 members" in said and "weight 0.500" in said and "metrics.jsonl" not in said
    told = json.loads(succeed("info", folder / "mean", "--json"))
    assert [member["run"] for member in told["ensemble"]["members"]] == [str(folder / name) for name in "ab"]
    assert told["ensemble"]["members"][0]["weights"] == [0.5] and told["model"] is None


def section(page, name):
    return re.search(rf'<section id="{name}">(.*?)</section>', page, re.DOTALL)[1]


def test_a_member_is_not_a_baseline(folder):
    """The best baseline is the best of the first run's, though a member is better; and parts come as a training has them."""
    out = folder / "judged"
    said = succeed("ensemble", folder / "a", folder / "b", "--baseline", "network", "--out", out)
    parts = [line.split()[0] for line in said.splitlines() if line.split()[1:2] == ["model"]]
    assert parts == ["validation", "test"]
    (label,) = json.loads((out / "evaluation.json").read_text())["parts"]["test"]["labels"].values()
    baselines = {name: scores["pearson"] for name, scores in label["baselines"].items() if scores["pearson"] is not None}
    assert [name for name in baselines if label["baselines"][name].get("is_member")] == ["member 1", "member 2", "member 3"]
    assert max(baselines, key=baselines.get) == "member 1"
    best = max((name for name in baselines if "member" not in name), key=baselines.get)
    assert f"(best baseline, {best}: {baselines[best]:.3f}" in succeed("info", out)
    succeed("report", out, "--out", folder / "judged.html")
    page = (folder / "judged.html").read_text()
    summary = section(page, "summary")
    assert f"The best simple baseline, {best}, reaches" in summary
    assert f"member 2: {folder}/b, weight 0.333" in summary and f"baseline network of {folder}/a" in summary
    assert "average of runs: nothing was trained" in section(page, "training")
    again = section(page, "config")
    assert f"lacuna ensemble {folder}/a {folder}/b --baseline network --out {out}-again" in again
    assert "lacuna train" not in again and "config.yaml" not in again
    networks = section(page, "networks")
    assert f"lacuna explain {folder}/a" in networks and f"lacuna explain {out}" not in networks
    groups = section(page, "groups")
    assert "best baseline: member" not in groups and ">network</text>" in groups


def test_a_damaged_ensemble_is_named_and_the_rest_is_shown(folder):
    shutil.copytree(folder / "mean", folder / "damaged")
    file = folder / "damaged" / "ensemble.json"
    file.write_text(file.read_text().replace("0.5", "0.4"))
    for form in ((), ("--json",)):
        done = lacuna("info", folder / "damaged", *form)
        assert done.returncode == 1 and "ensemble.json" in done.stderr
        assert ("Pearson of gene_interaction" in done.stdout) if not form else json.loads(done.stdout)["damaged"] == ["ensemble.json"]


def test_weights_are_chosen_on_validation(folder):
    out = folder / "weighted"
    succeed("ensemble", folder / "a", folder / "b", "--baseline", "network", "--weights", "validation", "--out", out)
    told = json.loads((out / "ensemble.json").read_text())
    weights = np.array([*(list(member["weights"].values())[0] for member in told["members"])])
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all() and weights[0] > weights[1]
    members = np.stack([predictions(folder / name, "predicted", "validation")[:, 0] for name in "ab"]
                       + [predictions(folder / "a", "baseline.network", "validation")[:, 0]])
    measured = predictions(folder / "a", "measured", "validation")[:, 0]
    error = lambda w: np.mean((w @ members - measured) ** 2)
    for other in np.random.default_rng(2).dirichlet(np.ones(3), 500):
        assert error(weights) <= error(other) * (1 + 1e-9)


def test_what_does_not_fit_is_named(folder):
    assert "splits 'gene' and 'other'" in fail("ensemble", folder / "a", folder / "c", "--out", folder / "no")
    assert "no baseline 'gnn'" in fail("ensemble", folder / "a", folder / "b", "--baseline", "gnn", "--out", folder / "no")
    assert "at least two members" in fail("ensemble", folder / "a", "--out", folder / "no", code=2)
    assert "named twice" in fail("ensemble", folder / "a", f"{folder}/./a", "--out", folder / "no", code=2)
    assert "baseline 'network' is named twice" in fail("ensemble", folder / "a", "--baseline", "network", "--baseline",
                                                       "network", "--out", folder / "no", code=2)
    succeed("ensemble", folder / "a", folder / "b", "--out", folder / "both")
    said = fail("ensemble", folder / "a", folder / "both", "--out", folder / "no")
    assert "both is an ensemble itself" in said and f"{folder}/a, {folder}/b" in said
    assert not (folder / "no").exists()


def test_what_it_predicts_anew_is_what_was_evaluated(tmp_path):
    """Of runs and baselines, whatever is asked beside it; pairs of which one gene, or both, were never seen."""
    screen = tmp_path / "screen"
    succeed("generate", "screen", screen, "--size", "tiny", "--removed", 2, "--samples", 300, "--seed", 1, "--modules", 4,
            "--share-module", 0.6)
    succeed("split", screen, "--name", "gene", "--by", "gene", "--fractions", "0.6,0.2,0.2", "--seed", 1)
    settings = [f"screen={screen}", "split=gene", "model.name=wild_type", "model.width=8", "train.epochs=2", "train.hide=0.3",
                "train.device=cpu", "evaluate.bootstrap=0"]
    (tmp_path / "config.yaml").write_text(f"screen: {screen}\n")
    for seed in (1, 2):
        succeed("train", tmp_path / "config.yaml", "--out", tmp_path / f"run{seed}",
                *(word for setting in [*settings, f"train.seed={seed}"] for word in ("--set", setting)))
    all_ = tmp_path / "all"
    succeed("ensemble", tmp_path / "run1", tmp_path / "run2", "--baseline", "network", "--baseline", "ridge", "--weights",
            "validation", "--out", all_)
    numbers = predictions(all_, "sample").ravel()
    names = np.array((screen / "nodes/gene.txt").read_text().split())
    removed = names[np.load(screen / "samples/removed.npy").reshape(-1, 2)]
    (tmp_path / "asked.csv").write_text("".join(f"{a} {b}\n" for a, b in removed[numbers]))
    expected = np.column_stack([predictions(all_, "predicted")[:, 0], predictions(all_, "spread")[:, 0]])
    succeed("predict", all_, "--samples", tmp_path / "asked.csv", "--out", tmp_path / "said.csv", "--batch", 7)
    said = np.loadtxt(tmp_path / "said.csv", delimiter=",", skiprows=1, usecols=(2, 3))
    np.testing.assert_allclose(said, expected, rtol=1e-4, atol=1e-6)
    told = succeed("predict", all_, "--all-pairs", "--out", tmp_path / "pairs.csv")
    lines = [line.split(",") for line in (tmp_path / "pairs.csv").read_text().splitlines()[1:]]
    of_pair = {frozenset(line[:2]): [float(line[2]), float(line[3])] for line in lines}
    assert len(of_pair) == 780, told
    np.testing.assert_allclose([of_pair[frozenset(pair)] for pair in removed[numbers]], said, rtol=1e-4, atol=1e-6)
    succeed("ensemble", tmp_path / "run1", "--baseline", "mlp", "--out", tmp_path / "mlp")
    assert "baseline 'mlp' cannot be fitted" in lacuna("predict", tmp_path / "mlp", "--all-pairs", "--out",
                                                       tmp_path / "no.csv").stderr
    assert not (tmp_path / "no.csv").exists()
