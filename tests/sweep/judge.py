"""Runs a command on something that was damaged, or killed, and judges what came of it.

loud       it failed, and said why
said       it went through, with another result, and said that something is damaged
harmless   it went through, with the same result
SILENT     it went through, with another result, and said nothing
CRASH      it died by a signal, hung, contradicted itself, or failed without a word

Results are compared by their bytes, without the times in them.
"""

import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess

LOUD, SAID, HARMLESS, SILENT, CRASH = "loud", "said", "harmless", "SILENT", "CRASH"
BAD = (SILENT, CRASH)
CRASH_WORDS = re.compile(r"internal contradiction|terminate called|Traceback|Sanitizer|Segmentation|core dumped")
# Whole phrases: a report speaks of differences and checksums where nothing is wrong, too.
DAMAGE_WORDS = re.compile(r"\b(damaged|has changed|have changed|cannot be read|cut short|is torn|not checked|"
                          r"measured on another screen)\b", re.IGNORECASE)
# Members of JSON files that say when and how fast: no two calls agree in them, nor in checksums of them.
TIMES = {"started", "ended", "date", "seconds", "samples_per_s", "checksum", "metrics_end", "load", "process", "pid"}
# A kill behind the rename of a manifest leaves manifest.partial.json beside it, where nobody reads it.
PASSED_OVER = re.compile(r"(^|/)(lock|lock\.mdb|manifest\.partial\.json|trace\.json|.*\.tmp|tensorboard/.*|cache/.*)$")


@dataclasses.dataclass
class Outcome:
    code: int  # negative: the signal it died of
    out: str
    err: str
    is_late: bool  # killed because it took too long
    results: dict  # name of a file that it wrote: digest of its contents
    pages: str = ""  # the HTML that it wrote: a report may say that something is damaged

    def crash(self):
        """What makes this a crash; empty for anything else."""
        if self.is_late:
            return "hangs"
        if self.code < 0 or self.code >= 128:
            return f"signal {signal.Signals(-self.code if self.code < 0 else self.code - 128).name}"
        found = CRASH_WORDS.search(self.out + self.err)
        if found:
            return found.group()
        if self.code != 0 and not (self.out + self.err).strip():
            return f"exit {self.code} without a word"
        return ""


def call(words, folder, timeout):
    """The finished process, as (code, out, err, is_late). A session of its own: what it started dies with it."""
    process = subprocess.Popen([str(word) for word in words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
        is_late = False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        is_late = True
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), is_late


def observe(words, folder, outputs, timeout=60):
    """Calls a program, and looks at what it printed and wrote."""
    code, out, err, is_late = call(words, folder, timeout)
    pages = "".join((folder / name).read_text() for name in outputs if name.endswith(".html") and (folder / name).exists())
    return Outcome(code, out, err, is_late, digests(folder, outputs), pages)


def digests(folder, outputs):
    """{name: digest} of files, and of all files in directories; names that are not there have none."""
    found = {}
    for output in outputs:
        path = folder / output
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            name = str(file.relative_to(folder))
            if not PASSED_OVER.search(name):
                found[name] = hashlib.sha256(without_times(file)).hexdigest()[:16]
    return found


def without(outcome, name):
    """The same without one of its results."""
    return dataclasses.replace(outcome, results={key: value for key, value in outcome.results.items() if key != name})


def strip(value):
    """JSON without the times in it."""
    if isinstance(value, dict):
        return {key: strip(member) for key, member in value.items() if key not in TIMES}
    return [strip(member) for member in value] if isinstance(value, list) else value


def shape(value):
    """What JSON that is all times has in it: its keys and how long its lists are."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    return [shape(member) for member in value] if isinstance(value, list) else None


def without_times(file):
    """The contents of a file as they are compared."""
    data = file.read_bytes()
    try:
        if file.name == "profile.json":
            return json.dumps(shape(json.loads(data))).encode()
        if file.suffix == ".json":
            return json.dumps(strip(json.loads(data))).encode()
        if file.suffix == ".jsonl":
            return last_lines(data)
        if file.suffix == ".yaml":
            return re.sub(rb"(?m)^# checksum .*\n", b"", data)
        if file.suffix == ".safetensors":
            return tensors(data)
    except (ValueError, KeyError):
        pass  # damaged: as it is
    return data


def last_lines(data):
    """Of metrics.jsonl: a run that went on from a checkpoint logs some steps once more, and the last ones count."""
    lines = {}
    for line in data.splitlines():
        entry = strip(json.loads(line))
        lines[entry.get("kind"), entry.get("step"), entry.get("epoch")] = entry
    return json.dumps(list(lines.values())).encode()


def tensors(data):
    """Of a checkpoint: its arrays, and what it says of itself without times and without a hash of all of it."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    said = header.pop("__metadata__", {})
    parts = [json.dumps([strip(json.loads(said[key])) for key in sorted(said) if key != "xxh3"]).encode()]
    for name in sorted(header):
        begin, end = header[name]["data_offsets"]
        parts += [name.encode(), data[8 + size + begin : 8 + size + end]]
    return b"\0".join(parts)


def differences(found, expected):
    """Names of results that are not what they should be."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def judge(found, expected, is_printed=True):
    """(verdict, why): an Outcome beside that of the same call on what is whole. `is_printed`: what it prints counts."""
    crash = found.crash()
    if crash:
        return CRASH, crash
    if found.code != expected.code:
        return (LOUD, "") if found.code != 0 else (SILENT, f"exit 0, where it should be {expected.code}")
    wrong = differences(found.results, expected.results)
    if not wrong and (not is_printed or found.out == expected.out):
        return HARMLESS, ""
    if found.code != 0:
        return LOUD, ""
    what = ", ".join(wrong[:3]) or "what it prints"
    return (SAID, what) if says_more_of_damage(found, expected) else (SILENT, what)


def says_more_of_damage(found, expected):
    count = lambda outcome: len(DAMAGE_WORDS.findall(outcome.out + outcome.err + outcome.pages))
    return count(found) > count(expected)
