"""Every file of configs/ makes a model and trains it, on a tiny screen; those of recordings in test_train_recording.py."""

import json

import pytest
from program import ROOT, new_screen, succeed

CONFIGS = sorted(path for path in (ROOT / "configs").glob("*.yaml") if "\nrecording:" not in path.read_text())


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    return new_screen(tmp_path_factory.mktemp("configs") / "screen", "--samples", 100)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_it_trains(config, screen, tmp_path):
    changes = [f"screen={screen}", "split=random", "train.epochs=1", "train.device=cpu", "model.width=8",
               "evaluate.baselines=false", "evaluate.bootstrap=0"]
    succeed("train", config, "--out", tmp_path / "run", *(word for change in changes for word in ("--set", change)))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


def test_what_there_is():
    names = {path.stem for path in CONFIGS}
    assert {"tiny", "demo", "yeast-sum", "yeast-pairwise", "dango", "costanzo2010", "collins2007", "unseen-collins2007",
            "unseen-costanzo2010", "unseen-demo"} <= names
