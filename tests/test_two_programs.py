"""`lacuna` loads no torch; where a call needs it, it becomes `lacuna-torch`, and nobody notices."""

import os
import re
import resource
import shutil
import signal
import subprocess

import pytest
from program import PROGRAM, TORCH_PROGRAM, fail, lacuna, succeed

NEED_TORCH = ["compare", "evaluate", "explain", "export", "predict", "profile", "train", "bench criteria", "bench step"]

with_torch = pytest.mark.skipif(not TORCH_PROGRAM.exists(), reason="a build without torch")
without_torch = pytest.mark.skipif(TORCH_PROGRAM.exists(), reason="a build with torch")


def names(*words):
    """The subcommands that a help lists."""
    return re.findall(r"^  (\w+) ", succeed(*words, "--help").split("Subcommands:\n")[1], re.MULTILINE)


def no_torch():
    """All that `lacuna` does by itself."""
    all_names = {name for name in names() if name != "bench"} | {f"bench {name}" for name in names("bench")}
    assert set(NEED_TORCH) < all_names
    return sorted(all_names - set(NEED_TORCH))


# ---- what is loaded
def loaded(*words):
    """The libraries that a call loads, as the loader reports them."""
    told = subprocess.run([PROGRAM, *words], env={**os.environ, "LD_DEBUG": "libs"}, capture_output=True, text=True)
    return set(re.findall(r"calling init: \S*/(\S+?)\.so", told.stderr))


@with_torch
def test_only_what_needs_torch_loads_it(tmp_path):
    succeed("generate", "screen", tmp_path / "screen", "--size", "tiny", "--samples", 50)
    helps = [(*words.split(), "--help") for words in NEED_TORCH]
    wrong = [(*words.split(), "x", "--no-such-option") for words in NEED_TORCH]
    wrong += [("train",), ("train", "--resume"), ("evaluate", "run", "--screen", "x"), ("bench", "step")]
    for words in [("info", tmp_path / "screen"), ("plan", tmp_path / "screen"), ("--help",), ("bench", "--help"), *helps, *wrong]:
        libraries = loaded(*words)
        assert "liblacuna" in libraries
        assert not [name for name in libraries if "torch" in name or "c10" in name], words
    assert {"liblacuna", "liblacuna_torch", "libtorch_cpu"} < loaded("train", "no-such.yaml")


@with_torch
@pytest.mark.parametrize("words", ["", "bench", *NEED_TORCH])
def test_help_needs_little_address_space(words):
    """A batch system may limit it; torch alone takes 500 MB."""
    limit = 300 << 20
    little = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # noqa: E731
    assert succeed(*words.split(), "--help", preexec_fn=little) == succeed(*words.split(), "--help")


@with_torch
def test_the_program_names_no_torch():
    assert "/torch/lib" not in subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout


# ---- both say the same
@with_torch
@pytest.mark.parametrize("words", ["", "bench", *NEED_TORCH])
def test_both_give_the_same_help(words):
    words = words.split()
    said = succeed(*words, "--help")
    assert said == subprocess.run([TORCH_PROGRAM, *words, "--help"], capture_output=True, text=True, check=True).stdout
    assert said == succeed("--help", *words)
    assert f"Usage: lacuna {' '.join(words)}" in said
    if words == ["train"]:  # the keys of every model: those that only lacuna-torch knows
        assert "Under `model`, with name hetero_gin:" in said and "ramp_epochs: 10" in said and "log_every:" in said


@with_torch
@pytest.mark.parametrize("words", NEED_TORCH)
def test_a_wrong_call_is_that_of_lacuna(words):
    assert f"see `lacuna {words} --help`" in fail(*words.split(), "x", "--no-such-option", code=2)


# ---- becoming the other: a stand-in for it, beside a copy of the program, tells what it was given
@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    return shutil.copy(PROGRAM, folder / "lacuna")


def stand_in(copy, script):
    other = copy.with_name("lacuna-torch")
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(0o755)


def start(program, *words):
    return subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@with_torch
@pytest.mark.parametrize("words", [
    ["compare", "a  b", "--out", "*", "--set", "", "--vary", "a=b c"],
    ["evaluate", "--device", "cpu", "--", "-x"],
    ["export", "a  b", "--embeddings", "--out", ""],
    ["predict", "*", "--all-pairs", "--out", "x y"],
    ["profile", "*", "--steps", "3"],
    ["train", "a  b", "--set", "x=;$HOME", "--set", "", "--out", "*", "--resume"],
    ["bench", "criteria", "a  b", "--python", "*"],
    ["bench", "step", "--batch", "1,2", "--", "-x"],
    ["bench", "ladder", "x", "--train"],
    ["bench", "ladder", "--train", "x", "--set", "a=b c"],
])
def test_the_other_gets_every_word_in_the_same_process(copy, words):
    stand_in(copy, 'echo $$; for word in "$@"; do echo "[$word]"; done')
    started = start(copy, *words)
    assert started.communicate() == (f"{started.pid}\n" + "".join(f"[{word}]\n" for word in words), "")
    link = copy.parent.parent / "called-so"
    link.symlink_to(copy)
    assert f"[{words[-1]}]\n" in start(link, *words).communicate()[0]


@with_torch
def test_all_else_is_done_without_the_other(copy):
    stand_in(copy, "exit 66")
    every_help = [[*name.split(), "--help"] for name in [*no_torch(), *NEED_TORCH]]
    for words in [*every_help, ["--help", "train"], ["--help"], ["--version"], ["bench", "--help"]]:
        assert start(copy, *words).wait() == 0, words
    for words in [["frobnicate"], ["info", "train"], ["bench", "ladder", "--set", "a=b", "x"], ["bench"]]:
        assert start(copy, *words).wait() in (1, 2), words


@with_torch
def test_its_end_is_that_of_the_other(copy):
    stand_in(copy, "exit 75")
    assert start(copy, "train", "x.yaml").wait() == 75
    stand_in(copy, "trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done")
    started = start(copy, "train", "x.yaml")
    assert started.stdout.readline() == "ready\n"
    started.send_signal(signal.SIGTERM)
    assert started.wait() == 42


@with_torch
@pytest.mark.parametrize("reason", ["No such file or directory", "Permission denied"])
def test_where_the_other_is_missing_it_says_so(copy, tmp_path, reason):
    if reason == "Permission denied":
        copy.with_name("lacuna-torch").touch()
    out = tmp_path / "out"
    out.mkdir()
    succeed("generate", "screen", tmp_path / "screen", "--size", "tiny", "--samples", 50)
    for what, words in [("lacuna train", ["train", "x.yaml"]), ("lacuna bench step", ["bench", "step", "x.yaml"]),
                        ("--train", ["bench", "ladder", tmp_path / "screen", "--train", "--out", out])]:
        started = start(copy, *words)
        told = started.communicate()
        assert told == ("", f"error: `{what}` needs {copy.with_name('lacuna-torch')}, which cannot be started: {reason}; "
                            "install lacuna again, both programs\n")
        assert started.returncode == 1
    assert list(out.iterdir()) == []
    assert start(copy, "info", tmp_path / "screen").wait() == 0


@without_torch
@pytest.mark.parametrize("words", NEED_TORCH)
def test_a_build_without_torch_says_so(words):
    said = f"error: `lacuna {words}` needs torch, which this build has not; `make build` adds it"
    assert fail(*words.split(), "x", "--no-such-option") == said
    assert f"  {words.split()[-1]} " in lacuna(*words.split()[:-1], "--help").stdout
