"""The sweep counts what it is there to count: planted silent changes, crashes, hangs and lost results, by a made-up program."""

import argparse
import hashlib
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "sweep"))
import damage
import judge
import sweep
from workshop import Command

# `fake careful|careless|crashing|contradicting|telling SOURCE OUT`: copies SOURCE, whose last line is a checksum of the
# others. `fake atomic OUT`: writes slowly. `fake torn OUT`: dies half way, but for its first two calls in a place, which say
# what is expected.
FAKE = """#!/usr/bin/env python3
import hashlib, os, sys, time
how, *names = sys.argv[1:]
if how in ("atomic", "torn"):
    out = names[0]
    file = out + ".x.tmp" if how == "atomic" else out
    with open("../calls", "a") as calls:
        calls.write("x")
        dies = how == "torn" and calls.tell() > 2
    if how == "torn" and os.path.exists(out):
        sys.exit("error: already there")
    with open(file, "w") as text:
        for line in range(20):
            print(line, file=text, flush=True)
            if dies and line == 10:
                os.kill(os.getpid(), 9)
            time.sleep(0.01)
    if how == "atomic":
        os.rename(file, out)
    sys.exit(0)
data = open(names[0], "rb").read()
body, _, seal = data.rpartition(b"\\n")
if hashlib.sha256(body).hexdigest().encode() != seal:
    if how == "careful":
        sys.exit(f"error: {names[0]} is damaged; restore it")
    if how == "crashing":
        os.abort()
    if how == "contradicting":
        sys.exit("error: internal contradiction: 1 is 2")
    if how == "telling":
        print("note: the source is damaged", file=sys.stderr)
open(names[1], "wb").write(b"same" if how == "constant" else data)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "fake"
    path.write_text(FAKE.replace("#!/usr/bin/env python3", "#!" + sys.executable))
    path.chmod(0o755)
    return path


def build(folder, program):
    folder.mkdir(parents=True)
    body = b"one\ntwo\nthree"
    (folder / "source.txt").write_bytes(body + b"\n" + hashlib.sha256(body).hexdigest().encode())


def read(how):
    return Command([how, "source.txt", "new.txt"], ["new.txt"])


def run(program, readers=(), writers={}, **changes):
    arguments = argparse.Namespace(**{"kills": 6, "flips": 4, "truncations": 3, "seed": 5, "only": "", "jobs": 2, **changes})
    kinds = {"a source": ("source.txt", list(readers))} if readers else {}
    if not readers:
        arguments.flips = arguments.truncations = 0
    return sweep.run(arguments, program, build, kinds, readers, writers)


@pytest.mark.parametrize("how, verdict, code", [
    ("careful", judge.LOUD, 0), ("constant", judge.HARMLESS, 0), ("telling", judge.SAID, 0), ("careless", judge.SILENT, 1),
    ("crashing", judge.CRASH, 1), ("contradicting", judge.CRASH, 1)])
def test_what_is_planted_is_counted(program, capsys, how, verdict, code):
    assert run(program, {how: read(how)}) == code
    printed = capsys.readouterr().out
    row = re.search(rf"^a source +{how} +(\d+)$", printed, re.MULTILINE)
    assert row and int(row.group(1)) == 7, printed
    assert [verdict] in [line.split() for line in printed.splitlines()], "the head of the table"
    assert printed.count(f"{verdict}: a source: {how}") == (14 if code else 0)  # at once, and at the end
    assert "seed 5" in printed


def test_lost_results_of_killed_writers_are_counted(program, capsys, monkeypatch):
    atomic = Command(["atomic", "new.txt"], ["new.txt"], is_atomic=True)
    assert run(program, writers={"atomic": atomic}) == 0
    assert re.search(r"^kill +atomic +6$", capsys.readouterr().out, re.MULTILINE)
    torn = Command(["torn", "new.txt"], ["new.txt"])
    monkeypatch.setattr(random.Random, "uniform", lambda *_: 60)  # no kill: it dies by itself, however slow the machine
    assert run(program, writers={"torn": torn}) == 1
    assert capsys.readouterr().out.count("LOST: kill: torn: new.txt differ") == 12  # at once, and at the end


def test_a_hang_is_a_crash(tmp_path):
    found = judge.observe(["sleep", "60"], tmp_path, [], timeout=0.2)
    assert judge.judge(found, judge.Outcome(0, "", "", False, {})) == (judge.CRASH, "hangs")


@pytest.mark.parametrize("words, verdict", [
    ("the interval of the difference does not hold 0", judge.SILENT), ("no byte differs", judge.SILENT),
    ("written with checksums", judge.SILENT), ("undamaged", judge.SILENT),
    ("The screen at screen has changed since this run", judge.SAID), ("run.json is damaged: it is empty", judge.SAID),
    ("The last line of metrics.jsonl (line 3) is torn", judge.SAID)])
def test_a_changed_report_says_so_by_whole_phrases_only(words, verdict):
    report = lambda page: judge.Outcome(0, "", "", False, {"new.html": page}, page)
    assert judge.judge(report(f"<p>2</p><p>{words}</p>"), report("<p>1</p>")) == (verdict, "new.html")


def test_times_are_no_difference_and_numbers_are(tmp_path):
    digest = lambda: judge.digests(tmp_path, ["run"])["run/run.json"]
    (tmp_path / "run").mkdir()
    file = tmp_path / "run" / "run.json"
    file.write_text('{"started": 1, "loss": 2, "checksum": "a"}')
    first = digest()
    file.write_text('{"started": 5, "loss": 2, "checksum": "b"}')
    assert digest() == first
    file.write_text('{"started": 1, "loss": 3, "checksum": "a"}')
    assert digest() != first


def test_damage_is_damage():
    """A flip changes one byte, a cut only takes away."""
    rng = random.Random(1)
    data = bytes(rng.randrange(256) for _ in range(100)) + b"\nline\nline\n"
    for _ in range(200):
        flipped, _ = damage.flip(data, rng)
        assert sum(a != b for a, b in zip(flipped, data)) == 1 and len(flipped) == len(data)
        cut, _ = damage.truncate(data, rng)
        assert len(cut) < len(data) and data.startswith(cut)
