"""`lacuna bench ladder`: every rung is measured and exact, its peers in Python make the same masks, what is wrong is named."""

import html
import importlib.util
import json
import os
import re
import sys
import xml.etree.ElementTree

import numpy as np
import pytest
from program import ROOT, fail, has_torch, lacuna, succeed
from recording_files import bench_ladder
from run_files import make_run

RUNGS = ["disk:u8", "disk:bits", "disk:bf16", "disk:positions", "ram:u8", "ram:bits", "worker", "device", "kernel"]
WAYS = ["PyG", "torch", "lmdb masks", "lmdb positions"]
QUICK = ["--seconds", "0.01", "--samples", "60", "--batch", "7"]


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    path = tmp_path_factory.mktemp("ladder") / "screen"
    succeed("generate", "screen", path, "--size", "small", "--samples", 100, "--seed", 1)
    return path


def bench(screen, folder, *words, **options):
    return bench_ladder(screen, folder, *QUICK, *words, **options)


def layout(screen):
    """name -> (offset, elements) of a u8 record: each mask starts at a multiple of 64."""
    manifest = json.loads((screen / "manifest.json").read_text())
    counts = [(node["type"], node["count"]) for node in manifest["nodes"]]
    counts += [(f"{edge['source']}.{edge['name']}.{edge['target']}", edge["count"]) for edge in manifest["edges"]]
    places, offset = {}, 0
    for name, count in counts:
        places[name] = (offset, count)
        offset += -(-count // 64) * 64
    return places, offset


def test_every_rung_is_measured_and_exact(screen, tmp_path):
    ladder, out = bench(screen, tmp_path)
    assert (ladder["format"], ladder["version"]) == ("lacuna.ladder", 1)
    assert (ladder["samples"], ladder["batch"], ladder["threads"]) == (60, 7, 2)
    assert [rung["rung"] for rung in ladder["rungs"]] == RUNGS and ladder["peers"] == []
    stride = layout(screen)[1]
    for rung in ladder["rungs"]:
        assert rung["exact"], rung
        for key in ("samples_per_s", "ms_per_batch", "read_ms_per_batch", "planned_ms_per_batch", "stored_bytes_per_sample"):
            assert rung[key] > 0, (rung["rung"], key)
        assert rung["samples_per_s"] == pytest.approx(7000 / rung["ms_per_batch"])
        assert rung["planned_ratio"] == pytest.approx(rung["ms_per_batch"] / rung["planned_ms_per_batch"])
        # Three removed genes, a label and a place in ptr, of which there is one more: 4 bytes each.
        genes = (7 * (3 + 1 + 1) + 1) * 4 / 7
        masks = 0 if rung["rung"] in ("device", "kernel") else stride
        assert rung["moved_bytes_per_sample"] == pytest.approx(genes + masks)
        assert rung["train_steps_per_s"] is None and rung["device_peak_bytes"] is None
        assert rung["rung"] in out
    stored = {rung["rung"]: rung["stored_bytes_per_sample"] for rung in ladder["rungs"]}
    assert stored["ram:u8"] == stride and stored["disk:u8"] >= stride + 48
    assert stored["disk:positions"] < stored["disk:bits"] < stored["disk:u8"] < stored["disk:bf16"]
    assert stored["worker"] == stored["kernel"] == pytest.approx((60 * 3 * 2 + 61 * 4) / 60)


def test_chosen_rungs_alone(screen, tmp_path):
    ladder, out = bench(screen, tmp_path, "--rungs", "worker,disk:bits")
    assert [rung["rung"] for rung in ladder["rungs"]] == ["worker", "disk:bits"]
    assert "the first 60 of 100 samples" in out


def test_the_picture_and_the_report_show_it(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    succeed("bench", "ladder", screen, *QUICK, "--rungs", "worker,kernel", "--out", tmp_path,
            "--json", run / "ladder.json", "--svg", tmp_path / "ladder.svg")  # fmt: skip
    picture = xml.etree.ElementTree.parse(tmp_path / "ladder.svg").getroot()  # a file of its own: it has its namespace
    words = [text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "worker" in words and "kernel" in words and "samples a second" in words
    machine = json.loads((run / "ladder.json").read_text())["machine"]
    assert any("logarithmic" in text and "60 samples, batch 7" in text for text in words)
    assert any(machine in text for text in words)
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("worker: the same, masks read once ") for title in titles)
    assert not any(title.startswith("kernel: the same, masks read once ") for title in titles)  # it has no masks
    succeed("report", run, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    section = page[page.index('<section id="ladder">') :]
    assert machine in section and "60 samples, batch 7" in section and "<td>kernel</td>" in section
    assert "another screen" not in section and "does not say" not in section
    other = tmp_path / "other"
    succeed("generate", "screen", other, "--size", "tiny", "--samples", 100, "--seed", 77)
    succeed("bench", "ladder", other, *QUICK, "--rungs", "kernel", "--out", tmp_path, "--json", run / "ladder.json")
    succeed("report", run, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    words = re.search(f"Measured on another screen than this run's: {other}, whose (.*) differ", html.unescape(page))
    assert words and "edges gene.physical.gene" in words[1]


def test_errors_name_the_culprit(screen, tmp_path):
    message = fail("bench", "ladder", screen, "--rungs", "disk:u9", "--out", tmp_path)
    assert "disk:u9" in message and all(rung in message for rung in RUNGS)
    assert "101" in fail("bench", "ladder", screen, "--batch", 101, "--out", tmp_path)
    assert "--out" in fail("bench", "ladder", screen, "--out", tmp_path / "nowhere")
    assert "--seconds" in fail("bench", "ladder", screen, "--seconds", 0, code=2)
    assert "no-such-python" in fail("bench", "ladder", screen, "--peers", "--python", "no-such-python", "--out", tmp_path)
    for option in ["--svg", "--json"]:  # before anything is measured: the screen was not even looked for
        message = fail("bench", "ladder", "no-screen", option, tmp_path / "nowhere" / "file", code=2)
        assert f"there is no folder {tmp_path}/nowhere" in message
        assert "name a file" in fail("bench", "ladder", "no-screen", option, tmp_path, code=2)
    assert not list(tmp_path.iterdir())


def test_a_python_without_packages_is_named(screen, tmp_path):
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')  # -S: no site-packages
    bare.chmod(0o755)
    message = fail("bench", "ladder", screen, "--peers", "--python", bare, "--out", tmp_path)
    assert "lmdb" in message and "torch_geometric" in message and "--python" in message


# ---- training
SMALL_MODEL = ["--train", "--steps", "2", "--set", "model.width=8", "--set", "model.layers=2", "--set", "train.device=cpu"]


def test_every_rung_trains_to_the_same_predictions(screen, tmp_path):
    if not has_torch():
        assert "needs torch" in fail("bench", "ladder", screen, "--train", "--out", tmp_path)
        pytest.skip("a build without torch")
    ladder, out = bench(screen, tmp_path, *SMALL_MODEL)
    assert [rung["rung"] for rung in ladder["rungs"]] == RUNGS
    for rung in ladder["rungs"]:
        assert rung["train_steps_per_s"] > 0 and rung["exact"], rung
        # On the CPU bit for bit those of the first rung, which is not compared with itself.
        assert rung["train_difference"] == (None if rung["rung"] == RUNGS[0] else 0), rung
        assert rung["device_peak_bytes"] is None
    assert "hetero_gin" in ladder["training"] and ladder["training"] in out and "trains fastest" in out


def test_training_follows_the_config(screen, tmp_path):
    if not has_torch():
        pytest.skip("a build without torch")
    config = tmp_path / "config.yaml"
    config.write_text("screen: elsewhere\nmodel: {name: hetero_gin, width: 8, layers: 2}\ntrain: {device: cpu, lr: 0.5}\n")
    folder = tmp_path / "out"
    folder.mkdir()
    one, _ = bench(screen, folder, "--rungs", "kernel", "--train", "--steps", 1, "--config", config)
    two, _ = bench(screen, folder, "--rungs", "kernel", "--train", "--steps", 1, "--config", config, "--set", "model.width=16")
    assert one["training"] != two["training"]  # it names the number of parameters
    config.write_text("screen: elsewhere\nmodle: {}\n")
    assert "modle" in fail("bench", "ladder", screen, "--train", "--config", config, "--out", folder)
    assert "--train" in fail("bench", "ladder", screen, "--config", config, code=2)
    for model in ("mlp", "dango", "hetero_gin, layers: 1"):  # one layer sums what all samples share
        config.write_text(f"screen: elsewhere\nmodel: {{name: {model}}}\n")
        message = fail("bench", "ladder", screen, "--train", "--config", config, "--out", folder)
        assert f"model {model.split(',')[0]} reads no masks" in message


def test_a_setting_that_an_option_decides_is_refused(screen, tmp_path):
    if not has_torch():
        pytest.skip("a build without torch")
    for setting, option in [("train.batch=2", "--batch"), ("rung=disk:u8", "--rungs"), ("screen=x", "SCREEN")]:
        message = fail("bench", "ladder", screen, "--train", "--set", setting, "--out", tmp_path, code=2)
        assert setting in message and option in message


# ---- the peers
@pytest.fixture(scope="module")
def peers():
    if any(not importlib.util.find_spec(name) for name in ("torch", "torch_geometric", "lmdb")):
        pytest.skip("no torch, PyG or lmdb")
    spec = importlib.util.spec_from_file_location("ladder_peers", ROOT / "bench" / "ladder_peers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_peers_make_the_masks_of_the_store(peers, screen, tmp_path):
    """All ways, against the u8 store that `lacuna prepare` writes, read with Python's lmdb."""
    import lmdb

    succeed("prepare", screen, "--rung", "disk:u8", "--out", tmp_path / "store")
    places, stride = layout(screen)
    arrays = peers.Screen(screen)
    incidence = peers.Incidence(arrays)
    with lmdb.open(str(tmp_path / "store"), readonly=True, lock=False) as environment, environment.begin() as transaction:
        records = [transaction.get(sample.to_bytes(4, "big"))[48:] for sample in range(len(arrays))]
    assert len(records) == 100 and {len(record) for record in records} == {stride}
    for way in WAYS:
        dataset = peers.WAYS[way](arrays, incidence, tmp_path / way)
        masks = dataset.masks_of(next(iter(dataset.loader(batch_size=100))))
        assert masks.keys() == places.keys()
        for name, (offset, count) in places.items():
            expected = np.stack([np.frombuffer(record[offset : offset + count], dtype=bool) for record in records])
            assert np.array_equal(masks[name].numpy().reshape(100, -1), expected), (way, name)


def test_peers_lists_are_those_of_the_edges(peers, screen):
    """Nobody removed, repeats, many: incidence lists against the edges one by one."""
    arrays = peers.Screen(screen)
    incidence = peers.Incidence(arrays)
    seed = int.from_bytes(os.urandom(4), "big")
    rng = np.random.default_rng(seed)
    for genes in ([], [5, 5], rng.integers(0, arrays.nodes["gene"], 200)):
        genes = np.asarray(genes, dtype=np.int64)
        found, expected = incidence.masks(genes), peers.plain_masks(arrays, genes)
        assert all(np.array_equal(found[name], expected[name]) for name in expected), seed
        assert found.keys() == expected.keys()


def test_peers_are_measured_beside(peers, screen, tmp_path):
    ladder, out = bench(screen, tmp_path, "--rungs", "disk:u8,worker", "--peers", "--peer-seconds", "0.05",
                        "--python", sys.executable)  # fmt: skip
    assert [peer["name"] for peer in ladder["peers"]] == [f"{way}, {workers} workers" for way in WAYS for workers in (0, 2)]
    elements = sum(count for _, count in layout(screen)[0].values())
    edges = {name: count for name, (_, count) in layout(screen)[0].items() if "." in name}
    for peer in ladder["peers"]:
        assert peer["exact"] and peer["ms_per_batch"] > 0 and peer["read_ms_per_batch"] > 0, peer
        # PyG: two int64 an edge, and for every node the number of its sample, and ptr.
        least = elements + (16 * sum(edges.values()) if peer["way"] == "PyG" else 0)
        assert least <= peer["moved_bytes_per_sample"] <= 1.25 * least, peer
    assert "disk:u8 is" in out and "as fast as lmdb masks" in out and "worker is" in out


def test_help_has_examples():
    assert "lacuna bench ladder demo --rungs" in lacuna("bench", "ladder", "--help").stdout
