"""docs/api.md: says what the docstrings say, every public name is there with words of its own, and its examples run."""

import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import lacuna

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "api.md"


@pytest.fixture(scope="module")
def make_api():
    file = ROOT / "scripts" / "make_api.py"
    if not file.exists():
        pytest.skip("scripts/make_api.py is in a checkout only")
    spec = importlib.util.spec_from_file_location("make_api", file)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["make_api"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_docstrings_say(make_api):
    assert make_api.make_page() == PAGE.read_text(), "a docstring has changed: `.venv/bin/python scripts/make_api.py`"


@pytest.mark.parametrize("module", [lacuna, lacuna.nn], ids=["lacuna", "lacuna.nn"])
def test_every_public_name_is_explained(make_api, module):
    for name in sorted(set(module.__all__) - {"nn", "library_path"}):
        value = getattr(module, name)
        assert make_api.entry_of(name, value).text, f"{name} has no docstring"
        for member in make_api.members_of(value) if inspect.isclass(value) else ():
            assert member.text, f"{name}.{member.name} has no docstring"


def test_every_public_name_is_tested(make_api):
    """As far as a test can tell: each name, and each method, stands in some test."""
    tests = "".join(file.read_text() for file in sorted(Path(__file__).parent.glob("*.py")) if file.name != "test_api.py")
    for module in (lacuna, lacuna.nn):
        for name in module.__all__:
            assert re.search(rf"\b{name}\b", tests), f"no test names {name}"
            value = getattr(module, name)
            for member in make_api.members_of(value) if inspect.isclass(value) else ():
                assert member.name.startswith("__") or re.search(rf"\.{member.name}\b", tests), f"{name}.{member.name}"


def test_links_of_the_page_lead_somewhere():
    text = PAGE.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    anchors = {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert len(anchors) > 100
    assert not [link for link in re.findall(r"\]\(#(.*?)\)", text) if link not in anchors]
    assert not re.findall(r":\w+:`", text)


class MyModel(torch.nn.Module):
    """A trainable module, as somebody who reads the page has one."""

    def __init__(self):
        super().__init__()
        self.effects = torch.nn.EmbeddingBag(1000, 1, mode="sum", include_last_offset=True)

    def forward(self, removed, ptr):
        return self.effects(removed, ptr)


def names_of_the_examples(folder):
    """What the examples mention: files in `folder`, and these names."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("matplotlib").use("agg")
    genes = ["A", "B", "C"]
    (folder / "genes.tsv").write_text("gene\n" + "\n".join(genes) + "\n")
    for network in ("physical", "tf"):
        (folder / f"{network}.tsv").write_text("source\ttarget\nA\tB\nB\tC\n")
    (folder / "screen.csv").write_text("a,b,fitness\nA,B,0.5\nB,C,0.7\n")
    (folder / "mine.py").write_text("def function(stim, session, segment, rate):\n    return stim[:, :3, :3]\n")
    rng = np.random.default_rng(1)
    stim = rng.integers(0, 255, (40, 4, 5), dtype=np.uint8)
    counts, trial = rng.poisson(1, (40, 2)).astype(np.float32), np.arange(40, dtype=np.int32) // 10
    with h5py.File(folder / "m1_0703.h5", "w") as file:
        file["stim"], file["robs"], file["trial"] = stim, counts, trial
    screen = lacuna.Screen.generate(folder / "screen", size="tiny", seed=1)
    screen.make_split("random")
    recording = lacuna.Recording.generate(folder / "recording", sessions=1, minutes=0.3, seed=1, side=17, units=3)
    config = folder / "config.yaml"
    config.write_text(f"screen: {screen.path}\nmodel: {{name: mlp, width: 4}}\n"
                      "train: {epochs: 1, device: cpu}\nevaluate: {baselines: false, bootstrap: 0}\n")
    graph = screen.graph
    removed, ptr = lacuna.removed_lists([[0], [1, 2]])
    found = {"np": np, "torch": torch, "lacuna": lacuna, "screen": screen, "recording": recording, "graph": graph,
             "removed": removed, "ptr": ptr, "stim": stim, "counts": counts, "trial": trial, "MyModel": MyModel}
    found["run"] = lacuna.Run.train(config, folder / "a run", show=False)
    return found


def test_examples_of_the_page_run(tmp_path, monkeypatch):
    given = tmp_path / "given"
    given.mkdir()
    names = names_of_the_examples(given)
    text = PAGE.read_text()
    examples = list(re.finditer(r"```python\n(.*?)```", text, re.S))
    assert len(examples) >= 8
    for number, example in enumerate(examples):
        folder = tmp_path / str(number)  # what one writes is not in the next one's way
        folder.mkdir()
        for file in given.iterdir():
            (folder / file.name).symlink_to(file)
        monkeypatch.chdir(folder)
        line = text[: example.start()].count("\n") + 1
        exec(compile("\n" * line + example[1], str(PAGE), "exec"), dict(names))
