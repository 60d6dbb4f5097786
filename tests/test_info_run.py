"""`lacuna info RUN`: what a run is and how far it came, from its files alone."""

import fcntl
import json

import numpy as np
import pytest
from program import fail, lacuna, succeed
from run_files import make_run


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    path = tmp_path_factory.mktemp("info") / "screen"
    succeed("generate", "screen", path, "--size", "tiny", "--samples", "300", "--seed", "1")
    return path


def lines(run):
    """The words behind the first one of each line."""
    text = succeed("info", run)
    assert text.startswith(f"{run}: a run\n")
    return dict(line.split(maxsplit=1) for line in text.splitlines()[1:] if len(line.split()) > 1)


def about(run):
    return json.loads(succeed("info", run, "--json"))


def test_a_finished_run(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, labels=("a", "b"), epochs=5, steps_per_epoch=10, profile=True)
    said, facts = lines(run), about(run)
    assert said["state"] == "finished; 5 of 5 epochs, 50 steps"
    assert said["screen"] == f"{screen} (40 genes, 300 samples)"
    assert said["split"] == "random" and said["model"] == "hetero_gin, 1,781,187 parameters"
    # The best epoch and the evaluation, from the files by NumPy.
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    pearsons = [np.mean([label["pearson"] for label in line["validation"].values()])
                for line in records if line["kind"] == "epoch"]  # fmt: skip
    best = int(np.argmax(pearsons))
    assert said["best"] == f"validation Pearson {pearsons[best]:.3f} (mean over labels) in epoch {best + 1}"
    assert facts["best"] == {"epoch": best, "validation_pearson": pytest.approx(pearsons[best])}
    test = json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]
    for label in "ab":
        assert f"test Pearson of {label} {test[label]['model']['pearson']:.3f} (best baseline, " in said["evaluation"]
    files = {path.name: path.stat().st_size for path in run.iterdir() if path.is_file()}
    files["predictions/"] = sum(path.stat().st_size for path in (run / "predictions").iterdir())
    assert facts["files"] == files
    assert (facts["state"], facts["epochs"], facts["steps"], facts["evaluated"]) == ("finished", 5, 50, True)


def test_the_exit_code_of_the_training(screen, tmp_path):
    for state, code in {"finished": 0, "stopped": 75, "failed": 1, "running": 1}.items():
        run = make_run(tmp_path / state, screen, status=state)
        assert lacuna("info", run, "--exit-code").returncode == code
        assert lacuna("info", run).returncode == 0
    assert "--exit-code is for runs" in fail("info", screen, "--exit-code", code=2)


def test_how_far_a_run_came(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, status="stopped", epochs=9, steps_per_epoch=4, evaluated=False)
    kept = [line for line in (run / "metrics.jsonl").read_text().splitlines(True) if json.loads(line)["epoch"] < 3]
    (run / "metrics.jsonl").write_text("".join(kept))
    said = lines(run)
    assert said["state"] == f"stopped; 3 of 9 epochs, 12 steps; `lacuna train --resume --out {run}` goes on"
    assert said["evaluation"] == "not evaluated"
    failed = make_run(tmp_path / "failed", screen, status="failed", message="no memory", validation=False)
    assert "failed; 12 of 12 epochs" in lines(failed)["state"] and "it said: no memory" in lines(failed)["state"]
    assert "best" not in lines(failed)


def test_a_run_that_says_it_is_running_is_so_while_somebody_holds_it(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, status="running")
    assert about(run)["state"] == "killed"
    with open(run / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert about(run)["state"] == "running" and "--resume" not in lines(run)["state"]
    assert about(run)["state"] == "killed" and "--resume" in lines(run)["state"]


def test_what_cannot_be(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    assert "--check is for screens" in fail("info", run, "--check", code=2)
    (run / "evaluation.json").write_text("{")
    assert "evaluation.json is damaged" in fail("info", run)
    (run / "run.json").write_text("{")
    assert "run.json is damaged" in fail("info", run)
