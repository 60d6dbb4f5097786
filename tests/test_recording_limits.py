"""A recording four times the memory that a training may take: trained cold from disk within it, by four processes at once,
one of them killed while it loads; what does not fit is refused with numbers and what would fit."""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from checkpoint_files import tensors
from program import PROGRAM, has_torch, lacuna, succeed
from recording_files import make_cgroup, setting_words

SIDE, LAGS, BATCH = 51, 8, 64
GROUP_MB, DATA_MB = 256, 400  # of a control group; of private memory (torch's own libraries take 300 MB of that)
SETTINGS = {
    "window.lags": LAGS, "model.channels": 2, "model.temporal": 1, "model.layers": 1, "model.first_kernel": 5,
    "train.epochs": 1, "train.steps_an_epoch": 30, "train.batch": BATCH, "train.validation_windows": 128,
    "train.device": "cpu", "train.threads": 2, "evaluate.baselines": "false", "evaluate.parts": "[]", "order.by": "balanced",
}


class Bound:
    """A control group with so much memory where one can be made, else a limit on private memory (RLIMIT_DATA)."""

    def __init__(self, number=0):
        self.group = make_cgroup(GROUP_MB, number)
        self.bytes = (GROUP_MB if self.group else DATA_MB) << 20

    def start(self, *words, **options):
        """The program in the background, within the limit."""
        def enter():
            if self.group:
                (self.group / "cgroup.procs").write_text(str(os.getpid()))
            else:
                resource.setrlimit(resource.RLIMIT_DATA, (self.bytes, self.bytes))
        return subprocess.Popen([str(word) for word in (PROGRAM, *words)], preexec_fn=enter, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
                                **options)

    def run(self, *words, **options):
        process = self.start(*words, **options)
        out, errors = process.communicate(timeout=280)
        return process.returncode, out, errors

    def peak(self):
        """Bytes of the group at its fullest; None where that is not counted."""
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            if self.group and (self.group / name).exists():
                return int((self.group / name).read_text())
        return None

    def close(self):
        if self.group:
            close_group(self.group)


def close_group(group):
    for _ in range(100):  # a process that was killed leaves its group a moment later
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.05)


@pytest.fixture
def bound():
    bound = Bound()
    yield bound
    bound.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`rec`: a short session and three long ones whose frames lie in .npy files, four limits in all; a store of chunks."""
    if not has_torch():
        pytest.skip("built without torch")
    folder = tmp_path_factory.mktemp("limits")
    probe = Bound()
    frames = 4 * probe.bytes // SIDE**2
    probe.close()
    rng = np.random.default_rng(1)
    block = np.repeat(rng.integers(0, 256, (2000, SIDE, 3), np.uint8), 17, axis=2)  # compresses; every frame another
    sizes = [frames // 16, *([frames * 5 // 16 + 1] * 3)]
    for s, rows in enumerate(sizes):
        session = folder / "sources" / f"s{s}"
        session.mkdir(parents=True)
        movie = np.lib.format.open_memmap(session / "stim.npy", mode="w+", dtype=np.uint8, shape=(rows, SIDE, SIDE))
        for first in range(0, rows, len(block)):
            movie[first : first + len(block)] = (block + np.uint8(first // 2000 + s))[: rows - first]
        movie.flush()
        del movie
        np.save(session / "robs.npy", rng.poisson(0.2, (rows, 3)).astype(np.uint8))
        np.save(session / "trial_inds.npy", (np.arange(rows) // 500).astype(np.int32))
    succeed("import", "recording", folder / "rec", *sorted((folder / "sources").iterdir()), "--rate", 120, "--in-place")
    succeed("split", folder / "rec", "--name", "trials", "--seed", 1)
    succeed("prepare", folder / "rec", "--rung", "disk:chunks", "--out", folder / "chunks")
    (folder / "config.yaml").write_text("recording: rec\n")
    return folder


def words(rung, out, **changes):
    settings = {**SETTINGS, "rung": rung, **changes}
    if "chunks" in rung:
        settings["store"] = "chunks"
    return ["train", "config.yaml", "--out", out, *setting_words(settings)]


def drop_cache(folder):
    """Nothing of these files is left in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def is_on_a_disk(folder):
    """Where the temporary folder is in memory, nothing can be cold."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    return kind not in ("tmpfs", "ramfs", "overlayfs")


def movie_bytes(folder):
    return sum(path.stat().st_size for path in (folder / "sources").glob("*/stim.npy"))


@pytest.mark.parametrize("rung", ["disk:u8", "disk:chunks"])
def test_four_times_the_limit_trains_within_it(folder, bound, tmp_path, rung):
    assert movie_bytes(folder) >= 4 * bound.bytes
    drop_cache(folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    steps = {"train.steps_an_epoch": 240} if rung == "disk:u8" else {}  # windows of more bytes than the limit
    code, out, errors = bound.run(*words(rung, tmp_path / "run", **steps), cwd=folder)
    assert code == 0, errors
    read = 512 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before)
    print(f"{read / 1e6:.0f} MB were read from a disk")
    if is_on_a_disk(folder):  # cold: of the movie more than the limit comes from there
        assert read > (bound.bytes if rung == "disk:u8" else 1e6)
    assert bound.peak() is None or bound.peak() <= bound.bytes
    assert "of memory are left" not in errors, errors  # page cache is no need
    assert all(np.isfinite(value).all() for value in tensors(tmp_path / "run/checkpoints/last.safetensors").values())


def test_what_does_not_fit_is_refused_with_what_would(folder, bound, tmp_path):
    code, out, errors = bound.run(*words("ram:u8", tmp_path / "run"), cwd=folder)
    assert code == 1, (out, errors)
    last = errors.splitlines()[-1]
    assert "rung ram:u8" in last and "needs 1." in last and "with the margin of 1.2" in last and " are free; " in last, last
    for remedy in ("disk:u8 holds no frames in memory", "tiered with ", "the first 1 of 4 sessions, ", "--step ", "--resize "):
        assert remedy in last, f"{remedy} is missing: {last}"
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_memory_that_runs_out_is_said_before_it_has(folder, tmp_path):
    """Another process of the group takes what the training was left: the note comes while both live."""
    group = make_cgroup(1024, 8)
    if group is None:
        pytest.skip("no control group can be made here")
    enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
    command = words("disk:u8", tmp_path / "run", **{"train.epochs": 100_000, "train.log_every": 1})
    errors, metrics, started = tmp_path / "errors", tmp_path / "run" / "metrics.jsonl", []

    def wait_for(condition):
        deadline = time.monotonic() + 280
        while not condition():
            assert all(process.poll() is None for process in started) and time.monotonic() < deadline, errors.read_text()
            time.sleep(0.02)

    try:
        with open(errors, "w") as file:
            started.append(subprocess.Popen([str(word) for word in (PROGRAM, *command)], cwd=folder, preexec_fn=enter,
                                            stdout=subprocess.DEVNULL, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
        assert "of memory are left" not in errors.read_text()
        ballast = (1024 << 20) - held_bytes(group) - (64 << 20)  # a tenth is wanted in reserve: 107 MB
        assert ballast > 128 << 20
        script = f"import time; block = bytearray({ballast}); print('there', flush=True); time.sleep(600)"
        started.append(subprocess.Popen([sys.executable, "-c", script], preexec_fn=enter, stdout=subprocess.PIPE, text=True))
        wait_for(lambda: "of memory are left (107 MB were wanted in reserve)" in errors.read_text())
    finally:
        for process in started:
            process.kill()
            process.wait()
        close_group(group)


def held_bytes(group):
    """Of a control group: what is not file cache, which would be given back."""
    usage = next(group / name for name in ("memory.current", "memory.usage_in_bytes") if (group / name).exists())
    sizes = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(usage.read_text()) - int(sizes["inactive_file"]) - int(sizes["active_file"])


def frames_of(pid):
    """What the system says of a process's memory for frames: os.stat of each."""
    try:
        return [os.stat(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir() if "lacuna-frames" in os.readlink(link)]
    except OSError:  # a descriptor came and went
        return []


def frames_pss(pid):
    """Bytes of a process's mappings that hold frames, each page divided by those who share it."""
    total, is_frames = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_frames = "lacuna-frames" in line
        elif is_frames and line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_four_trainings_hold_one_copy(folder, tmp_path):
    """One byte a pixel for all of them together, and nothing when they are gone, killed as they are."""
    wanted = np.load(folder / "sources/s0/stim.npy", mmap_mode="r").nbytes
    group = make_cgroup(4096, 9)
    started = []
    try:
        for number in range(4):
            command = words("ram:u8", tmp_path / f"run{number}", sessions="[s0]", **{"train.epochs": 1000, "train.log_every": 1})
            started.append(subprocess.Popen(
                [str(word) for word in (PROGRAM, *command)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=(lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if group else None,
                env={**os.environ, "OMP_NUM_THREADS": "1"}))
        deadline = time.monotonic() + 280
        lines = [tmp_path / f"run{number}" / "metrics.jsonl" for number in range(4)]
        while not all(file.exists() and file.stat().st_size > 0 for file in lines):
            assert all(process.poll() is None for process in started) and time.monotonic() < deadline
            time.sleep(0.02)
        held = [frames_of(process.pid) for process in started]
        assert [len(one) for one in held] == [1] * 4 and len({one[0].st_ino for one in held}) == 1, "not the same memory"
        most = 1.05 * wanted + (4 << 20)  # where pages are huge, the first and the last are
        assert 0.97 * wanted <= 512 * held[0][0].st_blocks <= most
        assert 0 < sum(frames_pss(process.pid) for process in started) <= most
        if group:
            assert shared_bytes(group) <= 1.1 * wanted + (4 << 20)
    finally:
        for process in started:
            process.kill()
            process.wait()
        if group:
            left = shared_bytes(group)
            close_group(group)
    assert not group or left < 0.01 * wanted


def shared_bytes(group):
    """Memory without a file that the processes of a control group take."""
    sizes = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(sizes.get("shmem", 0))


def test_four_share_and_one_is_killed_while_it_loads(folder, tmp_path):
    """The short session in shared memory, the others from the disk; each process within a limit of its own."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    hot = {"tiered.hot": (folder / "sources/s0/stim.npy").stat().st_size, "train.steps_an_epoch": 6}
    drop_cache(folder)
    bounds = [Bound(number) for number in range(4)]
    started = []
    try:
        for number, bound in enumerate(bounds):
            started.append(bound.start(*words("tiered", tmp_path / f"run{number}", **hot), cwd=folder))
        while not frames_of(started[0].pid):
            assert started[0].poll() is None, started[0].communicate()
            time.sleep(0.001)
        started[0].send_signal(signal.SIGKILL)
        for process in started[1:]:
            out, errors = process.communicate(timeout=280)
            assert process.returncode == 0, errors
        assert started[0].wait() == -signal.SIGKILL
    finally:
        for process in started:
            process.kill()
            process.communicate()
        for bound in bounds:
            bound.close()
    first, *others = (tensors(tmp_path / f"run{number}/checkpoints/last.safetensors") for number in (1, 2, 3))
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert not {name for name in os.listdir("/dev/shm") if "lacuna" in name} - shared if shared else True
    # A start after all that: the killed one left no lock, no memory and no socket that answers.
    assert lacuna(*words("tiered", tmp_path / "again", **hot), cwd=folder).returncode == 0
    assert "all were there" in succeed("prepare", folder / "rec", "--rung", "disk:chunks", "--out", folder / "chunks")
