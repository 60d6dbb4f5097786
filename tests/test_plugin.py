"""A model of one's own in a library: `--plugin` brings it along, and a run knows it later."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from checkpoint_files import tensors
from program import BUILD, ROOT, TORCH_PROGRAM, fail, lacuna, new_screen, succeed

pytestmark = pytest.mark.skipif(not TORCH_PROGRAM.exists(), reason="a build without torch")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example as a plugin, built against an installed Lacuna as docs/add-a-model.md says; a screen; a config."""
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"no build in {BUILD}; run `make build`")
    folder = tmp_path_factory.mktemp("plugin")
    run("cmake", "--install", BUILD, "--prefix", folder / "prefix")
    run("cmake", "-S", ROOT / "examples", "-B", folder / "mine", "-G", "Ninja", f"-Dlacuna_ROOT={folder / 'prefix'}",
        f"-DLACUNA_PYTHON={sys.executable}")
    run("cmake", "--build", folder / "mine")
    shutil.copy(folder / "mine" / "libmine.so", folder / "libmine.so")
    new_screen(folder / "screen")
    (folder / "config.yaml").write_text(
        f"screen: {folder / 'screen'}\nmodel: {{name: lost_neighbours, width: 4}}\n"
        "train: {epochs: 2, batch: 40, device: cpu}\nevaluate: {baselines: false, bootstrap: 0}\n")
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    succeed("train", "config.yaml", "--plugin", "libmine.so", "--out", "run", cwd=folder)
    return folder / "run"


def predictions(trained, *options):
    out = trained.parent / "predicted.csv"
    succeed("predict", trained, "--all-pairs", "--top", "5", "--out", out, *options)
    return out.read_text()


def test_a_run_knows_its_plugin(folder, trained):
    assert f"plugin: {folder / 'libmine.so'}" in (trained / "config.yaml").read_text()
    assert json.loads((trained / "run.json").read_text())["plugin"]["path"] == str(folder / "libmine.so")
    assert tensors(trained / "checkpoints" / "last.safetensors")["table"].shape[1] == 4
    assert len(predictions(trained).splitlines()) == 6
    assert "pearson" in succeed("evaluate", trained).lower()
    succeed("export", trained, "--embeddings", "--out", folder / "embeddings.npz")
    assert np.load(folder / "embeddings.npz")["genes"].shape[1] == 4
    assert "finished" in succeed("info", trained)
    succeed("report", trained, "--out", folder / "report.html")


def test_other_commands_take_it(folder):
    config = ["config.yaml", "--plugin", "libmine.so"]
    assert "ms/step" in succeed("bench", "step", *config, "--batch", 4, "--steps", 1, cwd=folder)
    assert "aggregation" in succeed("profile", *config, "--steps", 2, cwd=folder)
    succeed("compare", *config, "--seeds", 1, "--set", "train.epochs=1", "--out", "compare", cwd=folder)
    assert (folder / "compare" / "summary.csv").exists()


def test_a_stopped_run_goes_on_with_it(folder):
    succeed("train", "config.yaml", "--plugin", "libmine.so", "--set", "train.epochs=1", "--out", "short", cwd=folder)
    config = folder / "short" / "config.yaml"
    assert "is finished" in lacuna("train", "--resume", "--out", folder / "short").stderr
    assert "lost_neighbours" in config.read_text()


def test_one_that_is_gone_or_elsewhere(folder, trained):
    before = predictions(trained)
    library = folder / "libmine.so"
    library.rename(folder / "moved.so")
    try:
        said = fail("predict", trained, "--all-pairs", "--out", folder / "p.csv")
        assert f"there is no plugin {library}" in said and "--plugin" in said
        assert predictions(trained, "--plugin", folder / "moved.so") == before
    finally:
        (folder / "moved.so").rename(library)


def test_one_that_has_changed_is_said(folder, trained):
    other = folder / "again.so"
    shutil.copy(folder / "libmine.so", other)
    with other.open("ab") as file:
        file.write(b"\0")
    done = lacuna("predict", trained, "--all-pairs", "--top", 1, "--out", folder / "p.csv", "--plugin", other)
    assert done.returncode == 0 and "note: the plugin" in done.stderr and "has changed" in done.stderr


def test_what_is_no_plugin_is_named(folder):
    train = ["train", folder / "config.yaml", "--out", folder / "none"]
    assert "one of your own: --plugin" in fail(*train)
    assert "there is no plugin" in fail(*train, "--plugin", folder / "nowhere.so")
    (folder / "text.so").write_text("not a library")
    assert "cannot be loaded" in fail(*train, "--plugin", folder / "text.so")
    for source, words in (
        ("int nothing;", "adds no model"),
        ('#include <string>\nnamespace lacuna { enum class DataKind { screen };'
         ' bool add_model_settings(const std::string&, const char*, DataKind = DataKind::screen); }\n'
         'const bool known = lacuna::add_model_settings("hetero_gin", "name: hetero_gin");', "model 'hetero_gin' already"),
    ):
        file = folder / "odd.cpp"
        file.write_text(source)
        run("g++", "-shared", "-fPIC", "-O0", file, "-o", folder / f"odd{len(words)}.so")
        assert words in fail(*train, "--plugin", folder / f"odd{len(words)}.so")
    (folder / "recording.yaml").write_text("recording: somewhere\n")
    assert "models of screens" in fail("train", folder / "recording.yaml", "--out", folder / "none", "--plugin",
                                       folder / "libmine.so", code=2)
    assert not (folder / "none").exists()
