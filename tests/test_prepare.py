"""Stores of masks: prepared, killed at any moment, gone on with, read with Python's own lmdb, damaged and verified."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from program import Started, fail, lacuna, succeed

FORMS = ["u8", "bits", "bf16", "positions"]


def generate(path, samples, size="small"):
    succeed("generate", "screen", path, "--size", size, "--samples", samples, "--seed", 5)
    return path


def prepare(screen, store, form="u8", *more):
    return ["prepare", screen, "--rung", f"disk:{form}", "--out", store, *more]


def records(store):
    """By the Python package: {sample: (header, record)}."""
    lmdb = pytest.importorskip("lmdb")
    found = {}
    with lmdb.open(str(store), readonly=True, lock=False) as environment, environment.begin() as view:
        for key, value in view.cursor():
            found[int.from_bytes(key, "big")] = (np.frombuffer(value[:48], "<u8").tolist(), value[48:])
    return found


class Expected:
    """Masks by the words of docs/formats.md, in NumPy, from the files of a screen."""

    def __init__(self, screen):
        self.manifest = json.loads((screen / "manifest.json").read_text())
        self.removed = np.load(screen / "samples/removed.npy")
        self.ptr = np.load(screen / "samples/ptr.npy")
        self.edges = {}
        for edges in self.manifest["edges"]:
            key = f"{edges['source']}.{edges['name']}.{edges['target']}"
            self.edges[key] = np.load(screen / f"edges/{key}.npy")

    def masks(self, sample):
        count = {nodes["type"]: nodes["count"] for nodes in self.manifest["nodes"]}
        gene = np.ones(count["gene"], bool)
        gene[self.removed[self.ptr[sample] : self.ptr[sample + 1]]] = False
        reaction = np.ones(count["reaction"], bool)
        for key, (source, target) in self.edges.items():
            if key.endswith(".reaction"):
                reaction[target[~gene[source]]] = False
        kept = {"gene": gene, "reaction": reaction, "metabolite": np.ones(count["metabolite"], bool)}
        masks = [kept[nodes["type"]] for nodes in self.manifest["nodes"]]
        for key, (source, target) in self.edges.items():
            kind = (key.split(".")[0], key.split(".")[-1])
            if kind == ("gene", "gene"):
                masks.append(gene[source] & gene[target])
            else:
                masks.append(gene[source] if kind[0] == "gene" else reaction[source])
        return masks


def in_form(masks, form):
    """A record from boolean masks."""
    out = bytearray()
    for mask in masks:
        if form == "positions":
            gone = np.flatnonzero(~mask)
            gaps = np.diff(gone, prepend=-1) - 1
            for value in [len(gone), *gaps]:
                value = int(value)
                while value >= 128:
                    out.append(value % 128 + 128)
                    value //= 128
                out.append(value)
            continue
        if form == "u8":
            out += mask.astype(np.uint8).tobytes()
        elif form == "bits":
            out += np.packbits(mask, bitorder="little").tobytes()
        else:
            out += (mask * np.uint16(0x3F80)).astype("<u2").tobytes()
        out += bytes(-len(out) % 64)
    return bytes(out)


@pytest.mark.parametrize("form", FORMS)
def test_records_are_those_of_numpy(tmp_path, form):
    screen = generate(tmp_path / "screen", 200)
    store = tmp_path / "store"
    succeed(*prepare(screen, store, form, "--samples", "50:120", "--threads", 3))
    found = records(store)
    expected = Expected(screen)
    assert sorted(found) == list(range(50, 120))
    for sample, (header, record) in found.items():
        assert record == in_form(expected.masks(sample), form)
        assert header[1] == sample and header[3] == len(record)
    manifest = json.loads((store / "manifest.json").read_text())
    assert manifest["format"] == "lacuna.store" and manifest["rung"] == f"disk:{form}"
    assert not (store / "manifest.partial.json").exists() and not (store / "lock.mdb").exists()
    assert "no fault" in succeed("verify", store, "--screen", screen, "--all")
    said = succeed("info", store)
    assert f"disk:{form}" in said and "finished" in said and "samples 50 to 119" in said
    fingerprint = json.loads(succeed("info", screen, "--json"))["fingerprint"]["value"]
    assert f"made of screen {screen}, fingerprint {fingerprint}" in said
    assert json.loads(succeed("info", store, "--json"))["finished"]


def data_bytes(store):
    data = store / "data.mdb"
    return data.stat().st_size if data.exists() else 0


def samples_in(store):
    """How many were committed; by the Python package."""
    lmdb = pytest.importorskip("lmdb")
    if data_bytes(store) < 2 * 4096:  # the two pages that every LMDB begins with
        return 0
    with lmdb.open(str(store), readonly=True, lock=False, map_size=1 << 36) as environment:  # it may grow just now
        return environment.stat()["entries"]


@pytest.mark.parametrize("form,samples", [("u8", 3000), ("positions", 60000)])
def test_killed_at_any_moment(tmp_path, seed, form, samples):
    """A store of several transactions, killed again and again, ends up the same as one written in one go."""
    screen = generate(tmp_path / "screen", samples)
    whole = tmp_path / "whole"
    succeed(*prepare(screen, whole, form))
    states = set()
    for round in range(2):
        store = tmp_path / f"store{round}"
        before = 0
        # The moment is read from the growing file: first while it is small, then anywhere.
        for share in sorted([random.uniform(0, 0.3), *(random.uniform(0, 1) for _ in range(3))]):
            preparing = Started(*prepare(screen, store, form))
            preparing.wait_for(lambda: data_bytes(store) >= share * data_bytes(whole))
            time.sleep(random.uniform(0, 0.02))
            preparing.end(signal.SIGKILL)
            if (store / "manifest.json").exists():
                states.add("finished")
                break
            message = fail("verify", store, "--screen", screen)
            assert "unfinished" in message or "no such directory" in message or "no manifest" in message
            states.add("unfinished" if "unfinished" in message else "nothing")
            assert samples_in(store) >= before  # what was safe stays
            before = samples_in(store)
        before = samples_in(store)
        words = succeed(*prepare(screen, store, form))
        assert ("; all were there" if before == samples else f", {before:,} were there") in words
        assert "no fault" in succeed("verify", store, "--screen", screen)
        found = records(store)
        assert list(found) == list(range(samples))
        sample = random.randrange(samples)
        assert found[sample][1] == in_form(Expected(screen).masks(sample), form)
        shutil.rmtree(store)
    assert "unfinished" in states


def default_signals():
    """A test that was itself started in the background inherits a Ctrl-C that does nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_between_transactions(tmp_path, number):
    screen = generate(tmp_path / "screen", 20000)  # 1.2 GB of u8 if nobody stopped it: 18 transactions
    store = tmp_path / "store"
    preparing = Started(*prepare(screen, store, "u8", "--again"), preexec_fn=default_signals)
    assert preparing.wait_for(lambda: samples_in(store) > 0)
    assert preparing.end(number) == 75, preparing.errors
    there = samples_in(store)
    assert 0 < there < 20000 and not (store / "manifest.json").exists()
    assert preparing.output == f"stopped after {there:,} samples; the same command without --again goes on\n"
    assert preparing.errors == ""
    said = succeed("info", store)
    assert "unfinished: `lacuna prepare` was interrupted" in said
    assert f"rung disk:u8 of samples 0 to 19,999; {there:,} are there" in said
    about = json.loads(succeed("info", store, "--json"))
    assert (about["finished"], about["samples_there"], about["rung"]) == (False, there, "disk:u8")
    more = there + 100
    words = succeed(*prepare(screen, store, "u8", "--samples", f"0:{more}"))
    assert "; 100 written in " in words and f", {there:,} were there" in words
    assert "no fault" in succeed("verify", store, "--screen", screen)


def test_a_store_that_is_being_written_is_not_called_interrupted(tmp_path):
    screen = generate(tmp_path / "screen", 3000)
    store = tmp_path / "store"
    preparing = Started(*prepare(screen, store))
    assert preparing.wait_for(lambda: data_bytes(store) > 0)
    preparing.process.send_signal(signal.SIGSTOP)  # it holds still, and its lock
    try:
        assert not (store / "manifest.json").exists(), "it ended before it was held"
        message = fail("verify", store, "--screen", screen)
        assert "in use by another program that writes to it" in message and "interrupted" not in message
        said = succeed("info", store)
        assert "`lacuna prepare` is at work on it" in said and "interrupted" not in said
    finally:
        preparing.process.send_signal(signal.SIGCONT)
    assert preparing.end(signal.SIGKILL) == -signal.SIGKILL
    if not (store / "manifest.json").exists():
        assert "interrupted" in fail("verify", store, "--screen", screen)


QUICK_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec* out) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, out);
  if (id != CLOCK_MONOTONIC) return result;
  static time_t start;
  if (!start) start = out->tv_sec;
  long long passed = (out->tv_sec - start) * 1000000000LL + out->tv_nsec;
  passed *= 10000;
  out->tv_sec = start + passed / 1000000000LL;
  out->tv_nsec = passed % 1000000000LL;
  return result;
}
"""


def test_a_batch_job_hears_a_line_a_minute(tmp_path):
    """Where stderr is no terminal. The program's clock is made to run quickly: its minute is 6 ms."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (tmp_path / "clock.c").write_text(QUICK_CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    screen = generate(tmp_path / "screen", 4000)  # 240 MB of u8: 4 transactions
    quick = {**os.environ, "LD_PRELOAD": str(library)}
    done = lacuna(*prepare(screen, tmp_path / "store"), env=quick)
    assert done.returncode == 0, done.stderr
    checking = r"checking: [\d,]+ of [\d,]+ bytes, .+ a second(, .+ left)?"  # the screen's bytes, first
    lines = [line for line in done.stderr.splitlines() if not re.fullmatch(checking, line)]
    assert lines and all(re.fullmatch(r"preparing: [\d,]+ of 4,000 samples, .+ a second(, .+ left)?", line) for line in lines)
    assert len(lines) <= 4 and "\r" not in done.stderr
    assert lacuna(*prepare(screen, tmp_path / "again")).stderr == ""


def test_again_leaves_alone_what_somebody_else_put_there(tmp_path):
    screen = generate(tmp_path / "screen", 50)
    store = tmp_path / "my store"
    succeed(*prepare(screen, store))
    (store / "sub").mkdir()
    (store / "sub/notes.txt").write_text("why")
    words = fail(*prepare(screen, store, "bits", "--again"))
    assert "holds sub, which is not part of a lacuna.store" in words and "move it away" in words
    assert (store / "sub/notes.txt").read_text() == "why"
    assert "no fault" in succeed("verify", store, "--screen", screen)
    # A command in a message can be copied.
    assert f"--out '{store}'" in fail(*prepare(screen, store, "bits"))


def test_samples_added_later(tmp_path):
    more = generate(tmp_path / "more", 400)
    first = tmp_path / "first"
    store = tmp_path / "store"
    # The first 250 samples of it, as an earlier state of the same screen.
    succeed("split", more, "--name", "random", "--by", "random")
    succeed("subset", more, first, "--where", "split:random=train")
    kept = int(json.loads((first / "manifest.json").read_text())["samples"]["count"])
    joined = tmp_path / "joined"
    succeed("concat", joined, first, more)
    succeed(*prepare(first, store, "bits"))
    assert "; all were there" in succeed(*prepare(first, store, "bits"))
    words = succeed(*prepare(joined, store, "bits"))
    assert f"{400:,} written" in words and f"{kept:,} were there" in words
    assert "no fault" in succeed("verify", store, "--screen", joined, "--all")
    expected = Expected(joined)
    for sample, (_, record) in records(store).items():
        assert record == in_form(expected.masks(sample), "bits")
    message = fail("verify", store, "--screen", more)
    assert "made for other samples" in message and "--again" in message


def test_stops_before_it_starts_when_the_disk_is_too_small(tmp_path):
    screen = generate(tmp_path / "screen", 332313, "yeast")
    if shutil.disk_usage(tmp_path).free > 1.0e12:
        pytest.skip("this disk has room for all masks in u8")
    store = tmp_path / "store"
    message = fail(*prepare(screen, store))
    assert "needed for 332313 samples (with 20% margin)" in message and "free on the disk of" in message
    assert "disk:bits needs" in message and "rung kernel needs nothing" in message
    assert not store.exists()


def test_wrong_calls(tmp_path):
    screen = generate(tmp_path / "screen", 100)
    store = tmp_path / "store"
    assert "disk:positions" in fail(*prepare(screen, store, "u16"))
    assert "A:B" in fail(*prepare(screen, store, "u8", "--samples", "5"), code=2)
    assert "A:B" in fail(*prepare(screen, store, "u8", "--samples", "a:b"), code=2)
    assert "has 100" in fail(*prepare(screen, store, "u8", "--samples", "5:101"))
    assert "lacuna.screen" in fail(*prepare(screen, screen))
    assert "lacuna.screen" in fail(*prepare(screen, screen, "u8", "--again"))
    succeed(*prepare(screen, store))
    assert "disk:u8" in fail(*prepare(screen, store, "bits"))
    succeed(*prepare(screen, store, "bits", "--again"))
    assert "holds 0 to 99" in fail("verify", store, "--screen", screen, "--sample", 100)
    assert "not a lacuna.store" in fail("verify", screen, "--screen", screen)


def verify(store, screen, *more):
    """(exit code, stdout, stderr); never a crash."""
    done = lacuna("verify", store, "--screen", screen, *more)
    assert done.returncode in (0, 1), done
    assert "Sanitizer" not in done.stderr and "Assertion" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_damage_is_found(tmp_path, seed):
    """One flipped byte at a time; what passes must be unused."""
    screen = generate(tmp_path / "screen", 60)
    store = tmp_path / "store"
    succeed(*prepare(screen, store, "bits"))
    data = store / "data.mdb"
    whole = data.read_bytes()
    before = records(store)
    for _ in range(16):
        place = random.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << random.randrange(8)
        data.write_bytes(damaged)
        code, out, err = verify(store, screen, "--all")
        if code == 0:
            assert records(store) == before
            continue
        assert "sample" in err or "page" in err, err
    data.write_bytes(whole[:-5000])
    assert "cut short" in verify(store, screen)[2]
    data.write_bytes(whole)
    assert verify(store, screen)[0] == 0


def test_a_missing_sample_is_named(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    screen = generate(tmp_path / "screen", 60)
    store = tmp_path / "store"
    succeed(*prepare(screen, store, "bits"))
    with lmdb.open(str(store), map_size=1 << 30) as environment, environment.begin(write=True) as view:
        assert view.delete((17).to_bytes(4, "big"))
    code, out, err = verify(store, screen, "--all")
    assert code == 1 and "sample 17: missing" in out and "59 values, 60 expected" in out


def reading_child(process):
    """The process that verify reads in, once it is set up: its stderr is then /dev/null."""
    for child in open(f"/proc/{process}/task/{process}/children").read().split():
        try:
            if os.readlink(f"/proc/{child}/fd/2") == "/dev/null":
                return int(child)
        except OSError:  # ended meanwhile
            pass
    return None


def is_alive(process):
    try:
        return open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_process_that_reads_ends_with_the_program(tmp_path):
    """It is stopped here, so that only its parent's end can end it."""
    screen = generate(tmp_path / "screen", 3000)
    store = tmp_path / "store"
    succeed(*prepare(screen, store, "bits"))
    verifying = Started("verify", store, "--screen", screen, "--all")
    while (reader := reading_child(verifying.process.pid)) is None:
        assert verifying.process.poll() is None, "it ended before its child was seen"
    os.kill(reader, signal.SIGSTOP)
    try:
        verifying.process.kill()
        verifying.process.wait()
        for _ in range(600):
            if not is_alive(reader):
                return
            time.sleep(0.1)
        pytest.fail("the process that reads is still there a minute after its parent")
    finally:
        if is_alive(reader):
            os.kill(reader, signal.SIGKILL)
