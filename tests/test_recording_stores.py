"""Stores of a recording's frames: prepared, killed, completed, read with numpy and zarr, damaged, verified, cleaned away."""

import json
import pathlib
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from program import PROGRAM, Started, fail, has_torch, lacuna, succeed
from recording_files import make_cgroup, on_a_small_disk, train_words


@pytest.fixture(scope="module")
def movies(tmp_path_factory):
    """Three sessions of 15 seconds."""
    path = tmp_path_factory.mktemp("movies") / "rec"
    succeed("generate", "recording", path, "--sessions", 3, "--minutes", 0.25, "--seed", 3)
    return path


def frames_of(recording):
    """{"session/segment": u8 [T, Y, X]} by numpy."""
    return {str(file.parent.relative_to(recording)): np.load(file) for file in sorted(recording.glob("*/*/stim.npy"))}


def normalised(frames):
    return (frames.astype(np.float32) - np.float32(127)) / np.float32(255)


def bf16(values):
    """Rounded to nearest even, as the upper half of an f32."""
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def test_floats_are_numpys(movies, tmp_path):
    succeed("prepare", movies, "--rung", "disk:f32", "--out", tmp_path / "f32")
    succeed("prepare", movies, "--rung", "disk:bf16", "--out", tmp_path / "bf16")
    for place, frames in frames_of(movies).items():
        assert np.array_equal(np.load(tmp_path / "f32" / place / "stim.npy"), normalised(frames))
        assert np.array_equal(np.load(tmp_path / "bf16" / place / "stim.npy"), bf16(normalised(frames)))


@pytest.mark.parametrize("compressor", ["lz4", "zstd"])
def test_chunks_are_zarr(movies, tmp_path, compressor):
    zarr = pytest.importorskip("zarr")
    succeed("prepare", movies, "--rung", "disk:chunks", "--out", tmp_path / "chunks", "--compressor", compressor)
    for place, frames in frames_of(movies).items():
        assert np.array_equal(zarr.open(tmp_path / "chunks" / place / "stim.zarr", mode="r")[:], frames)


def test_added_sessions_prepare_only_themselves(movies, tmp_path):
    grown = tmp_path / "rec"
    shutil.copytree(movies, grown)
    store = tmp_path / "store"
    assert "3 written" in succeed("prepare", grown, "--rung", "disk:chunks", "--out", store)
    assert "all were there" in succeed("prepare", grown, "--rung", "disk:chunks", "--out", store)
    succeed("generate", "recording", grown, "--sessions", 1, "--minutes", 0.1, "--seed", 3, "--add",
            "--first-session", 3)
    assert "1 written" in succeed("prepare", grown, "--rung", "disk:chunks", "--out", store)
    succeed("verify", store, "--recording", grown, "--all")


def test_a_kill_costs_one_session(movies, tmp_path, seed):
    chance = random.Random(seed)
    command = [str(PROGRAM), "prepare", str(movies), "--rung", "disk:f32", "--out"]
    start = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    took = time.monotonic() - start
    finished = {}  # manifest of a finished session: when it was written
    for attempt in range(8):
        process = subprocess.Popen([*command, str(tmp_path / "store")], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * took)
        process.send_signal(signal.SIGKILL)
        process.wait()
        finished |= {path: path.stat().st_mtime_ns for path in (tmp_path / "store").glob("*/manifest.json")
                     if path not in finished}
    succeed("prepare", movies, "--rung", "disk:f32", "--out", tmp_path / "store")
    for path, written in finished.items():
        assert path.stat().st_mtime_ns == written, f"{path} was written again"
    succeed("verify", tmp_path / "store", "--recording", movies, "--all")


def test_stale_and_foreign_stores_are_refused(movies, tmp_path):
    succeed("prepare", movies, "--rung", "disk:bf16", "--out", tmp_path / "bf16")
    assert "choose another folder" in fail("prepare", movies, "--rung", "disk:f32", "--out", tmp_path / "bf16")
    other = tmp_path / "other"
    succeed("generate", "recording", other, "--sessions", 3, "--minutes", 0.25, "--seed", 4)
    assert "--again" in fail("prepare", other, "--rung", "disk:bf16", "--out", tmp_path / "bf16")
    assert "other frames" in fail("verify", tmp_path / "bf16", "--recording", other)
    assert "disk:u8 reads the recording itself" in fail("prepare", movies, "--rung", "disk:u8", "--out",
                                                        tmp_path / "u8", code=2)


def test_a_flipped_byte_is_found(movies, tmp_path, seed):
    chance = random.Random(seed)
    for rung in ("disk:bf16", "disk:chunks"):
        store = tmp_path / rung.replace(":", "-")
        succeed("prepare", movies, "--rung", rung, "--out", store)
        files = [path for path in sorted(store.rglob("*")) if path.is_file()]
        for path in files:
            data = bytearray(path.read_bytes())
            place = chance.randrange(len(data))
            data[place] ^= 1 << chance.randrange(8)
            good = path.read_bytes()
            path.write_bytes(data)
            done = lacuna("verify", store, "--recording", movies)
            assert done.returncode in (1, 2) and done.stderr.startswith("error: "), (path, place, done)
            path.write_bytes(good)
        succeed("verify", store, "--recording", movies)


def test_a_small_disk_is_seen_before_anything_is_written(movies, tmp_path):
    disk = tmp_path / "disk"
    said = on_a_small_disk(disk, 20, "prepare", movies, "--rung", "disk:f32", "--out", disk / "store")
    assert "MB are free there" in said and "disk:u8 reads the recording itself" in said, said
    for remedy in ("disk:chunks takes", "(`lacuna transform` with --step 4)", "(--resize "):  # 57 MB and 17 to write in
        assert remedy in said, f"{remedy} is missing: {said}"


def test_a_small_disk_is_seen_before_transforms_are_written(movies, tmp_path):
    """14 MB of frames become 57 MB of floats; 25 MB have room for 20.8."""
    disk, transforms = tmp_path / "disk", "transforms:\n  stim: {from: stim, ops: [{whiten: {rows: all}}]}\n"
    (tmp_path / "t.yaml").write_text(transforms)
    said = on_a_small_disk(disk, 25, "transform", movies, disk / "white", "--config", tmp_path / "t.yaml")
    frames = sum(frames.nbytes for frames in frames_of(movies).values())
    rows = sum(len(frames) for frames in frames_of(movies).values())
    needed = (4 * frames + 4 * rows) / 1e6
    assert f"needs {needed:.1f} MB" in said and f"({1.2 * needed:.1f} MB with the margin of 1.2)" in said, said
    for remedy in ("26.2 MB are free there", f"cast to u8 at the end, about {needed / 4:.1f} MB", "the first 1 of 3 sessions",
                   "--step 3", "--resize ", "another disk"):
        assert remedy in said, f"{remedy} is missing: {said}"
    (tmp_path / "c.yaml").write_text(f"recording: {movies}\nrung: disk:f32\nderived: {tmp_path}/small/white\n{transforms}")
    assert f"needs {needed:.1f} MB" in on_a_small_disk(tmp_path / "small", 25, "prepare", tmp_path / "c.yaml")


def test_the_guard_sees_a_cgroup(movies, tmp_path):
    group = make_cgroup(64)
    if group is None:
        pytest.skip("no control group can be made here")
    try:
        command = f"echo $$ > {group}/cgroup.procs && exec {PROGRAM} bench ladder {movies} --rungs ram:f32 " \
                  f"--seconds 0.02 --batch 32 --out {tmp_path}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
        assert done.returncode == 1, done  # 14 MB of frames are 56 MB as f32, 67 with the margin
        assert "rung ram:f32 needs" in done.stderr and "are free; what fits: disk:u8" in done.stderr, done.stderr
    finally:
        group.rmdir()


def test_clean_lists_and_removes_what_it_is_told(movies, tmp_path):
    used, unused = tmp_path / "used", tmp_path / "unused"
    for store in (used, unused):
        succeed("prepare", movies, "--rung", "disk:bf16", "--out", store, "--sessions", "m1_000")
    (tmp_path / "config.yaml").write_text(f"recording: {movies}\nrung: disk:bf16\nstore: used\n")
    listed = succeed("clean", tmp_path)
    assert str(unused) in listed and str(used) not in listed and "nothing was removed" in listed
    assert used.exists() and unused.exists()
    assert "refers to it" in fail("clean", tmp_path, "--remove", used)
    assert "not a store" in fail("clean", tmp_path, "--remove", movies)
    (unused / "notes.txt").write_text("mine")
    fail("clean", tmp_path, "--remove", unused)
    assert (unused / "notes.txt").exists()
    (unused / "notes.txt").unlink()
    succeed("clean", tmp_path, "--remove", unused)
    assert not unused.exists() and used.exists()


def test_clean_knows_what_transforms_have_left(tmp_path):
    """Derived recordings and remembered statistics: what a config reads stays, what none does is listed and can go."""
    rec = tmp_path / "rec"
    succeed("generate", "recording", rec, "--sessions", 1, "--minutes", 0.2, "--side", 17, "--units", 3, "--seed", 3)
    succeed("split", rec, "--name", "trials", "--seed", 1)
    (tmp_path / "configs").mkdir()
    configs, derived = [], []
    for number, epsilon in enumerate((0.001, 0.1)):
        configs.append(tmp_path / "configs" / f"{number}.yaml")
        configs[-1].write_text(f"recording: {rec}\nrung: disk:f32\n"
                               f"transforms:\n  stim: {{from: stim, ops: [{{whiten: {{epsilon: {epsilon}}}}}]}}\n")
        before = set((tmp_path / "rec.derived").glob("*"))
        succeed("prepare", configs[-1])
        derived += set((tmp_path / "rec.derived").iterdir()) - before
    statistics = rec / "statistics"
    files = sorted(statistics.iterdir())
    assert len(files) == 2 * len(list(rec.glob("*/*/stim.npy")))
    assert "0 of them referred to by no run" in succeed("clean", tmp_path)
    assert "refers to it" in fail("clean", tmp_path, "--remove", derived[1])
    configs[1].unlink()
    listed = succeed("clean", tmp_path)
    assert str(derived[1]) in listed and str(derived[0]) not in listed and f"{statistics} " in listed, listed
    assert "2 of them referred to by no run" in listed and "nothing was removed" in listed
    assert sorted(statistics.iterdir()) == files and derived[1].exists()
    succeed("transform", derived[1], tmp_path / "more", "--without", "behavior")
    assert "more refers to it" in fail("clean", tmp_path, "--remove", derived[1])  # its frames lie there
    succeed("clean", tmp_path, "--remove", tmp_path / "more")
    succeed("clean", tmp_path, "--remove", derived[1], "--remove", statistics)
    assert derived[0].exists() and not derived[1].exists() and len(list(statistics.iterdir())) == len(files) // 2
    assert "0 of them referred to by no run" in succeed("clean", tmp_path)
    assert "0 sessions written, 1 there already" in succeed("prepare", configs[0])
    succeed("info", rec, "--check")


TINY = {"window.lags": 3, "model.channels": 2, "model.temporal": 1, "model.layers": 1, "model.first_kernel": 3,
        "train.epochs": 1, "train.steps_an_epoch": 4, "train.batch": 8, "train.log_every": 1, "train.device": "cpu",
        "evaluate.baselines": "false", "evaluate.parts": "[]"}


@pytest.fixture(scope="module")
def split_movies(tmp_path_factory):
    """Two small sessions with a split, to train on."""
    if not has_torch():
        pytest.skip("built without torch")
    path = tmp_path_factory.mktemp("split") / "rec"
    succeed("generate", "recording", path, "--sessions", 2, "--minutes", 0.1, "--side", 17, "--units", 3, "--seed", 3)
    succeed("split", path, "--name", "trials", "--seed", 1)
    return path


def test_a_store_in_use_is_left_alone(split_movies, tmp_path):
    store, run = tmp_path / "store", tmp_path / "runs" / "run"
    prepare = ["prepare", split_movies, "--rung", "disk:bf16", "--out", store, "--again"]
    succeed(*prepare[:-1])
    started = Started(*train_words(split_movies, run, TINY, rung="disk:bf16", store=store, train__epochs=10_000))
    metrics = run / "metrics.jsonl"
    assert started.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
    assert "in use by another program" in fail(*prepare)
    assert "a process is using it" in fail("clean", store, "--remove", store)
    assert started.process.poll() is None
    started.end(signal.SIGKILL)
    succeed(*prepare)  # a process that is killed leaves no lock
    succeed("verify", store, "--recording", split_movies)


def test_a_budget_for_no_session_is_said(split_movies, tmp_path):
    smallest = min(sum(file.stat().st_size // 289 * 289 for file in session.glob("*/stim.npy"))
                   for session in split_movies.glob("m[12]_*"))
    said = lacuna(*train_words(split_movies, tmp_path / "a", TINY, rung="tiered", tiered__hot=10_000)).stderr
    assert "tiered.hot is 10.0 kB, and the smallest session takes" in said and f"{smallest / 1e3:.0f} kB" in said, said
    fits = lacuna(*train_words(split_movies, tmp_path / "b", TINY, rung="tiered", tiered__hot=smallest))
    assert fits.returncode == 0 and "tiered.hot" not in fits.stderr, fits.stderr
    assert "tiered.hot" in fail(*train_words(split_movies, tmp_path / "c", TINY, rung="tiered"))


def test_rounding_is_said_at_the_start(split_movies, tmp_path):
    said = lacuna(*train_words(split_movies, tmp_path / "a", TINY, rung="ram:bf16"))
    assert said.returncode == 0 and "all 256 grey levels stay distinct" in said.stderr, said.stderr
    assert "bf16" not in lacuna(*train_words(split_movies, tmp_path / "b", TINY, rung="ram:f32")).stderr
    (tmp_path / "f32.yaml").write_text("transforms:\n  stim: {from: stim, ops: [normalise]}\n")
    succeed("transform", split_movies, tmp_path / "floats", "--config", tmp_path / "f32.yaml")
    if "trials" not in succeed("info", tmp_path / "floats", "--json"):
        succeed("split", tmp_path / "floats", "--name", "trials", "--seed", 1)
    said = lacuna(*train_words(tmp_path / "floats", tmp_path / "c", TINY, rung="ram:bf16"))
    assert "field 'stim', which is f32" in said.stderr and "behaviour stay as recorded" in said.stderr, said.stderr
    plan = json.loads(succeed("plan", tmp_path / "floats", "--json"))
    lost = {rung["rung"]: rung["lost"] for rung in plan["rungs"]}
    assert "3 digits" in lost["ram:bf16"] and "3 digits" in lost["disk:bf16"] and not lost["disk:f32"]


def test_plan_draws_sessions_by_weights(movies):
    """Little memory: what is drawn most a byte lies in it, and the more is drawn of it the less is read."""
    def cold(*words):
        plan = json.loads(succeed("plan", movies, "--memory", "40MB", "--batch", 16, "--lags", 5, *words, "--json"))
        return {rung["rung"]: rung["cold_ms_per_batch"] for rung in plan["rungs"]}["tiered@device"]
    names = [session["name"] for session in json.loads(succeed("info", movies, "--json"))["sessions"]]
    assert cold("--weights", f"{names[0]}=1") == 0  # one session fits, and nothing else is drawn
    assert 0 <= cold("--weights", f"{names[0]}=9,{names[1]}=1,{names[2]}=1") <= cold("--mix", "balanced") + 1e-9
    assert "subject 'nobody'; there are: " in fail("plan", movies, "--weights", "nobody=1")
    assert "write NAME=SHARE" in fail("plan", movies, "--weights", "m1", code=2)


def test_plan_names_a_rung_and_its_reasons(movies):
    plan = json.loads(succeed("plan", movies, "--memory", "504GB", "--disk", "/small=258GB", "--disk", "/big=1.4TB",
                              "--json"))
    rungs = {rung["rung"]: rung for rung in plan["rungs"]}
    assert plan["pick"] in rungs and rungs[plan["pick"]]["fits"]
    assert rungs["ram:bf16"]["lost"] and not rungs["ram:u8@worker"]["lost"]
    assert plan["costs"]["compression_ratio"] > 1
    whole = json.loads(succeed("plan", movies, "--transforms", "crop,whiten", "--json"))
    assert not {rung["rung"]: rung for rung in whole["rungs"]}["disk:u8@device"]["fits"]
    assert "no transform 'magic'" in fail("plan", movies, "--transforms", "magic", code=2)
    text = succeed("plan", movies, "--memory", "20MB")
    assert "with the margin; 20.0 MB are free" in text
    head = next(line for line in text.splitlines() if line.startswith("rung "))
    assert "pays back" in head and "lost" in head
    assert rungs["disk:u8@device"]["pays_back_epochs"] is None
    assert all("pays_back_epochs" in rung for rung in rungs.values())


def test_ladder_measures_every_rung(movies, tmp_path):
    out = tmp_path / "ladder.json"
    succeed("bench", "ladder", movies, "--seconds", 0.02, "--batch", 32, "--json", out, "--out", tmp_path)
    measured = json.loads(out.read_text())
    names = [row["name"] for row in measured["rungs"]]
    for rung in ("memcpy loop", "gather and cast", "ram:u8@device", "ram:bf16", "disk:u8@worker", "disk:f32",
                 "disk:chunks@device", "ram:chunks@worker", "tiered@device"):
        assert rung in names
    assert all(row["exact"] for row in measured["rungs"])
    by_name = {row["name"]: row for row in measured["rungs"]}
    assert by_name["ram:u8@device"]["bytes_per_frame"] == 51 * 51
    assert by_name["ram:f32"]["bytes_per_frame"] == 4 * 51 * 51
    assert [path.name for path in pathlib.Path(tmp_path).iterdir()] == ["ladder.json"]  # nothing is left behind
