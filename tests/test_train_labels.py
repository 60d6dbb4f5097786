"""Labels in training: several, missing, weighed, and those that validation cannot judge."""

import json
import shutil

import numpy as np
import pytest
from program import lacuna, succeed
from train_files import assert_same_bits, assert_same_story, change_labels, error, lines, make_tables, train, train_all, words


def test_a_label_that_is_infinite_is_found_before_training(folder):
    shutil.copytree(folder / "screen", folder / "infinite")
    (sample, *_) = np.flatnonzero(np.load(folder / "infinite" / "splits" / "random.npy") == 2)
    change_labels(folder / "infinite", sample, np.inf)
    assert f"of sample {sample} is infinite" in error(1, *words(folder, folder / "no-infinite", screen="infinite"))
    assert not (folder / "no-infinite").exists()


@pytest.fixture(scope="module")
def split(folder):
    return make_tables(folder, "tables-again")


def test_several_labels_with_missing_values(folder, split):
    call = dict(screen="tables", split=split)
    run, one = train_all(folder, both=dict(train__epochs=2, evaluate__baselines="true", **call),
                         second=dict(labels="[second]", train__epochs=1, **call))
    validation = lines(run, "epoch")[-1]["validation"]
    assert validation["first"]["count"] == 20 and validation["second"]["count"] < 20
    measured = np.load(run / "predictions" / "test.measured.npy")
    predicted = np.load(run / "predictions" / "test.predicted.npy")
    assert measured.shape == predicted.shape == (20, 2) and np.isnan(measured[:, 1]).any()
    assert np.isfinite(predicted).all() and not np.isnan(measured[:, 0]).any()
    model = json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["second"]
    kept = ~np.isnan(measured[:, 1])
    assert model["model"]["count"] == kept.sum()
    assert model["model"]["mse"] == pytest.approx(np.mean((predicted - measured)[kept, 1] ** 2.0), rel=1e-4)
    assert {"mean", "gene", "ridge", "mlp"} <= set(model["baselines"])
    assert np.load(one / "predictions" / "test.measured.npy").shape == (20, 1)


@pytest.fixture(scope="module")
def six_labels(folder, split):
    """The tables with `first` to `sixth`, the last four of them noise."""
    rng = np.random.default_rng(4)
    source = (folder / "tables-again-source" / "rows.csv").read_text().splitlines()
    more = [",third,fourth,fifth,sixth"] + ["".join(f",{v:.3f}" for v in rng.normal(size=4)) for _ in source[1:]]
    (folder / "six.csv").write_text("\n".join(map(str.__add__, source, more)) + "\n")
    tables = folder / "tables-again-source"
    succeed("import", "screen", folder / "six", "--genes", tables / "genes.csv", "--network", f"physical={tables}/edges.csv",
            "--samples", f"{folder}/six.csv,removed=a+b,label=first+second+third+fourth+fifth+sixth,split=part")
    return dict(screen="six", split=next((folder / "six" / "splits").glob("*.npy")).stem, train__epochs=1)


def epoch_line(said):
    (line,) = (line for line in said.splitlines() if line.startswith("epoch   1/1"))
    return line


def test_progress_names_each_of_a_few_labels_and_their_mean(folder, six_labels):
    said = epoch_line(succeed(*words(folder, folder / "few-labels", labels="[second, first]", **six_labels)))
    of = lines(folder / "few-labels", "epoch")[0]["validation"]
    for label in ("first", "second"):
        assert f"  {label}: Pearson {of[label]['pearson']:.4f}  " in said
    assert f"  mean of 2: Pearson {np.mean([label['pearson'] for label in of.values()]):.4f}" in said


def test_progress_of_many_labels_is_their_mean_the_best_and_the_worst(folder, six_labels):
    said = epoch_line(succeed(*words(folder, folder / "many", **six_labels)))
    of = {name: label["pearson"] for name, label in lines(folder / "many", "epoch")[0]["validation"].items()}
    assert len(of) == 6 and f"  mean of 6: Pearson {np.mean([*of.values()]):.4f}" in said
    best, worst = max(of, key=of.get), min(of, key=of.get)
    assert f"  best {best} {of[best]:.4f}  worst {worst} {of[worst]:.4f}" in said


def test_weights_of_samples(folder, split):
    call = dict(screen="tables", split=split, train__epochs=1)
    plain, weighted = train_all(folder, plain=call, weighted=dict(train__weight_column="weight", **call))
    assert lines(plain, "step")[0]["loss"] != lines(weighted, "step")[0]["loss"]
    assert "weight -1 in column 'signed'" in error(1, *words(folder, folder / "no", train__weight_column="signed", **call))
    assert "nothere" in error(1, *words(folder, folder / "no2", train__weight_column="nothere", **call))
    assert "has categories" in error(1, *words(folder, folder / "no3", train__weight_column="screen", **call))


def test_weights_may_be_any_numbers_and_only_those_of_training_count(folder, split):
    def change(rows):
        for row in rows:
            row["weight"] = 16777217 if row["part"] == "train" else ""  # f64: f32 would lose the last digit

    call = dict(screen="double", split=make_tables(folder, "double", change), train__epochs=1)
    assert np.load(folder / "double" / "samples" / "weight.npy").dtype == np.float64
    plain, weighted = train_all(folder, unweighted=call, double_run=dict(train__weight_column="weight", **call))
    for a, b in zip(lines(plain, "step"), lines(weighted, "step")):  # all weigh the same
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)


def test_a_label_named_twice_is_refused(folder, split):
    message = error(1, *words(folder, folder / "twice", screen="tables", split=split, labels="[first, second, first]"))
    assert "label 'first' is named twice" in message and not (folder / "twice").exists()


def test_the_mlp_baseline_does_not_depend_on_the_models_settings(folder):
    call = dict(train__epochs=1, evaluate__baselines="true")
    runs = train_all(folder, mlp_one=call, mlp_other=dict(train__weight_decay=0.9, train__clip=1e-3, **call))
    one, other = (json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["gene_interaction"] for run in runs)
    assert one["baselines"]["mlp"] == other["baselines"]["mlp"] and one["model"] != other["model"]


def test_test_labels_do_not_reach_the_training(folder, split):
    def change(rows):
        for row in rows:
            if row["part"] == "test":
                row["first"] = 1000.0

    make_tables(folder, "changed", change)
    runs = train_all(folder, **{f"leak-{screen}": dict(screen=screen, split=split, train__epochs=2)
                                for screen in ("tables", "changed")})
    assert_same_bits(*runs)
    assert_same_story(*runs)


# ---- validation that cannot judge
def tables(folder, name, change):
    """Changes the rows of the validation part."""
    def change_all(rows):
        for row in rows:
            if row["part"] == "validation":
                change(row)

    return dict(screen=name, split=make_tables(folder, name, change_all))


def checkpoints(run):
    return {path.stem for path in (run / "checkpoints").iterdir()}


@pytest.mark.parametrize("value, expected", [("5.0", {"last", "best_mse"}), ("", {"last"})])
def test_without_a_validation_pearson_the_last_weights_count(folder, value, expected):
    name = f"unjudged-{len(value)}"
    changes = {**tables(folder, name, lambda row: row.update(first=value)), "labels": "[first]"}
    done = lacuna(*words(folder, folder / f"{name}-run", **changes))
    assert done.returncode == 0, done.stderr
    assert "two different values of label first" in done.stderr and "the last weights" in done.stderr
    assert checkpoints(folder / f"{name}-run") == expected
    assert json.loads((folder / f"{name}-run" / "evaluation.json").read_text())["checkpoint"] == "last"
    assert "whose labels differ" in error(1, *words(folder, folder / "no-patience", **changes, train__patience=2))


def test_labels_that_cannot_be_judged_take_no_part(folder):
    changes = tables(folder, "half-judged", lambda row: row.update(second=""))
    run = train(folder, folder / "half-judged-run", **changes, train__epochs=6, train__lr=0.03)
    first = [line["validation"]["first"] for line in lines(run, "epoch")]
    for name, best in (("pearson", max), ("mse", min)):
        succeed("evaluate", run, "--checkpoint", f"best_{name}")
        found = json.loads((run / "evaluation.json").read_text())["parts"]["validation"]["labels"]["first"]["model"]
        assert found[name] == pytest.approx(best(line[name] for line in first), rel=1e-5)


def test_the_mlp_keeps_its_last_weights_where_nothing_is_measured(folder):
    """As without a validation part."""
    call = dict(labels="[first]", train__epochs=1, evaluate__parts="[test]", evaluate__baselines="true")
    missing = tables(folder, "mlp-missing", lambda row: row.update(first=""))
    without = tables(folder, "mlp-without", lambda row: row.update(first="", part="test"))
    runs = train_all(folder, mlp_missing_run={**call, **missing}, mlp_without_run={**call, **without})
    one, other = (json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["first"] for run in runs)
    assert one["baselines"]["mlp"] == other["baselines"]["mlp"]
