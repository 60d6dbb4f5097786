"""Calls of the program: what it says, its progress as bars, its errors as exceptions, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lacuna
from lacuna import _program, _progress


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Sets a script in the program's place."""

    def set_program(text):
        script = tmp_path / "lacuna"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        monkeypatch.setattr(_program, "program", lambda: script)

    return set_program


class Bar:
    """What a bar was told, instead of tqdm."""

    def __init__(self, told, desc, total, unit, **_):
        self.told, self.n = told, 0
        told.append((desc, total, unit))

    def update(self, more):
        self.n += more
        self.told.append(self.n)

    def close(self):
        self.told.append("closed")


@pytest.fixture
def bars(monkeypatch):
    told = []
    monkeypatch.setitem(sys.modules, "ipykernel", sys)  # as in a notebook
    monkeypatch.setattr("tqdm.auto.tqdm", lambda **options: Bar(told, **options))
    return told


def test_what_it_prints_is_given_back_however_long(program, capsys):
    program("echo note: mine >&2; head -c 300000 /dev/zero | tr '\\0' x; echo; echo note: too >&2")
    assert _program.call("anything") == "x" * 300_000 + "\n"
    said = capsys.readouterr()
    assert said.err == "note: mine\nnote: too\n" and said.out == ""
    _program.call("anything", live=True)
    assert len(capsys.readouterr().out) == 300_001
    _program.call("anything", live=True, show=False)
    assert capsys.readouterr() == ("", "")


def test_errors_are_those_of_the_program(program):
    program("echo note: first >&2; echo 'error: gene A is unknown' >&2; exit 1")
    with pytest.raises(lacuna.Error, match="^gene A is unknown$") as raised:
        _program.call("x")
    assert not isinstance(raised.value, lacuna.UsageError)
    program("echo 'error: no such option' >&2; exit 2")
    with pytest.raises(lacuna.UsageError, match="^no such option$"):
        _program.call("x")
    program("echo killed >&2; kill -9 $$")
    with pytest.raises(lacuna.Error, match="`lacuna one two` ended with -9: killed"):
        _program.call("one", "two")


def test_progress_is_a_bar_in_a_notebook(program, bars, capsys):
    line = """echo 'progress: {"task": "%s", "done": %d, "total": 9, "unit": "samples"}' >&2"""
    program("\n".join([line % ("writing", 3), line % ("writing", 7), line % ("checking", 1)]))
    _program.call("x")
    assert bars == [("writing", 9, " samples"), 3, 7, "closed", ("checking", 9, " samples"), 1, "closed"]
    assert capsys.readouterr().err == ""
    bars.clear()
    _program.call("x", show=False)
    assert bars == []


def test_a_training_says_how_far_it_is(tmp_path, bars, capsys):
    screen = lacuna.Screen.generate(tmp_path / "s", seed=1)
    samples = len(screen.make_split("random").train)
    config = tmp_path / "config.yaml"
    config.write_text(f"screen: {screen.path}\nmodel: {{name: mlp, width: 4}}\n"
                      "train: {epochs: 2, batch: 40, log_every: 1, device: cpu}\nevaluate: {baselines: false, bootstrap: 0}\n")
    run = lacuna.Run.train(config, tmp_path / "run")
    assert ("epoch 1/2", samples, " samples") in bars and ("epoch 2/2", samples, " samples") in bars
    assert samples in bars and bars[-1] == "closed", bars
    shown = capsys.readouterr().out
    assert shown.count("epoch ") == 2 and "progress" not in shown and f"run: {run.path}" in shown


def test_nobody_looks_where_stderr_is_a_file():
    code = "from lacuna._progress import Progress\nwith Progress() as p: print(p)"
    environment = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "None", done.stderr
    assert _progress.Progress().__exit__() is None


def test_ctrl_c_ends_the_program_and_raises(program, tmp_path):
    program(f"trap 'echo ended > {tmp_path}/ended; exit 75' TERM\ntouch {tmp_path}/begun\nwhile :; do sleep 0.05; done")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    child = os.fork()
    if child == 0:  # presses Ctrl-C for this process alone, once the program runs
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        time.sleep(0.5)  # nobody is as quick as to press it while Popen itself is at work
        os.kill(os.getppid(), signal.SIGINT)
        os._exit(0)
    try:
        with pytest.raises(KeyboardInterrupt):
            _program.call("x")
    finally:
        signal.signal(signal.SIGINT, before)
        os.waitpid(child, 0)
    assert (tmp_path / "ended").exists()
