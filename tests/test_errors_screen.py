"""What goes wrong with the files of a screen is said in one line: exit 1 for a failure, 2 for a wrong call."""

import json
import os
import re
import resource
import shutil
import subprocess

import numpy
import pytest
from program import PROGRAM, accept_file, edit_manifest, fail, lacuna, succeed
from seeds import seed_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("errors") / "screen"
    succeed("generate", "screen", path, "--size", "tiny", "--samples", 50, "--seed", 3)
    return path


@pytest.fixture
def screen(made, tmp_path):
    shutil.copytree(made, tmp_path / "screen")
    return tmp_path / "screen"


def poke(file, index, value):
    """One element of an array, in place: the size stays."""
    array = numpy.load(file, mmap_mode="r+")
    array[index] = value
    array.flush()


# ---- damaged contents


def test_gene_index_out_of_range(screen):
    poke(screen / "samples/removed.npy", 3 * 7, 40)
    words = fail("info", screen)
    assert "sample 7 removes gene index 40" in words and "40 genes" in words
    assert "removed.npy" in fail("info", screen, "--check")
    assert "removed.npy" in fail("split", screen, "--name", "x", "--by", "gene")  # it checks before it reads


def test_edge_index_out_of_range(screen):
    poke(screen / "edges/gene.physical.gene.npy", (1, 5), 200)
    words = fail("info", screen)
    assert "edge 5" in words and "gene.physical.gene" in words and "200" in words


def test_ptr_that_goes_back_or_beyond(screen):
    poke(screen / "samples/ptr.npy", 9, 4000000000)
    assert "ptr" in fail("info", screen)
    poke(screen / "samples/ptr.npy", 9, 0)
    assert "ptr" in fail("subset", screen, screen.parent / "out", "--where", "removed=3")
    assert not (screen.parent / "out").exists()


def test_a_changed_byte_is_found_by_check(screen):
    poke(screen / "samples/label.npy", 4, 0.25)
    assert "damaged:" in succeed("info", screen) and "label.npy: its bytes" in json.loads(succeed("info", screen, "--json"))["damaged"]
    assert "samples/label.npy: its bytes have changed" in fail("info", screen, "--check")


@pytest.mark.parametrize("file", ["samples/removed.npy", "samples/label.npy", "edges/gene.physical.gene.npy", "nodes/gene.txt"])
@pytest.mark.parametrize("keep", [0, 5, 64, -1])
def test_truncated_file(screen, file, keep):
    data = (screen / file).read_bytes()
    (screen / file).write_bytes(data[:keep])
    words = fail("info", screen)
    assert file in words and "bytes" in words


def test_missing_file(screen):
    (screen / "samples/ptr.npy").unlink()
    assert "samples/ptr.npy: missing" in fail("info", screen)


def header(text):
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.encode().ljust(117) + b"\n"


@pytest.mark.parametrize(
    "start, words",
    [
        (b"PK\x03\x04", "not a .npy file"),
        (b"\x93NUMPY\x09\x00", "version 9"),
        (b"\x93NUMPY\x01\x00\xff\xff", "ends inside its header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "ends inside its header"),
        (header("{'descr': '>f4', 'fortran_order': False, 'shape': (50,), }"), "big endian"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (50,), }"), "Python objects"),
        (header("{'descr': '<f4', 'fortran_order': True, 'shape': (25, 2), }"), "Fortran order"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (51,), }"), "truncated"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (49,), }"), "after its array"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-50,), }"), "count"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,), }"), "64 bits"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 8589934592), }"), "64 bits"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (50, 1), }"), "the manifest says"),
        (header("{'descr': '<i4', 'fortran_order': False, 'shape': (50,), }"), "the manifest says"),
        (header("__import__('os').system('touch /tmp/owned')"), "damaged"),
    ],
)
def test_hostile_header(screen, start, words):
    file = screen / "samples/label.npy"
    data = file.read_bytes()
    assert len(data) == 128 + 4 * 50
    file.write_bytes(start + data[len(start) :])
    message = fail("info", screen)
    assert "samples/label.npy" in message and words in message


# ---- not what it should be


def test_manifest_of_a_newer_version(screen):
    edit_manifest(screen, lambda manifest: manifest.update(version=2))
    for command in (["info", screen], ["split", screen, "--name", "x", "--by", "random"]):
        words = fail(*command)
        assert "version 2" in words and "up to version 1" in words and "update" in words


def test_not_a_screen(tmp_path, screen):
    assert "no such directory" in fail("info", tmp_path / "none")
    (tmp_path / "file").write_text("text")
    assert "a file; screens" in fail("info", tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "no manifest.json" in fail("info", tmp_path / "empty")
    assert "a file" in fail("info", "/dev/null")
    edit_manifest(screen, lambda manifest: manifest.update(format="lacuna.other"))
    assert "a lacuna.other, not a lacuna.screen" in fail("info", screen)
    edit_manifest(screen, lambda manifest: manifest.update(format=7))
    assert "manifest.json is damaged" in fail("info", screen)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00\x01", "{}", "[" * 100000, '{"format": "lacuna.screen"}'])
def test_manifest_that_is_none(screen, text):
    (screen / "manifest.json").write_text(text)
    assert "manifest.json" in fail("info", screen)


def test_manifest_that_points_outside(screen):
    outside = {"../../../etc/passwd": {"bytes": 1, "xxh3": "0" * 16}}
    edit_manifest(screen, lambda manifest: manifest["files"].update(outside))
    assert "'../../../etc/passwd' is not the name of a file inside" in fail("info", screen)


def test_random_damage_to_the_manifest(screen):
    """Any byte may be wrong: the answer is a line, or a screen that still opens."""
    seed = seed_of("damage to the manifest")
    random = numpy.random.default_rng(seed)
    text = bytearray((screen / "manifest.json").read_bytes())
    for _ in range(16):
        damaged = bytearray(text)
        for place in random.integers(0, len(text), 3):
            damaged[place] = random.integers(0, 256)
        (screen / "manifest.json").write_bytes(damaged)
        done = lacuna("info", screen)
        assert done.returncode in (0, 1), (seed, done.stderr)
        assert done.returncode == 0 or len(done.stderr.splitlines()) == 1, (seed, done.stderr)


def test_a_name_with_a_line_break_stays_one_line(tmp_path):
    assert "no such directory" in fail("info", tmp_path / "two\nlines")


def test_writers_leave_other_things_alone(screen, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("years")
    assert "not empty (thesis.txt)" in fail("subset", screen, tmp_path / "home", "--where", "removed=3")
    assert "already there and finished" in fail("subset", screen, screen, "--where", "removed=3")
    assert (tmp_path / "home/thesis.txt").read_text() == "years"
    succeed("info", screen, "--check")


# ---- no permission


def without_privileges():
    """Words that take root's power over permissions away; nothing for everybody else."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("root, and no setpriv to give its power away")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


@pytest.mark.parametrize("file", ["manifest.json", "samples/label.npy", "nodes/gene.txt"])
def test_no_permission_to_read(screen, file):
    (screen / file).chmod(0)
    words = fail("info", screen, before=without_privileges())
    assert file in words and "Permission denied" in words


def test_no_permission_to_look_into(screen):
    screen.chmod(0)
    try:
        words = fail("info", screen, before=without_privileges())
        assert str(screen) in words and "Permission denied" in words
    finally:
        screen.chmod(0o755)


def test_no_permission_to_write(screen, tmp_path):
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o555)
    words = fail("subset", screen, tmp_path / "closed/out", "--where", "removed=3", before=without_privileges())
    assert "closed/out" in words and "Permission denied" in words
    (screen / "splits").mkdir(exist_ok=True)
    (screen / "splits").chmod(0o555)
    words = fail("split", screen, "--name", "x", "--by", "random", before=without_privileges())
    assert "splits/x.npy" in words and "Permission denied" in words
    (screen / "splits").chmod(0o755)
    assert json.loads(succeed("info", screen, "--json"))["splits"] == []


# ---- full disk


def test_a_limit_on_file_sizes(tmp_path):
    """What was written stays unfinished, is refused, and the same command starts it afresh."""
    limit = 20000
    command = ["generate", "screen", tmp_path / "out", "--size", "small", "--samples", 20000, "--seed", 1]
    words = fail(*command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert str(tmp_path / "out") in words and "File too large" in words
    assert "unfinished" in fail("info", tmp_path / "out")
    succeed(*command)
    succeed("info", tmp_path / "out", "--check")


def test_a_split_that_does_not_fit_leaves_the_screen_whole(screen):
    limit = 10
    words = fail(
        *("split", screen, "--name", "x", "--by", "random"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert "splits/x.npy" in words
    succeed("info", screen, "--check")
    succeed("split", screen, "--name", "x", "--by", "random")
    succeed("info", screen, "--check")


def test_a_full_disk(screen, tmp_path):
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=48k none {tmp_path}/disk"
    alone = ["unshare", "-rm", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*alone, mount], capture_output=True).returncode != 0:
        pytest.skip("no small tmpfs can be mounted here")
    command = f"{PROGRAM} generate screen {tmp_path}/disk/out --size small --samples 20000 --seed 1"
    done = subprocess.run([*alone, f"{mount} && {command}; echo $?; {PROGRAM} info {tmp_path}/disk/out"], capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert done.stdout == "1\n"
    assert len(lines) == 2 and "No space left on device" in lines[0] and "unfinished" in lines[1], lines


def test_standard_output_that_takes_nothing(screen):
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(PROGRAM), "info", str(screen)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr.startswith("error: ") and "No space left" in done.stderr


# ---- wrong calls


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["info"], "PATH"),
        (["info", "SCREEN", "--jsn"], "--jsn"),
        (["subset", "SCREEN", "out"], "--where"),
        (["subset", "SCREEN", "out", "--seed", "3"], "--random"),
        (["subset", "SCREEN", "out", "--where", "removed"], "is not a comparison"),
        (["subset", "SCREEN", "out", "--where", "removed=two"], "not a number"),
        (["concat", "out", "SCREEN"], "SCREENS"),
        (["split", "SCREEN", "--name", "x", "--by", "luck"], "luck"),
        (["split", "SCREEN", "--name", "x", "--by", "random", "--fractions", "0.9,0.2,0.1"], "more than 1"),
        (["split", "SCREEN", "--name", "x", "--by", "random", "--fractions", "0.9"], "--fractions"),
        (["split", "SCREEN", "--name", "x", "--by", "stratified"], "needs a column"),
        (["split", "SCREEN", "--name", "x", "--by", "file"], "--file"),
        (["split", "SCREEN", "--name", "x"], "--by"),
        (["split", "SCREEN", "--name", "x", "--by", "random", "--remove"], "--remove"),
        (["split", "SCREEN", "--name", "x", "--seed", "3", "--remove"], "--remove"),
    ],
)
def test_wrong_call(screen, tmp_path, arguments, words):
    arguments = [str(screen) if word == "SCREEN" else word for word in arguments]
    assert words in fail(*arguments, code=2, cwd=tmp_path)
    assert not (tmp_path / "out").exists()


def test_what_the_screen_does_not_have_is_a_failure(screen, tmp_path):
    out = tmp_path / "out"
    assert "there is no gene 'YFG1'" in fail("subset", screen, out, "--where", "any-gene=YFG1")
    assert "no column or label 'p'" in fail("subset", screen, out, "--where", "p<0.05")
    assert "no split 'x'" in fail("subset", screen, out, "--where", "split:x=test")
    assert "none of its 50 samples" in fail("subset", screen, out, "--where", "removed=99")
    assert "cannot be named" in fail("split", screen, "--name", "a/b", "--by", "random")


def test_a_split_is_taken_away_by_the_command_in_the_message(screen):
    """A split's name is free once the split was removed; the output says how it was made, so that it can be made again."""
    draw = ("split", screen, "--name", "mine", "--by", "random", "--seed")
    succeed(*draw, 1)
    before = (screen / "splits/mine.npy").read_bytes()
    words = fail(*draw, 2)
    assert "has a split 'mine' already" in words and (screen / "splits/mine.npy").read_bytes() == before
    command = re.search("`lacuna (.*?)`", words)[1].split()
    said = succeed(*command)
    assert "split 'mine' is taken out" in said and f"lacuna split {screen} --name mine --by random --seed 1" in said
    assert json.loads(succeed("info", screen, "--json", "--check"))["splits"] == []
    assert not (screen / "splits/mine.npy").exists()
    assert "no split 'mine'" in fail(*command)
    succeed(*draw, 2)
    assert (screen / "splits/mine.npy").read_bytes() != before
    succeed(*command)
    succeed(*draw, 1)
    assert (screen / "splits/mine.npy").read_bytes() == before


def test_screens_over_other_genes_are_not_joined(screen, tmp_path):
    other = tmp_path / "other"
    succeed("generate", "screen", other, "--size", "tiny", "--samples", 50, "--seed", 4)
    assert "differ in edges of type" in fail("concat", tmp_path / "out", screen, other)
    names = (other / "nodes/gene.txt").read_text().splitlines()
    names[6] = "X" * len(names[6])
    (other / "nodes/gene.txt").write_text("\n".join(names) + "\n")
    assert "nodes/gene.txt: its bytes have changed" in fail("concat", tmp_path / "out", screen, other)
    accept_file(other, "nodes/gene.txt", "genes")
    assert "line 7 is" in fail("concat", tmp_path / "out", screen, other)


@pytest.mark.parametrize("command", ["info", "subset", "concat", "split"])
def test_help_has_an_example(command):
    text = succeed(command, "--help")
    assert "Example" in text and f"lacuna {command} " in text


@pytest.mark.parametrize("file", ["manifest.json", "samples/removed.npy", "nodes/gene.txt"])
def test_a_pipe_in_place_of_a_file_does_not_hang(screen, file):
    (screen / file).unlink()
    os.mkfifo(screen / file)
    assert file in fail("info", screen, "--check")
