"""Training on a recording through the program: scores and rates against NumPy, resuming, rungs, frozen cores, refusals."""

import html
import json
import os
import shutil
import signal

import numpy as np
import pytest
from checkpoint_files import tensors
from program import ROOT, Started, fail, has_torch, lacuna, succeed, together
from recording_files import manifest, read, train_words

os.environ.setdefault("OMP_NUM_THREADS", "1")
LAGS = 6
SMALL = {
    "window.lags": LAGS, "window.inputs": "[behavior]", "model.channels": 4, "model.temporal": 2, "model.layers": 1,
    "model.first_kernel": 5, "model.behaviour_width": 3, "train.epochs": 3, "train.steps_an_epoch": 20,
    "train.batch": 16, "train.lr": 3e-3, "train.warmup_steps": 5, "train.validation_windows": 200, "train.log_every": 1,
    "train.device": "cpu", "rung": "ram:u8", "order.by": "balanced", "evaluate.bootstrap": 50,
}


def words(recording, out, **changes):
    return train_words(recording, out, SMALL, **changes)


def train(recording, out, **changes):
    succeed(*words(recording, out, **changes))
    return out


def weights(run, name="last"):
    return {key: value for key, value in tensors(run / "checkpoints" / f"{name}.safetensors").items()}


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    if not has_torch():
        pytest.skip("built without torch")
    path = tmp_path_factory.mktemp("recording") / "rec"
    succeed("generate", "recording", path, "--sessions", 2, "--minutes", 1, "--side", 17, "--units", 5, "--seed", 3)
    succeed("split", path, "--name", "trials", "--seed", 1)
    return path


@pytest.fixture(scope="module")
def reference(recording):
    """Never interrupted."""
    return train(recording, recording.parent / "reference", train__epochs=6)


def evaluation(run):
    return json.loads((run / "recording_evaluation.json").read_text())


def field(recording, session, segment, name):
    return read(recording, name, session, segment)


def served(recording, session, segment):
    """Whether each row has a window: LAGS rows of one trial without a gap, all tracked and finite."""
    trial, time = (field(recording, session, segment, name) for name in ("trial", "time"))
    good = (trial >= 0) & (field(recording, session, segment, "tracked") == 1)
    rate = next(one["rate"] for one in manifest(recording)["sessions"] if one["name"] == session)
    finite = np.isfinite(field(recording, session, segment, "behavior")).all(1)
    result = np.zeros(len(trial), bool)
    for t in range(LAGS - 1, len(trial)):
        rows = slice(t - LAGS + 1, t + 1)
        steps = np.diff(time[rows]) * rate
        result[t] = (good[rows].all() and finite[t] and (trial[rows] == trial[t]).all()
                     and (steps <= 1.5).all() and (steps > 0).all())
    return result


def parts_of(recording, session, segment):
    """The part of every row, by the split's own file."""
    split = next(one for one in manifest(recording)["splits"] if one["name"] == "trials")
    rows = np.load(recording / "splits" / "trials.npy")
    first = 0
    for covered in split["segments"]:
        if (covered["session"], covered["segment"]) == (session, segment):
            return rows[first : first + covered["frames"]]
        first += covered["frames"]
    raise KeyError(session)


def test_rates_are_aligned_and_scores_are_what_they_say(recording, reference, tmp_path):
    succeed("predict", reference, "--out", tmp_path / "rates")
    files = json.loads((tmp_path / "rates" / "rates.json").read_text())["files"]
    assert {one["session"] for one in files} == {one["name"] for one in manifest(recording)["sessions"]}
    test = next(part for part in evaluation(reference)["parts"] if part["part"] == "test")
    for session in test["sessions"]:
        name = session["all"]["name"]
        gains, spikes, sums, rows, found = 0, 0, 0, 0, []
        for one in (one for one in files if one["session"] == name):
            segment = one["segment"]
            rates = np.load(tmp_path / "rates" / one["file"])
            counts = field(recording, name, segment, "robs").astype(float)
            valid = field(recording, name, segment, "dfs") > 0
            has = served(recording, name, segment)
            assert rates.shape == counts.shape
            assert np.array_equal(np.isfinite(rates).all(1), has) and np.isnan(rates[~has]).all()
            part = parts_of(recording, name, segment)
            training = has & (part == 0)
            sums = sums + (counts * valid)[training].sum(0)
            rows = rows + valid[training].sum(0)
            found.append((rates[has & (part == 2)], counts[has & (part == 2)], valid[has & (part == 2)]))
        mean = sums / rows
        rates, counts, valid = (np.concatenate(arrays) for arrays in zip(*found))
        for u, unit in enumerate(session["units"]):
            r, c = rates[valid[:, u], u].astype(float), counts[valid[:, u], u]
            gain = ((c * np.log(r) - r) - (c * np.log(mean[u]) - mean[u])).sum() / np.log(2)
            assert unit["spikes"] == c.sum()
            assert unit["mean"] == pytest.approx(mean[u])
            assert unit["bits_per_spike"][0] == pytest.approx(gain / c.sum(), abs=1e-4)
            assert unit["correlation"][0] == pytest.approx(np.corrcoef(r, c)[0, 1], abs=1e-4)
            gains, spikes = gains + gain, spikes + c.sum()
        value, low, high = session["all"]["scores"][0]["bits_per_spike"]
        assert value == pytest.approx(gains / spikes, abs=1e-4) and low < value < high
        assert session["all"]["scores"][1]["predictor"] == "mean rate"
        assert abs(session["all"]["scores"][1]["bits_per_spike"][0]) < 1e-6


def test_stopped_and_resumed_it_ends_in_the_same_bits(recording, reference):
    out = reference.parent / "stopped"
    arguments = words(recording, out, train__epochs=6)
    lines = lambda: [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()] \
        if (out / "metrics.jsonl").exists() else []  # noqa: E731
    for step, how in ((15, signal.SIGTERM), (47, signal.SIGTERM)):
        started = Started(*arguments)
        assert started.wait_for(lambda: any(line["step"] >= step for line in lines()[-1:]))
        assert started.end(how) == 75, started.errors
        arguments = ["train", "--resume", "--out", out]
    succeed(*arguments)
    whole, again = weights(reference), weights(out)
    assert whole.keys() == again.keys()
    assert all(np.array_equal(whole[name], again[name]) for name in whole)


def test_a_run_of_rows_trains_resumes_and_predicts_each_row_once(recording):
    """Windows of three target rows: rates are row by row, NaN only where there are not enough frames."""
    settings = dict(window__rows=3, train__epochs=2, evaluate__baselines="false")
    whole, out = train(recording, recording.parent / "rows", **settings), recording.parent / "rows-stopped"
    started = Started(*words(recording, out, **settings))
    metrics = out / "metrics.jsonl"
    assert started.wait_for(lambda: metrics.exists() and '"step":7,' in metrics.read_text().replace(" ", ""))
    assert started.end(signal.SIGTERM) == 75, started.errors
    succeed("train", "--resume", "--out", out)
    first, again = weights(whole), weights(out)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    message = fail(*words(recording, whole, **{**settings, "window__rows": 2}), "--resume")
    assert "window.rows" in message
    rates = recording.parent / "rows-rates"
    succeed("predict", whole, "--out", rates)
    for one in json.loads((rates / "rates.json").read_text())["files"]:
        found = np.load(rates / one["file"])
        has = served(recording, one["session"], one["segment"])
        assert one["windows"] == has.sum() > 100
        assert np.array_equal(np.isfinite(found).all(1), has) and np.isnan(found[~has]).all()


def test_what_a_training_starts_from_is_remembered(recording, tmp_path):
    """The second start reads it, a damaged file is not believed, and clean lists it when no config needs it any more."""
    copy = tmp_path / "rec"
    shutil.copytree(recording, copy, ignore=shutil.ignore_patterns("statistics"))
    first = weights(train(copy, tmp_path / "first", train__epochs=1))
    files = sorted((copy / "statistics").iterdir())
    assert len(files) == 2  # a session each
    written = [file.read_bytes() for file in files]
    second = weights(train(copy, tmp_path / "second", train__epochs=1, rung="disk:u8@device"))
    assert [file.read_bytes() for file in sorted((copy / "statistics").iterdir())] == written
    files[0].write_bytes(written[0].replace(b'"mean_counts": [', b'"mean_counts":  ['))
    third = weights(train(copy, tmp_path / "third", train__epochs=1))
    assert files[0].read_bytes() == written[0]  # found and written again
    for other in (second, third):
        assert all(np.array_equal(first[name], other[name]) for name in first)
    assert "statistics" not in succeed("clean", tmp_path)
    for run in ("first", "second", "third"):
        shutil.rmtree(tmp_path / run)
    assert "statistics" in succeed("clean", tmp_path)
    succeed("clean", tmp_path, "--remove", copy / "statistics")
    assert not (copy / "statistics").exists()


def test_another_order_is_refused(recording, reference):
    message = fail(*words(recording, reference, train__epochs=6, order__by="proportional"), "--resume")
    assert "order.by is 'balanced', here 'proportional'" in message


def test_every_rung_trains_the_same_weights(recording):
    rungs = ["disk:u8", "disk:u8@device", "ram:u8@device", "ram:f32"]
    runs = together([(rung,) for rung in rungs],
                    lambda rung: train(recording, recording.parent / rung.replace(":", "-"), rung=rung, train__epochs=1,
                                       evaluate__baselines="false"))
    first = weights(runs[0])
    for run in runs[1:]:
        assert all(np.array_equal(first[name], value) for name, value in weights(run).items()), run


def test_a_new_session_on_a_frozen_core(recording, tmp_path):
    first, second = (one["name"] for one in manifest(recording)["sessions"])
    core = train(recording, tmp_path / "core", sessions=f"[{first}]")
    fitted = train(recording, tmp_path / "fitted", sessions=f"[{second}]", train__weights=core, train__freeze="core")
    before, after = weights(core, "best_bits_per_spike"), weights(fitted)
    shared = [name for name in after if not name.startswith(("readout", "optimizer"))]
    assert len(shared) == 3 and all(np.array_equal(before[name], after[name]) for name in shared)
    assert any(name.startswith(f"readout {second}.") for name in after)
    assert not any(name.startswith(f"readout {first}.") for name in after)
    moments = [value for name, value in after.items() if name.startswith("optimizer.exp_avg.readout")]
    assert all(np.abs(value).max() > 0 for value in moments)  # and the readout was trained


def test_a_session_that_is_added_later_changes_nothing(recording, tmp_path):
    copy = shutil.copytree(recording, tmp_path / "rec")
    whole = train(copy, tmp_path / "whole", train__epochs=2)
    succeed("generate", "recording", copy, "--add", "--sessions", 1, "--first-session", 2, "--minutes", 0.5, "--side", 17,
            "--units", 3, "--seed", 3)
    assert "nothing to resume" in lacuna(*words(copy, whole, train__epochs=2), "--resume").stderr
    succeed("evaluate", whole, "--out", tmp_path / "again")
    assert evaluation(tmp_path / "again")["parts"] == evaluation(whole)["parts"]


def test_units_that_have_changed_are_named(recording, reference, tmp_path):
    succeed("generate", "recording", tmp_path / "other", "--sessions", 2, "--minutes", 0.5, "--side", 17, "--units", 6,
            "--seed", 3)
    succeed("split", tmp_path / "other", "--name", "trials", "--seed", 1)
    new = manifest(tmp_path / "other")["sessions"][0]["units"][-1]
    message = fail("evaluate", reference, "--recording", tmp_path / "other", "--out", tmp_path / "out")
    assert "have changed since" in message and f"'{new}' is new" in message


def test_what_cannot_be_is_refused(recording, reference, tmp_path):
    assert "did you mean 'window.lags'" in fail(*words(recording, tmp_path / "a", window__lag=3), code=2)
    assert "no split" in fail(*words(recording, tmp_path / "b", split="other"))
    assert "longer than every trial" in fail(*words(recording, tmp_path / "c", window__lags=5000))
    assert "longer than every trial" in fail(*words(recording, tmp_path / "c", window__rows=5000))
    assert "no field 'robs' of one number" in fail(*words(recording, tmp_path / "c", order__column="robs"))
    assert "neither a session nor a subject" in fail(*words(recording, tmp_path / "c", order__by="weights",
                                                            order__weights="[nobody=1]"))
    assert "train.weights=RUN" in fail(*words(recording, tmp_path / "d", train__freeze="core"), code=2)
    assert "run of a recording" in fail("predict", reference, "--all-pairs", "--out", tmp_path / "x.csv", code=2)
    assert "run of a recording" in fail("export", reference, "--embeddings", "--out", tmp_path / "y.npz")


def test_profile_step_report_and_info(recording, reference, tmp_path):
    arguments = words(recording, tmp_path / "run")[1:]
    config, settings = arguments[0], arguments[3:]
    assert "backward" in succeed("profile", config, *settings, "--steps", 5)
    assert "ms/step" in succeed("bench", "step", config, *settings, "--steps", 3)
    succeed("report", reference, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Learned fields" in page and page.count("data:image/png") == 10
    assert "Rates against counts" in page and "Scores by session and segment" in page
    assert "bits per spike" in succeed("info", reference)


def test_the_report_shows_the_ladder_of_a_recording(recording, reference, tmp_path):
    run = shutil.copytree(reference, tmp_path / "run")
    ladder = ["--rungs", "ram:u8@device,disk:u8@device", "--batch", 16, "--lags", 5, "--seconds", 0.01, "--out", tmp_path,
              "--json", run / "ladder.json"]

    def section():
        succeed("report", run, "--out", tmp_path / "report.html")
        page = html.unescape((tmp_path / "report.html").read_text())
        return page[page.index('<section id="ladder">') : page.index('<section id="config">')]

    succeed("bench", "ladder", recording, *ladder, "--train", "--steps", 1, "--rounds", 1)
    shown, measured = section(), json.loads((run / "ladder.json").read_text())
    assert measured["machine"] in shown and "windows of 5 lags, batch 16" in shown and "core_readout" in shown
    for row in measured["rungs"]:
        assert f"<td>{row['name']}</td>" in shown
    assert "windows a second" in shown and "training steps a second" in shown and "over ready" in shown
    assert "another recording" not in shown and "Measured with lags 5, while this run was trained with 6." in shown
    succeed("generate", "recording", tmp_path / "other", "--sessions", 1, "--minutes", 0.3, "--side", 17, "--units", 3)
    succeed("bench", "ladder", tmp_path / "other", *ladder)
    shown, first = section(), manifest(recording)["sessions"][0]["name"]
    assert f"Measured on another recording than this run's: {tmp_path}/other, whose session {first}" in shown
    assert "training steps a second" not in shown and "over ready" not in shown
    (run / "ladder.json").write_text((run / "ladder.json").read_text().replace("windows_per_s", "windows_per_m", 1))
    assert "ladder.json" in fail("report", run, "--out", tmp_path / "report.html")


def test_no_parts_are_no_work(recording, tmp_path):
    run = train(recording, tmp_path / "run", train__epochs=1, evaluate__parts="[]")
    assert not (run / "fields").exists() and evaluation(run)["parts"] == [] == evaluation(run)["fields"]
    assert "Learned fields" not in succeed("report", run, "--out", tmp_path / "page.html") + (tmp_path / "page.html").read_text()


def test_the_config_of_the_demo_finds_the_fields(tmp_path):
    """Units of a recording whose fields are known: what the model has learned correlates with them."""
    if not has_torch():
        pytest.skip("built without torch")
    recording = tmp_path / "rec"
    succeed("generate", "recording", recording, "--sessions", 2, "--minutes", 8, "--side", 25, "--units", 24, "--seed", 1)
    succeed("split", recording, "--name", "trials", "--seed", 1)
    run = tmp_path / "run"
    succeed("train", ROOT / "configs" / "recording.yaml", "--set", f"recording={recording}", "--set", "train.device=cpu",
            "--out", run)
    near = []
    for session in evaluation(run)["fields"]:
        def whole(folder):
            picture, course = (np.load(folder / f"{session}.{what}.npy") for what in ("spatial", "temporal"))
            return np.einsum("ul,uyx->ulyx", course, picture).reshape(len(course), -1)
        spikes = sum(field(recording, session, part["name"], "robs").sum(0)
                     for one in manifest(recording)["sessions"] if one["name"] == session for part in one["segments"])
        for count, ours, true in zip(spikes, whole(run / "fields"), whole(recording / "truth")):
            if count >= 1000:
                near.append(np.corrcoef(ours, true)[0, 1])
    assert len(near) >= 40
    assert np.median(near) >= 0.6, sorted(near)
