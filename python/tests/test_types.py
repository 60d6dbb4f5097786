"""Types: the package passes mypy, its public names have types, and the stub of _core says what the module has."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lacuna

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(lacuna.__file__).resolve().parent
CACHE = ROOT / "build" / "mypy" if (ROOT / "build").is_dir() else Path(os.devnull)

USER = """
import lacuna
reveal_type(lacuna.Screen.open("s"))
reveal_type(lacuna.Screen.open("s").make_split("a").train)
reveal_type(lacuna.Screen.open("s").graph)
reveal_type(lacuna.Recording.open("r").sessions)
reveal_type(lacuna.Recording.open("r").sessions[0].segments["a"]["stim"])
reveal_type(lacuna.Loader("s", batch=3, lags=4))
reveal_type(len(lacuna.ScreenLoader("s")))
reveal_type(lacuna.RecordingLoader("r", lags=4).where([1]))
reveal_type(lacuna.evaluate("s", "random", [1.0]))
reveal_type(lacuna.Run.open("r").model().graph)
reveal_type(lacuna.influence(lacuna.Run.open("r").model(), lacuna.Screen.open("s")).effect)
reveal_type(lacuna.cast)
lacuna.Screen.open(3)
lacuna.RecordingLoader("r", lag=4)
"""
TYPES = [
    "lacuna.screen.Screen",
    "numpy.ndarray",
    "lacuna.graph.Graph",
    "list[lacuna.recording.Session]",
    "numpy.ndarray",
    "lacuna.loader.Loader",
    "int",
    "tuple[numpy.ndarray",
    "lacuna.evaluation.Evaluation",
    "lacuna.nn.gene_graph.GeneGraph",
    "numpy.ndarray",
    "def (x: torch._tensor.Tensor",
]


def mypy(folder, *words):
    pytest.importorskip("mypy")
    environment = dict(os.environ)
    if "site-packages" not in PACKAGE.parts:
        environment["MYPYPATH"] = str(PACKAGE.parent)
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", CACHE, *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder, env=environment)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_core.pyi").exists()


def test_the_package_and_its_users(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    is_checkout = "site-packages" not in PACKAGE.parts
    examples = sorted((ROOT / "examples").glob("*.py"))
    said = mypy(tmp_path, "user.py", *examples, *([PACKAGE] if is_checkout else []))
    wrong = [line for line in said if " error: " in line]
    assert len(wrong) == 2 and "user.py:15" in wrong[0] and "user.py:16" in wrong[1], said
    assert '"open" of "Screen" has incompatible type "int"' in wrong[0] and '"lag"' in wrong[1]
    shown = [re.search(r'Revealed type is "(.*)"', line) for line in said if "Revealed" in line]
    assert len(shown) == len(TYPES), said
    for found, wanted in zip(shown, TYPES):
        assert found[1].startswith(wanted), (found[1], wanted)


def test_every_public_name_has_a_type(tmp_path):
    """Names that are imported when first used are declared to checkers, too."""
    text = (PACKAGE / "__init__.py").read_text()
    for name, module in lacuna._LAZY.items():
        assert re.search(rf"^    from \.{module} import .*\b{name} as {name}\b", text, re.M), name


def test_the_stub_says_what_the_module_has():
    nanobind = pytest.importorskip("nanobind")
    pinned = re.search(r"^nanobind==(.*)$", (ROOT / "requirements.txt").read_text(), re.M)[1]
    if nanobind.__version__ != pinned:
        pytest.skip(f"nanobind {nanobind.__version__} writes stubs another way than {pinned}")
    script = ROOT / "python" / "core" / "stubs.py"
    if not script.exists():
        pytest.skip(f"{script.name} is in a checkout only")
    spec = importlib.util.spec_from_file_location("stubs", script)
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    said = (PACKAGE / "_core.pyi").read_text()
    assert stubs.make_stub() == said, "python/core has changed: `.venv/bin/python python/core/stubs.py`"
