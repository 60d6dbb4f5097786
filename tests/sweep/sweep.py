"""Kills, flips and truncates, and counts what goes wrong in silence: `scripts/sweep [--quick] [--seed N] ...`.

kills       every command that writes, killed (SIGKILL) at a random moment of its time, then called again: the result is
            that of a call which nobody disturbed.
flips       a bit or a byte of a file, of every kind of file, then every command that reads it: it says so, or the result
            is that of the whole file.
truncates   the same with files cut short.

At the end a table says what came of it (judge.py has the words). Exit code 1 when anything was SILENT, a CRASH or LOST. A
trial depends on the seed, its kind and its number alone: --seed and --only repeat it.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import damage
import judge
import workshop

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOST = "LOST"  # after a kill: the result is not what it should be, or the command cannot go on
TIMEOUT = 120


class Place:
    """A folder of one worker: the whole things, and a copy to spoil. `expected` are outcomes on what is whole."""

    def __init__(self, folder, program, build):
        self.program, self.whole, self.now = program, folder / "whole", folder / "now"
        build(self.now, program)
        shutil.copytree(self.now, self.whole)
        self.expected, self.seconds = {}, {}

    def restore(self):
        shutil.rmtree(self.now)
        shutil.copytree(self.whole, self.now)

    def observe(self, command):
        return judge.observe([self.program, *command.words], self.now, command.outputs, TIMEOUT)

    def expect(self, command):
        """The outcome of a command on what is whole. Two calls must agree, else nothing could be judged by it."""
        key = tuple(command.words)
        if key not in self.expected:
            outcomes = []
            for _ in range(2):
                self.restore()
                start = time.monotonic()
                outcomes.append(self.observe(command))
                self.seconds[key] = time.monotonic() - start
            first, second = outcomes
            if first.code != 0 or judge.judge(second, first, command.is_printed)[0] != judge.HARMLESS:
                wrong = judge.differences(first.results, second.results)
                raise SystemExit(f"error: `lacuna {' '.join(command.words)}` on what is whole: exit codes {first.code} and "
                                 f"{second.code}, and two calls differ in {wrong or 'what they print'}\n{first.err}")
            self.expected[key] = first
        return self.expected[key]


class Count:
    """What came of the trials: a table, and the bad ones by name."""

    def __init__(self, total):
        self.table, self.bad, self.done, self.total = collections.Counter(), [], 0, total
        self.start, self.lock = time.monotonic(), threading.Lock()

    def add(self, row, column, verdict, words):
        with self.lock:
            self.table[row, column, verdict] += 1
            if verdict in (*judge.BAD, LOST):
                self.bad.append(f"{verdict}: {row}: {column}: {words}")
                print(self.bad[-1], flush=True)

    def step(self):
        with self.lock:
            self.done += 1
            if self.done % 10 == 0 or self.done == self.total:
                print(f"{self.done} of {self.total} trials, {len(self.bad)} bad, {time.monotonic() - self.start:.0f} s",
                      flush=True)

    def lines(self):
        rows = sorted({(row, column) for row, column, _ in self.table})
        verdicts = [v for v in (judge.LOUD, judge.SAID, judge.HARMLESS, "same", judge.SILENT, judge.CRASH, LOST)
                    if any(verdict == v for _, _, verdict in self.table)]
        width = [max(len(row[i]) for row in rows) for i in (0, 1)]
        yield f"{'':{width[0]}}  {'':{width[1]}}" + "".join(f"{verdict:>10}" for verdict in verdicts)
        for row, column in rows:
            counts = "".join(f"{self.table[row, column, verdict] or '':>10}" for verdict in verdicts)
            yield f"{row:{width[0]}}  {column:{width[1]}}{counts}"


def spoil(place, count, kind, way, number, seed, kinds, commands, foreign=()):
    """One damaged file, and every command that reads it."""
    rng = random.Random(f"{seed}/{way}/{kind}/{number}")
    pattern, readers = kinds[kind]
    files = sorted(file for file in place.whole.glob(pattern) if file.is_file() and file.stat().st_size > 0)
    if not files:
        raise SystemExit(f"error: nothing is called {pattern}: the sweep does not fit what lacuna writes")
    file = rng.choice(files).relative_to(place.whole)
    contents, words = damage.WAYS[way]((place.whole / file).read_bytes(), rng)
    for name in readers:
        expected = place.expect(commands[name])
        place.restore()
        (place.now / file).write_bytes(contents)
        found = place.observe(commands[name])
        if (place.now / file).exists() and (place.now / file).read_bytes() == contents:  # left as it was: no result
            found, expected = (judge.without(outcome, str(file)) for outcome in (found, expected))
        verdict, why = judge.judge(found, expected, commands[name].is_printed)
        if verdict == judge.SILENT and kind in foreign and sample_count(place.now) == sample_count_of(place, commands[name]):
            verdict = judge.HARMLESS
        count.add(kind, name, verdict, f"{why}: {file}: {words} (trial {number})")
    count.step()


def sample_count(folder):
    """Of the screen that a command wrote."""
    file = folder / "new-screen" / "samples" / "ptr.npy"  # a number a sample, and one more
    return file.stat().st_size if file.exists() else None


def sample_count_of(place, command):
    key = ("samples", *command.words)
    if key not in place.expected:
        place.restore()
        place.observe(command)
        place.expected[key] = sample_count(place.now)
    return place.expected[key]


def kill(place, count, name, number, seed, commands):
    """One kill of a command, and the command again."""
    rng = random.Random(f"{seed}/kill/{name}/{number}")
    command = commands[name]
    expected = place.expect(command)
    before = judge.digests(place.whole, command.outputs)
    reports = between_reports(place, command) if command.between else ()
    place.restore()
    delay = rng.uniform(0, 1.05 * place.seconds[tuple(command.words)])
    process = subprocess.Popen([str(word) for word in (place.program, *command.words)], cwd=place.now,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    verdict, why = after_kill(place, command, expected, before, reports)
    count.add("kill", name, verdict, f"{why}: after {delay:.3f} s (trial {number})")
    count.step()


def between_reports(place, command):
    """What `between` makes of the things before and behind the command."""
    key = ("between", *command.words)
    if key not in place.expected:
        reports = []
        for words in ([], command.words):
            place.restore()
            if words:
                judge.call([place.program, *words], place.now, TIMEOUT)
            done = judge.observe([place.program, *command.between], place.now, [command.between[-1]], TIMEOUT)
            if done.code != 0:
                raise SystemExit(f"error: `lacuna {' '.join(command.between)}` fails on what is whole: {done.err}")
            reports.append(done.results)
        place.expected[key] = reports
    return place.expected[key]


def after_kill(place, command, expected, before, reports):
    left = judge.digests(place.now, command.outputs)
    if command.is_atomic and left not in (before, expected.results):
        return LOST, "the kill left a part of " + command.outputs[0]
    if command.between:
        done = judge.observe([place.program, *command.between], place.now, [command.between[-1]], TIMEOUT)
        if done.crash():
            return judge.CRASH, done.crash()
        if done.code != 0 or done.results not in reports:
            return LOST, f"the kill left neither the old result nor the new: {done.err.strip()}"
    again = judge.observe([place.program, *command.words], place.now, command.outputs, TIMEOUT)
    if again.crash():
        return judge.CRASH, again.crash()
    wrong = judge.differences(again.results, expected.results)
    if wrong:
        return LOST, f"{', '.join(wrong[:3])} differ: {again.err.strip()}"
    is_done = left == expected.results  # then the second call may be refused: it is there already
    return ("same", "") if again.code == 0 or is_done else (LOST, f"cannot go on: {again.err.strip()}")


def plan(arguments, kinds, writers, seed):
    """All trials, (function, arguments...), in an order that mixes them."""
    trials = []
    for way, total in (("flip", arguments.flips), ("truncate", arguments.truncations)):
        for number in range(total):
            trials.append((way, list(kinds)[number % len(kinds)], number // len(kinds)))
    trials += [("kill", name, number) for name in writers for number in range(arguments.kills)]
    if arguments.only:
        trials = [trial for trial in trials if arguments.only in f"{trial[0]} {trial[1]}"]
    random.Random(seed).shuffle(trials)
    return trials


def run(arguments, program, build, kinds, readers, writers, foreign=()):
    """Runs the trials and prints the table; 0 when all is well."""
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "little")
    trials = plan(arguments, kinds, writers, seed)
    print(f"seed {seed}: {len(trials)} trials, {arguments.jobs} at a time", flush=True)
    count = Count(len(trials))
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    root = pathlib.Path(tempfile.mkdtemp(prefix="lacuna-sweep-", dir=shared))
    places = queue.Queue()

    def attempt(trial):
        way, name, number = trial
        place = places.get()
        try:
            if way == "kill":
                kill(place, count, name, number, seed, writers)
            else:
                spoil(place, count, name, way, number, seed, kinds, readers, foreign)
        finally:
            places.put(place)

    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for place in pool.map(lambda i: Place(root / f"w{i}", program, build), range(arguments.jobs)):
                places.put(place)
            for future in [pool.submit(attempt, trial) for trial in trials]:
                try:
                    future.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(*count.lines(), sep="\n")
    if count.bad:
        print(f"error: {len(count.bad)} of {len(trials)} trials went wrong; repeat them with --seed {seed}")
        print(*sorted(count.bad), sep="\n")
    else:
        print(f"{len(trials)} trials, seed {seed}: no silent change, no crash, nothing lost")
    return 1 if count.bad else 0


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few minutes: 5 kills of each command, 40 flips, 20 truncations")
    parser.add_argument("--kills", type=int, help="of each command [60]")
    parser.add_argument("--flips", type=int, help="over all kinds of files [400]")
    parser.add_argument("--truncations", type=int, help="over all kinds of files [100]")
    parser.add_argument("--seed", type=int, default=os.environ.get("SEED"), help="[a fresh one]")
    parser.add_argument("--only", default="", help="trials whose name has these words, such as 'flip screen: labels' or 'kill train'")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", 2)), help="at a time [JOBS, or 2]")
    arguments = parser.parse_args(words)
    for name, most, few in (("kills", 60, 5), ("flips", 400, 40), ("truncations", 100, 20)):
        if getattr(arguments, name) is None:
            setattr(arguments, name, few if arguments.quick else most)
    return arguments


def main():
    os.environ["OMP_NUM_THREADS"] = "1"  # tiny work: a second thread only waits
    program = pathlib.Path(os.environ.get("LACUNA_PROGRAM", ROOT / "build" / "lacuna"))
    if not (program.parent / "lacuna-torch").exists():
        raise SystemExit(f"error: no lacuna-torch beside {program}; run `make build`")
    return run(parse(), program, workshop.build, workshop.KINDS, workshop.READ, workshop.WRITE, workshop.FOREIGN)


if __name__ == "__main__":
    sys.exit(main())
