"""A run whose screen, split or samples are not what they were."""

import json
import shutil
import signal

import numpy as np
import pytest
from program import Started, lacuna, new_screen, succeed
from train_files import assert_same_bits, change_labels, error, lines, make_tables, status, train, words


def test_only_genes_and_graph_bind_a_checkpoint(folder, reference):
    new_screen(folder / "other-graph", seed=7)
    other = ["--out", folder / "elsewhere"]
    message = error(1, "evaluate", reference, "--screen", folder / "other-graph", *other)
    assert "edges gene.physical.gene" in message and "genes," not in message
    make_tables(folder, "other-genes")
    succeed("split", folder / "other-genes", "--name", "random", "--by", "random", "--seed", 1)
    assert error(1, "evaluate", reference, "--screen", folder / "other-genes", *other)
    before = (reference / "evaluation.json").read_bytes()
    succeed("subset", folder / "screen", folder / "fewer", "--where", "split:random=train,test")
    assert "--out" in error(2, "evaluate", reference, "--screen", folder / "fewer")
    done = lacuna("evaluate", reference, "--screen", folder / "fewer", *other)
    assert done.returncode == 0, done.stderr
    parts = json.loads((folder / "elsewhere" / "evaluation.json").read_text())["parts"]
    assert set(parts) == {"test"}
    assert before == (reference / "evaluation.json").read_bytes()
    whole = json.loads(before)["parts"]["test"]["labels"]["gene_interaction"]["model"]
    assert parts["test"]["labels"]["gene_interaction"]["model"]["mse"] == pytest.approx(whole["mse"])


def draw_anew(screen, seed):
    """Another split under the same name; gives its parts."""
    succeed("split", screen, "--name", "random", "--remove")
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", seed)
    return np.load(screen / "splits" / "random.npy").copy()


def test_a_split_that_was_drawn_anew_is_not_taken_for_the_old_one(folder, long_reference):
    screen, out = folder / "redrawn", folder / "redrawn-run"
    shutil.copytree(folder / "screen", screen)
    drawn = np.load(screen / "splits" / "random.npy").copy()
    started = Started(*words(folder, out, screen="redrawn", train__epochs=16))
    assert started.wait_for(lambda: len(lines(out)) >= 25)
    assert started.end(signal.SIGTERM) == 75
    anew = draw_anew(screen, 99)
    moved, test = np.sum(drawn != anew), anew == 2
    message = error(1, "train", "--resume", "--out", out)
    assert f"split 'random' of {screen} is not the one" in message and f"{moved} of 200 samples" in message
    assert "--seed 1`" in message and status(out) == "stopped"
    said = lacuna("evaluate", out).stderr
    assert f"{moved} of 200 samples are in another part now" in said
    assert f"{np.sum(test & (drawn == 0))} of {test.sum()} test samples remove the same genes" in said
    succeed("report", out, "--out", folder / "redrawn.html")
    kept = json.loads((out / "evaluation.json").read_text())["notes"]  # what is shown later says it, too
    assert all(f"note: {note}\n" in said for note in kept) and len(kept) >= 2
    page = (folder / "redrawn.html").read_text()
    assert "are in another part now" in page and "test samples remove the same genes" in page
    draw_anew(screen, 1)
    succeed("train", "--resume", "--out", out)
    succeed("split", screen, "--name", "random", "--remove")
    assert "no split 'random'" in error(1, "evaluate", out)
    succeed("split", screen, "--name", "random", "--by", "random", "--seed", 1)
    assert_same_bits(out, long_reference)
    assert "part now" not in lacuna("evaluate", out).stderr


def test_a_run_goes_on_where_its_screen_has_moved(folder, long_reference):
    out = folder / "moved-run"
    shutil.copytree(folder / "screen", folder / "here")
    started = Started(*words(folder, out, screen="here", train__epochs=16))
    assert started.wait_for(lambda: len(lines(out)) >= 25)
    assert started.end(signal.SIGTERM) == 75
    (folder / "here").rename(folder / "there")
    message = error(1, "train", "--resume", "--out", out)
    assert f"no screen {folder / 'here'}" in message
    command = message.split("`lacuna ")[1].rstrip("`").replace("DIRECTORY", str(folder / "there"))
    succeed(*command.split())
    assert_same_bits(out, long_reference)
    assert f"screen: {folder}/there\n" in (out / "config.yaml").read_text()
    assert json.loads((out / "run.json").read_text())["screen"]["path"] == str(folder / "there")
    succeed("evaluate", out)


def test_samples_that_were_trained_on_are_told(folder, reference):
    drawn = np.load(folder / "screen" / "splits" / "random.npy")
    shutil.copytree(folder / "screen", folder / "drawn-anew")
    test = draw_anew(folder / "drawn-anew", 99) == 2
    seen = np.sum(test & (drawn == 0))
    assert 0 < seen < test.sum()
    done = lacuna("evaluate", reference, "--screen", folder / "drawn-anew", "--out", folder / "leaked")
    assert done.returncode == 0, done.stderr
    assert f"{seen} of {test.sum()} test samples remove the same genes as one that the run was trained on" in done.stderr


def stopped_while_the_screen_grows(folder, name):
    """A run that was stopped in its second epoch; its screen, `name`, has more samples since, the old ones in their parts."""
    shutil.copytree(folder / "screen", folder / name)
    out = folder / f"{name}-run"
    started = Started(*words(folder, out, screen=name, train__epochs=16))
    assert started.wait_for(lambda: len(lines(out)) >= 25)
    assert started.end(signal.SIGTERM) == 75
    parts = np.concatenate([np.load(folder / name / "splits" / "random.npy"), np.repeat([0, 1, 2], [32, 4, 4])])
    shutil.rmtree(folder / name)
    succeed("generate", "screen", folder / name, "--size", "tiny", "--samples", 240, "--seed", 1)
    lists = {part: np.flatnonzero(parts == code).tolist() for code, part in enumerate(["train", "validation", "test"])}
    (folder / f"{name}.json").write_text(json.dumps(lists))
    succeed("split", folder / name, "--name", "random", "--by", "file", "--file", folder / f"{name}.json")
    return out


def test_a_run_goes_on_with_new_samples(folder):
    out = stopped_while_the_screen_grows(folder, "growing")
    done = lacuna("train", "--resume", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "192 training samples, and had 160 before" in done.stderr


def test_the_batch_of_a_bad_loss_is_named_after_the_samples_have_changed(folder):
    out = stopped_while_the_screen_grows(folder, "spoilt")
    training = np.flatnonzero(np.load(folder / "spoilt" / "splits" / "random.npy") == 0)
    change_labels(folder / "spoilt", training[-1], 3e38)  # finite, but not in units of the scale that the run has
    assert "not finite" in error(1, "train", "--resume", "--out", out)
    bad = json.loads((out / "bad_batch.json").read_text())
    assert training[-1] in bad["samples"] and len(bad["samples"]) == 8


def test_what_a_model_does_not_read_does_not_bind_its_checkpoint(folder):
    make_tables(folder, "bound")
    source = folder / "bound-source"
    edges = (source / "edges.csv").read_text().splitlines()
    for number in (1, 2):
        rng = np.random.default_rng(number)
        weighted = [f"{edge},{rng.uniform():.3f}" for edge in edges[1:]]
        (source / "weighted.csv").write_text("\n".join([edges[0] + ",weight", *weighted]) + "\n")
        np.save(source / "numbers.npy", rng.normal(size=(12, 2)).astype(np.float32))
        succeed("import", "screen", folder / f"bound-{number}", "--genes", source / "genes.csv",
                "--network", f"physical={source}/weighted.csv,weight=weight", "--features", f"x={source}/numbers.npy",
                "--samples", f"{source}/rows.csv,removed=a+b,label=first,split=part")
    (name,) = (path.stem for path in (folder / "bound-1" / "splits").glob("*.npy"))
    call = dict(screen="bound-1", split=name, train__epochs=1)
    done = lacuna(*words(folder, folder / "unbound", **call))
    assert done.returncode == 0 and "edges have values (weights) in physical: this model reads which edges there are" in done.stderr
    succeed("evaluate", folder / "unbound", "--screen", folder / "bound-2", "--out", folder / "unbound-elsewhere")
    bound = train(folder, folder / "bound-run", model__features="beside", **call)
    message = error(1, "evaluate", bound, "--screen", folder / "bound-2", "--out", folder / "bound-elsewhere")
    assert "features gene.x" in message and "values" not in message
