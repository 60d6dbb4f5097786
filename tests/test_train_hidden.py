"""`train.hide`: runs that hide genes go on in the same bits, and say which genes they never saw."""

import json
import signal

import numpy as np
import pytest
from checkpoint_files import tensors
from program import Started, lacuna, succeed
from train_files import assert_same_bits, assert_same_story, error, lines, make_tables, train, weights, words


def about(run, name="last"):
    data = (run / "checkpoints" / f"{name}.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["lacuna"])


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    """A screen whose gene g11 is in no training sample, and g10 in one that has no label."""
    folder = tmp_path_factory.mktemp("hidden")

    def take_out(rows):
        for row in rows:
            if "g11" in (row["a"], row["b"]) and row["part"] == "train":
                row["part"] = "test"
        for row in rows:
            if "g10" in (row["a"], row["b"]) and row["part"] == "train":
                row["first"] = row["second"] = ""

    return folder, make_tables(folder, "screen", take_out)


def settings(unseen, **changes):
    return dict(split=unseen[1], train__hide=0.3, train__epochs=12, model__name="wild_type", **changes)


def test_a_stopped_run_goes_on_in_the_same_bits(unseen):
    folder, _ = unseen
    whole = train(folder, folder / "whole", **settings(unseen))
    out = folder / "stopped"
    started = Started(*words(folder, out, **settings(unseen)))
    assert started.wait_for(lambda: len(lines(out, "step")) >= 11)
    if started.end(signal.SIGTERM) == 75:  # else it was faster than the signal
        succeed("train", "--resume", "--out", out)
    assert_same_bits(out, whole)
    assert_same_story(out, whole)
    assert np.linalg.norm(weights(whole)["hidden.unknown"]) > 0


@pytest.mark.parametrize("model", ["wild_type", "hetero_gin"])
def test_a_recorded_step_hides_what_the_step_draws(unseen, model):
    """A recording that replayed one draw for ever would part from the CPU's losses."""
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no GPU")
    folder, _ = unseen
    changes = {**settings(unseen), "model__name": model, "model__dropout": 0, "train__batch": 20}
    runs = [train(folder, folder / f"{model}-{device}", **changes, train__device=device) for device in ("cpu", "cuda")]
    cpu, cuda = (np.array([line["loss"] for line in lines(run, "step")]) for run in runs)
    assert len(cpu) > 20
    np.testing.assert_allclose(cuda, cpu, rtol=1e-2)


def test_the_checkpoint_says_who_was_never_seen(unseen):
    folder, _ = unseen
    run = train(folder, folder / "short", **settings(unseen, train__accumulate=2))
    assert about(run)["hidden"] == {"probability": 0.3, "unseen": [10, 11]}
    without = train(folder, folder / "without", **{**settings(unseen), "train__hide": 0})
    assert "hidden" not in about(without)
    assert "hidden.unknown" not in tensors(without / "checkpoints/last.safetensors")


def test_where_no_row_is_learned_none_is_shown(unseen):
    """With hide 1 a model without graph knows a gene from none, seen or not; a run that goes on keeps that."""
    folder, _ = unseen
    given = words(folder, folder / "rowless", **{**settings(unseen), "model__name": "mlp", "train__hide": 1})
    place = given.index("model.layers=1")  # the model `mlp` has no layers
    succeed(*given[: place - 1], *given[place + 1 :])
    assert about(folder / "rowless")["hidden"]["unseen"] == list(range(12))
    (folder / "some.csv").write_text("g11\ng0\ng1\n")
    succeed("predict", folder / "rowless", "--samples", folder / "some.csv", "--out", folder / "rowless.csv")
    assert len({line.split(",", 1)[1] for line in (folder / "rowless.csv").read_text().splitlines()[1:]}) == 1


def test_genes_that_were_never_seen_are_all_the_same_to_a_model_without_graph(unseen):
    folder, _ = unseen
    given = words(folder, folder / "mlp", **{**settings(unseen), "model__name": "mlp"})
    place = given.index("model.layers=1")  # the model `mlp` has no layers
    succeed(*given[: place - 1], *given[place + 1 :])
    (folder / "asked.csv").write_text("g10\ng11\ng0\ng1\n")
    succeed("predict", folder / "mlp", "--samples", folder / "asked.csv", "--out", folder / "said.csv")
    first, second, *others = [line.split(",")[1:] for line in (folder / "said.csv").read_text().splitlines()[1:]]
    assert first == second and others[0] != first and others[1] != others[0]


def test_mistakes_are_named(unseen):
    folder, split = unseen
    assert "train.hide" in error(2, *words(folder, folder / "no", split=split, train__hide=1.5))
    succeed("features", folder / "screen", "--spectral", 2)
    assert "learns none" in error(1, *words(folder, folder / "no", split=split, train__hide=0.3, model__features="instead"))
    assert lacuna("train", "--resume", "--out", folder / "no").returncode == 1
