"""A run on every rung of the ladder: the same weights, the same predictions, bit for bit."""

import json
import os
import shutil

import numpy as np
import pytest
from checkpoint_files import tensors
from program import lacuna, new_screen, succeed, together

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: a second thread only waits

DISK = ["disk:u8", "disk:bits", "disk:bf16", "disk:positions"]
RUNGS = [*DISK, "ram:u8", "ram:bits", "worker", "device", "kernel"]
SETTINGS = {
    "split": "random", "model.width": 8, "model.layers": 3, "model.dropout": 0.1, "train.epochs": 2, "train.batch": 7,
    "train.lr": 3e-3, "train.warmup_steps": 5, "train.log_every": 1, "evaluate.baselines": "false", "evaluate.bootstrap": 0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rungs")
    new_screen(folder / "screen", seed=2)
    for rung in DISK:
        succeed("prepare", folder / "screen", "--rung", rung, "--out", store(folder, rung))
    (folder / "empty.yaml").write_text("{}\n")
    return folder


def store(folder, rung):
    return folder / rung.replace(":", "-")


def words(folder, rung, **settings):
    settings = {**SETTINGS, "screen": folder / "screen", "rung": rung, **settings}
    if rung in DISK:
        settings.setdefault("store", store(folder, rung))
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def train(folder, **runs):
    """What came of each run, {name: (rung, settings)}."""
    together([("train", folder / "empty.yaml", "--out", folder / name, *words(folder, rung, **settings))
                 for name, (rung, settings) in runs.items()])
    return [outcome(folder / name) for name in runs]


def outcome(run):
    weights = tensors(run / "checkpoints/last.safetensors")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [(line["loss"], line["grad_norm"]) for line in lines if line["kind"] == "step"]
    validation = [line["validation"] for line in lines if line["kind"] == "epoch"]
    return weights, losses, validation


@pytest.fixture(scope="module")
def outcomes(folder):
    return dict(zip(RUNGS, train(folder, **{"run-" + rung.replace(":", "-"): (rung, {}) for rung in RUNGS})))


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung != "kernel"])
def test_every_rung_trains_to_the_same_bits(outcomes, rung):
    (weights, losses, validation), on_kernel = outcomes[rung], outcomes["kernel"]
    assert losses == on_kernel[1] and len(losses) > 20
    assert validation == on_kernel[2]
    assert weights.keys() == on_kernel[0].keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(array, on_kernel[0][name], err_msg=name)


# With savings the first layer needs no masks; without, one layer reads them, too.
ONE_LAYER = {"model.layers": 1, "model.savings": "false"}


@pytest.mark.parametrize("setting", [{"model.norm": "batch_graph"}, {"model.savings": "false"}, {"model.metabolism": "true"},
                                     ONE_LAYER])  # fmt: skip
def test_also_where_the_wild_type_is_computed_apart(folder, setting):
    runs = train(folder, **{f"apart-{rung}-{'-'.join(setting)}": (rung, {"train.epochs": 1, **setting})
                            for rung in ("kernel", "worker", "device")})
    losses = [run[1] for run in runs]
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("setting", [ONE_LAYER, {"model.layers": 2}])
def test_the_masks_of_a_store_are_what_the_model_reads(folder, setting):
    """The edges of one type are taken away in the store alone: the training must be another one."""
    lmdb, xxhash = pytest.importorskip("lmdb"), pytest.importorskip("xxhash")
    changed = folder / f"changed-{len(setting)}"
    shutil.copytree(store(folder, "disk:bf16"), changed)
    manifest = json.loads((folder / "screen/manifest.json").read_text())
    # Behind a header and the masks of nodes, in whole blocks of 64 bytes. In bf16 a record of this screen is large enough
    # for pages of its own, on which LMDB finds nothing: only the checksum in its header has to be made to fit.
    begin = 48 + sum(-(-2 * nodes["count"] // 64) * 64 for nodes in manifest["nodes"])
    end = begin + 2 * manifest["edges"][0]["count"]
    data = bytearray((changed / "data.mdb").read_bytes())
    with lmdb.open(str(changed), readonly=True, lock=False) as environment, environment.begin() as view:
        for _, value in view.cursor():
            place = data.index(value)
            data[place + begin : place + end] = bytes(end - begin)
            record = bytes(data[place + 48 : place + len(value)])
            data[place + 16 : place + 24] = xxhash.xxh3_64_intdigest(record).to_bytes(8, "little")
    (changed / "data.mdb").write_bytes(data)
    setting = {"train.epochs": 1, **setting}
    right, wrong = train(folder, **{f"read-{len(setting)}-{path.name}": ("disk:bf16", {"store": path, **setting})
                                    for path in (store(folder, "disk:bf16"), changed)})
    assert right[1] != wrong[1]


def test_masks_of_a_shuffled_graph_are_its_own(folder):
    settings = {"graph": "shuffled", "train.epochs": 1}
    runs = train(folder, **{f"shuffled-{rung}": (rung, settings) for rung in ("kernel", "worker")})
    assert runs[0][1] == runs[1][1]
    result = lacuna("train", folder / "empty.yaml", "--out", folder / "refused",
                    *words(folder, "disk:u8", graph="shuffled"))
    assert result.returncode == 1 and "other edges" in result.stderr and "worker" in result.stderr


def test_a_run_is_used_without_its_store(folder):
    run = folder / "moved"
    train(folder, moved=("disk:u8", {"train.epochs": 1}))
    before = (run / "evaluation.json").read_text()
    os.rename(store(folder, "disk:u8"), folder / "away")
    try:
        succeed("evaluate", run)
    finally:
        os.rename(folder / "away", store(folder, "disk:u8"))
    assert json.loads((run / "evaluation.json").read_text())["parts"] == json.loads(before)["parts"]


def test_a_rung_without_its_store_says_how_to_make_one(folder):
    for settings, said in [({"store": ""}, "needs a store"), ({"store": folder / "nowhere"}, "no store"),
                           ({"store": store(folder, "disk:bits")}, "disk:bits")]:
        result = lacuna("train", folder / "empty.yaml", "--out", folder / "refused", *words(folder, "disk:u8", **settings))
        assert result.returncode == 1 and said in result.stderr and "lacuna prepare" in result.stderr, result.stderr
    result = lacuna("train", folder / "empty.yaml", "--out", folder / "refused", *words(folder, "paper"))
    assert result.returncode == 2 and "disk:positions" in result.stderr
    assert not (folder / "refused").exists()


def test_a_store_that_is_not_read_is_said(folder):
    unread = words(folder, "worker", store=store(folder, "disk:u8"), **{"train.epochs": 1})
    result = lacuna("train", folder / "empty.yaml", "--out", folder / "unread", *unread)
    assert result.returncode == 0 and "is not read: rung worker needs none" in result.stdout + result.stderr


@pytest.mark.parametrize("model", ["mlp", "dango"])
def test_a_model_that_reads_no_masks_gets_none(folder, model):
    """Not even the store of a disk rung is needed."""
    settings = [word for key, value in SETTINGS.items() if key not in ("model.layers", "model.dropout")
                for word in ("--set", f"{key}={value}")]
    settings += ["--set", f"model.name={model}", "--set", f"screen={folder / 'screen'}", "--set", "train.epochs=1"]
    outs = {rung: folder / f"{model}-{rung.replace(':', '-')}" for rung in ("kernel", "worker", "disk:u8", "device")}
    results = together([("train", folder / "empty.yaml", "--out", out, "--set", f"rung={rung}", *settings)
                        for rung, out in outs.items()], lacuna)
    for rung, result in zip(outs, results):
        assert result.returncode == 0, result.stderr
        said = f"rung {rung} is not used: model {model} reads no masks" in result.stderr
        assert said == (rung != "kernel")
    outcomes = [outcome(out)[1:] for out in outs.values()]
    assert all(one == outcomes[0] for one in outcomes)


def test_profile_shows_where_masks_are_made(folder):
    def ms(rung):
        out = folder / f"profile-{rung}"
        succeed("profile", folder / "empty.yaml", "--steps", 5, "--out", out, *words(folder, rung))
        profile = json.loads((out / "profile.json").read_text())
        return {entry["category"]: entry["ms"] for entry in profile["cpu"]}

    assert ms("device")["masks"] > 0
    assert ms("kernel")["masks"] == ms("worker")["masks"] == 0
