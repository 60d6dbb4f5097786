"""Whatever computes from a screen or a store finds bytes that have changed, and computes nothing from them."""

import json
import shutil

import numpy as np
import pytest
from program import accept_file, edit_manifest, fail, lacuna, new_screen, succeed

SETTINGS = {"split": "random", "model.width": 8, "model.layers": 2, "train.epochs": 1, "train.batch": 8,
            "evaluate.baselines": "false", "evaluate.bootstrap": 0}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    new_screen(folder / "screen", "--samples", 60, seed=2)
    succeed("prepare", folder / "screen", "--rung", "disk:bf16", "--out", folder / "store")
    (folder / "empty.yaml").write_text("{}\n")
    succeed("train", folder / "empty.yaml", "--out", folder / "run", *words(folder / "screen"))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made"


def words(screen, **settings):
    settings = {**SETTINGS, "screen": screen, **settings}
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def on_store(folder):
    return words(folder / "screen", rung="disk:bf16", store=folder / "store")


def readers(folder):
    """The commands that compute from a screen."""
    screen, out = folder / "screen", folder / "out"
    return [
        ("train", folder / "empty.yaml", "--out", out, *words(screen)),
        ("train", folder / "empty.yaml", "--out", out, *on_store(folder)),
        ("evaluate", folder / "run", "--screen", screen, "--out", out),
        ("predict", folder / "run", "--screen", screen, "--all-pairs", "--out", folder / "out.csv"),
        ("prepare", screen, "--rung", "disk:u8", "--out", out),
        ("subset", screen, out, "--where", "removed=3"),
        ("concat", out, screen, screen),
        ("split", screen, "--name", "late", "--by", "random"),
        ("verify", folder / "store", "--screen", screen),
        ("bench", "loader", screen),
    ]


def change_an_edge(screen):
    """One edge of two genes becomes another valid one."""
    edges = np.load(screen / "edges/gene.physical.gene.npy", mmap_mode="r+")
    edges[0, 3] = (edges[0, 3] + 1) % 40
    edges.flush()


def test_every_reader_refuses_a_screen_whose_array_was_edited_in_place(folder):
    change_an_edge(folder / "screen")
    for command in readers(folder):
        assert "edges/gene.physical.gene.npy: its bytes have changed" in fail(*command)
        assert not list(folder.glob("out*"))


def test_so_they_do_when_the_checksum_was_made_to_fit(folder):
    """A store, a kept split and a checkpoint belong to the fingerprint: it must be that of the bytes."""
    change_an_edge(folder / "screen")
    accept_file(folder / "screen", "edges/gene.physical.gene.npy")
    for command in readers(folder):
        said = fail(*command)
        assert "is not that of the contents (edges gene.physical.gene)" in said, said
        assert not list(folder.glob("out*"))


def test_a_changed_manifest_is_found_by_all_who_open_it(folder):
    on_kernel, on_disk = readers(folder)[:2]
    for name, command in [("store", on_disk), ("screen", on_kernel)]:
        manifest = folder / name / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"made_by"', '"made_bx"'))
        for reader in (command, ("info", folder / name)):
            said = fail(*reader)
            assert f"{manifest}: its bytes have changed since lacuna wrote it" in said, said


def test_older_manifests_open_as_not_checked(folder):
    assert json.loads(succeed("info", folder / "screen", "--json"))["manifest_checked"] is True
    for name in ("screen", "store"):
        assert "not checked" not in succeed("info", folder / name)
        edit_manifest(folder / name, lambda manifest: None)
        assert "manifest: not checked (written before manifests had checksums)" in succeed("info", folder / name)
    succeed("info", folder / "screen", "--check")
    assert "no fault" in succeed("verify", folder / "store", "--screen", folder / "screen")
    succeed(*readers(folder)[1])


def test_a_damaged_record_is_not_trained_on(folder):
    """Any one of them: every sample of the training part is read in the first epoch."""
    lmdb = pytest.importorskip("lmdb")
    data = bytearray((folder / "store/data.mdb").read_bytes())
    parts = np.load(folder / "screen/splits/random.npy")
    sample = int(np.flatnonzero(parts == 0)[5])
    with lmdb.open(str(folder / "store"), readonly=True, lock=False) as environment, environment.begin() as view:
        data[data.index(view.get(sample.to_bytes(4, "big"))) + 48 + 200] ^= 1
    (folder / "store/data.mdb").write_bytes(data)
    done = lacuna("train", folder / "empty.yaml", "--out", folder / "out", *on_store(folder))
    assert done.returncode == 1
    assert f"store {folder / 'store'}: damaged record of sample {sample}; `lacuna verify" in done.stderr
    said = fail("verify", folder / "store", "--screen", folder / "screen")
    assert f"sample {sample}: its record has changed" in said


def test_a_planted_link_is_not_written_through(folder):
    outside = folder / "outside.npy"
    outside.write_text("precious")
    (folder / "screen/splits/late.npy").symlink_to(outside)
    succeed("split", folder / "screen", "--name", "late", "--by", "random")
    assert outside.read_text() == "precious" and not (folder / "screen/splits/late.npy").is_symlink()
    succeed("info", folder / "screen", "--check")
    (folder / "screen/splits").rename(folder / "elsewhere")
    (folder / "screen/splits").symlink_to(folder / "elsewhere")
    before = sorted(folder.glob("elsewhere/*"))
    for command in (("--by", "random"), ("--remove",)):
        name = "later" if command[0] == "--by" else "late"
        assert "splits: a link" in fail("split", folder / "screen", "--name", name, *command)
    assert sorted(folder.glob("elsewhere/*")) == before
