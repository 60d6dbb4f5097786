"""lacuna ensemble as a user meets it: means of runs and baselines, evaluated like a run."""

import json
import os

import numpy as np
import pytest
from program import TORCH_PROGRAM, fail, succeed

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
    assert "finished" in succeed("info", folder / "mean")


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
    assert not (folder / "no").exists()
