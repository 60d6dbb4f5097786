"""The examples do what they say."""

import difflib
import importlib.util
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lacuna
from lacuna.__main__ import environment, program

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def screen(tmp_path):
    screen = lacuna.Screen.generate(tmp_path / "screen", size="tiny", seed=1)
    screen.make_split("random", fractions=(0.8, 0.1, 0.1))
    return screen


def tune(screen, folder, epochs, *words):
    """The command of a study of one more trial."""
    pytest.importorskip("optuna", reason="optuna is not installed")
    (folder / "config.yaml").write_text(
        f"screen: {screen.path}\nmodel: {{name: factors}}\ntrain: {{epochs: {epochs}, batch: 32, device: cpu}}\n")
    command = [sys.executable, EXAMPLES / "tune.py", folder / "config.yaml", folder / "out", "--look-every", "0.1",
               "--lacuna", program(), "--trials", "1", *words]
    return [str(word) for word in command]


def test_tuning_goes_on_where_it_ended(screen, tmp_path):
    command = tune(screen, tmp_path, 2, "--set", "train.seed=2")
    for count in (1, 2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment())
        assert done.returncode == 0, done.stderr
        assert f"{count} trials" in done.stdout
    rates = {re.search(r"^  lr: (.*)$", file.read_text(), re.M)[1] for file in (tmp_path / "out").glob("trial-*/config.yaml")}
    assert len(rates) == 2  # the second call does not draw what the first one drew
    best = (tmp_path / "out" / "best.yaml").read_text()
    assert "parts: [validation, test]" in best and "best of 2 trials" in best and "seed: 2" in best
    assert "<svg" in (tmp_path / "out" / "tuned.svg").read_text()
    for run in (tmp_path / "out").glob("trial-*/"):  # nobody looks at the test part before the end
        assert list(json.loads((run / "evaluation.json").read_text())["parts"]) == ["validation"]


def status_of(run):
    file = run / "run.json"
    return json.loads(file.read_text())["status"] if file.exists() else "not begun"


def epochs_of(run):
    file = run / "metrics.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [line["epoch"] for line in map(json.loads, lines) if line["kind"] == "epoch"]


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_trial_that_was_cut_off_is_taken_up(screen, tmp_path):
    """By Ctrl-C, by SIGTERM and by kill -9: its training ends, too, and the next call goes on in the same folder."""
    command = tune(screen, tmp_path, 400)
    run = tmp_path / "out" / "trial-0000"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        before = len(epochs_of(run))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
        wait_for(lambda: len(epochs_of(run)) > before)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        if number != signal.SIGKILL:
            assert process.returncode == 75 and "the same command goes on" in said, said
            assert status_of(run) == "stopped"
        assert len(epochs_of(run)) < 400
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment())
    assert done.returncode == 0, done.stderr
    assert "1 trials, 1 finished" in done.stdout and [f.name for f in run.parent.glob("trial-*/")] == ["trial-0000"]
    assert status_of(run) == "finished" and epochs_of(run) == list(range(400))


@pytest.mark.filterwarnings("ignore")
def test_a_ported_model_predicts_the_same(capsys, monkeypatch):
    pytest.importorskip("lightning", reason="lightning is not installed")
    pytest.importorskip("torch_geometric")
    port = example("port_pyg")
    monkeypatch.setattr(sys, "argv", ["port_pyg.py", "--size", "tiny", "--steps", "3"])
    port.main()
    said = capsys.readouterr().out
    assert float(re.search(r"difference of predictions: (\S+)", said)[1]) <= 1e-5
    assert re.search(r"[\d.]+ times as fast", said)
    sources = [inspect.getsource(kind).splitlines()[1:] for kind in (port.Before, port.After)]
    changed = [line for line in difflib.ndiff(*sources) if line[0] in "+-"]
    assert 5 < len(changed) < 15
    page = (ROOT / "docs" / "pyg.md").read_text()
    for line in changed:
        assert line[0] + line[2:] in page, f"docs/pyg.md does not show: {line}"


@pytest.mark.filterwarnings("ignore")
def test_lightning_goes_on_where_it_was_killed(screen, tmp_path, monkeypatch):
    """In this process: the kill is an exception. All of it, with two ranks and kill -9, is the test below."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    lightning_screen = example("lightning_screen")

    def die(*_):
        raise InterruptedError

    monkeypatch.setattr(lightning_screen.os, "kill", die)
    runs = {}
    # Behind step 15 the last checkpoint is that of step 14, the last of an epoch.
    for name, deaths in {"whole": [None], "broken": [5, 11, None], "at an end": [15, 18, None]}.items():
        (tmp_path / name).mkdir()
        for death in deaths:
            if death is None:
                lightning_screen.train(screen, tmp_path / name)
                continue
            with pytest.raises(InterruptedError):
                lightning_screen.train(screen, tmp_path / name, die_at=death)
        runs[name] = lightning_screen.seen(tmp_path / name)
    assert runs["whole"] == runs["broken"] == runs["at an end"] and len(runs["whole"]) == 21
    lines = (tmp_path / "broken" / "rank0.log").read_text().splitlines()
    assert len(lines) == 23  # steps 5 and 11 were taken twice
    epochs = [sorted(int(s) for step in range(7 * e, 7 * e + 7) for s in runs["whole"][0, step + 1].split()) for e in range(3)]
    assert epochs == [screen.split("random").train.tolist()] * 3


@pytest.mark.skipif(not os.environ.get("LACUNA_TEST_ALL"), reason="takes a minute; make test-all runs it")
def test_the_answer_about_unseen_genes_is_made(tmp_path, monkeypatch):
    """On two synthetic screens, which stand where those of the tables would."""
    unseen_genes = example("unseen_genes")
    monkeypatch.setattr(unseen_genes, "LACUNA", str(program()))
    for number, name in enumerate(unseen_genes.SCREENS):
        words = ["generate", "screen", tmp_path / name, "--size", "small", "--samples", "3000", "--removed", "2"]
        subprocess.run([program(), *map(str, words), "--share-module", "0.6", "--share-gene", "0.2", "--share-graph", "0",
                        "--share-noise", "0.2", "--seed", str(number)], check=True)
        unseen_genes.make_screen(None, tmp_path, name)
        unseen_genes.run_studies(tmp_path, name, seeds=1, fold_seeds=1)
    unseen_genes.write_tables(tmp_path)
    page = (tmp_path / "unseen-genes.md").read_text()
    assert page.count("| all |") == 2 and "control: `factors` over a shuffled graph" in page and "nan" not in page
    assert "<svg" in (tmp_path / "unseen-genes.svg").read_text()


@pytest.mark.skipif(not os.environ.get("LACUNA_TEST_ALL"), reason="takes a minute; make test-all runs it")
def test_lightning_on_two_ranks_killed_and_resumed():
    pytest.importorskip("lightning", reason="lightning is not installed")
    known = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).resolve().parents[1])}
    command = [sys.executable, EXAMPLES / "lightning_screen.py", "--devices", "2"]
    done = subprocess.run(command, capture_output=True, text=True, env=known)
    assert done.returncode == 0, done.stderr
    assert "killed twice and resumed: the same 480 samples in 42 batches" in done.stdout


@pytest.mark.filterwarnings("ignore")
def test_the_cells_of_the_notebook_run():
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    cells = json.loads((EXAMPLES / "sweep.ipynb").read_text())["cells"]
    names = {"__name__": "sweep"}
    for i, cell in enumerate(cells):
        assert not cell.get("outputs"), "clear the outputs before it is committed"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"sweep.ipynb, cell {i}", "exec"), names)
    assert names["report"].stat().st_size > 10_000 and len(names["sweep"]) == 4


@pytest.mark.skipif(not os.environ.get("LACUNA_TEST_ALL"), reason="starts a kernel of Jupyter; make test-all runs it")
def test_the_notebook_runs_in_a_kernel(tmp_path, monkeypatch):
    """As Jupyter runs it: screens, tables and figures are shown by their cells."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    folders = [str(Path(lacuna.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))  # no settings of who runs the tests
    notebook = nbformat.read(EXAMPLES / "sweep.ipynb", as_version=4)
    here = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=here).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output["data"] for output in outputs if "data" in output]
    assert sum("image/png" in data for data in shown) >= 3
    assert "samples" in shown[0]["text/html"]  # the screen
    said = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "report.html" in said and "the pair that surprises most" in said
