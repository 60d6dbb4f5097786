"""`lacuna profile`: parts that exclude each other and add up to the wall time, as table, JSON and trace."""

import html
import json

import pytest
from program import fail, new_screen, succeed, write_config

PARTS = ["load", "copy", "masks", "aggregation", "mlp", "merge", "heads", "other", "backward", "optimiser",
         "communication", "logging", "idle"]  # fmt: skip


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_config(tmp_path_factory.mktemp("profile"), "width: 16, layers: 2", ", batch: 16, log_every: 4")


@pytest.mark.parametrize("merge", ["sum", "pairwise"])
def test_parts_add_up_to_the_wall_time(config, tmp_path, merge):
    # 160 training samples are 10 batches an epoch: 30 steps pass its end.
    out = tmp_path / "out"
    words = ("profile", config, "--steps", 30, "--set", f"model.merge={merge}", "--out", out, "--json")
    printed = json.loads(succeed(*words))
    profile = json.loads((out / "profile.json").read_text())
    assert profile == printed
    assert (profile["format"], profile["version"], profile["device"]) == ("lacuna.profile", 1, "cpu")
    assert (profile["steps"], profile["batch"]) == (30, 16)
    screen = json.loads(succeed("info", config.parent / "screen", "--json"))
    assert profile["screen"]["path"] == str(config.parent / "screen") and "cores of" in profile["machine"]
    assert profile["screen"]["fingerprint"]["genes"] == screen["fingerprint"]["parts"]["genes"]
    assert f"merge: {merge}" in profile["config"] and "T" in profile["date"]
    assert profile["recorded_ms_per_step"] is None and profile["gpu"] == []
    ms = {part["category"]: part["ms"] for part in profile["cpu"]}
    assert list(ms) == PARTS
    wall = profile["wall_ms_per_step"]
    assert sum(ms.values()) - ms["idle"] <= 1.01 * wall  # idle is what is left: it must not hide more than all
    assert profile["excess_ms_per_step"]["cpu"] <= 0.01 * wall and profile["excess_ms_per_step"]["gpu"] == 0
    assert sum(ms.values()) == pytest.approx(wall, rel=0.01)
    assert sum(part["share"] for part in profile["cpu"]) == pytest.approx(1, rel=0.01)
    assert ms["masks"] == ms["communication"] == 0
    for part in set(PARTS) - {"masks", "communication", "idle"}:
        assert ms[part] > 0, part
    largest = max(ms, key=ms.get)
    assert largest in profile["largest"].lower() or largest == "idle"


def test_the_report_says_in_what_a_profile_is_not_the_runs(config, tmp_path):
    run = tmp_path / "run"
    succeed("train", config, "--set", "train.epochs=1", "--set", "evaluate.baselines=false", "--out", run)

    def shown(*settings):
        succeed("profile", run / "config.yaml", "--steps", 3, "--out", run, *settings)
        succeed("report", run, "--out", tmp_path / "report.html")
        page = html.unescape((tmp_path / "report.html").read_text())
        return page[page.index('<section id="profile">'):page.index('<section id="config">')]

    own = shown()
    assert "cores of" in own and "Measured" not in own and "does not say" not in own
    other = shown("--set", "train.batch=8", "--set", "train.lr=1e-4")
    assert "other settings than this run's: train.batch 8 (this run: 16), train.lr 1e-4 (this run: 1e-3)." in other
    new_screen(tmp_path / "other", seed=2)
    assert f"another screen than this run's: {tmp_path / 'other'}, whose edges" in shown("--set", f"screen={tmp_path / 'other'}")


def test_trace_says_the_same(config, tmp_path):
    succeed("profile", config, "--steps", 20, "--out", tmp_path)
    profile = json.loads((tmp_path / "profile.json").read_text())
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["CPU"]
    blocks = sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])
    for part in profile["cpu"]:
        if part["category"] == "idle":
            continue
        total = sum(block["dur"] for block in blocks if block["name"] == part["category"])
        assert total / 1000 / 20 == pytest.approx(part["ms"], rel=1e-6, abs=1e-9), part
    for one, other in zip(blocks, blocks[1:]):  # none overlaps the next
        assert one["ts"] + one["dur"] <= other["ts"] + 1e-3
    assert sum(block["name"] == "optimiser" for block in blocks) == 20
    assert sum(block["name"] == "logging" for block in blocks) == 5


def test_table_names_the_largest_part(config):
    lines = succeed("profile", config, "--steps", 3).splitlines()
    assert lines[0].startswith("cpu, batch 16, 3 steps of ")
    assert [line.split()[0] for line in lines[2:-1]] == [*PARTS, "sum"]
    assert "takes the most" in lines[-1]


def test_errors_name_the_culprit(config):
    assert "train.bach" in fail("profile", config, "--set", "train.bach=3", code=2)
    assert "--steps" in fail("profile", config, "--steps", 0, code=2)
    assert "nothing.yaml" in fail("profile", config.parent / "nothing.yaml")


def test_gradients_are_accumulated_as_in_training(config, tmp_path):
    settings = ("--set", "train.accumulate=3", "--set", "train.batch=16")
    succeed("profile", config, "--steps", 4, *settings, "--out", tmp_path)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    count = lambda name: sum(event["name"] == name for event in events)
    # An epoch of 160 samples is 10 batches, in steps of 3, 3, 3 and 1; 5 steps go before the four.
    assert count("backward") == 3 + 3 + 1 + 3
    assert count("optimiser") == count("backward")  # where each batch's loss is added up too
