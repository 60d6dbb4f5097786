"""Nothing is advertised that is not there: every command and option of the pages and of the program's own help is known."""

import functools
import re
import shlex

import pytest
from program import ROOT, lacuna, succeed

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@functools.cache
def help_of(*words):
    return succeed(*words, "--help")


@functools.cache
def subcommands(*words):
    """Those that a help lists under its last heading: {"generate", ...}; none for a command that has none."""
    listed = re.search(r"\nSubcommands:\n(.*?)(\n\n|\Z)", help_of(*words), re.S | re.I)
    return set(re.findall(r"^  (\w[\w-]*) ", listed[1], re.M)) if listed else set()


def calls(text):
    """The words of every call of `lacuna` in a text: in blocks of code, and in `...`."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`((?:build/)?lacuna [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M).replace("\n", " "))
    for line in lines:
        for call in re.findall(r"(?:^|[ /|&$(])lacuna ((?:[a-z]|--).*)", line.split(" #")[0]):
            try:
                yield shlex.split(re.split(r"[|;&>)]", call)[0])
            except ValueError:  # a quote that ends elsewhere: no call
                continue


def unknown(words):
    """What of a call the program does not have."""
    if words[0] == "help":
        return unknown(words[1:]) if words[1:] else None
    path = []
    for word in words:
        known = subcommands(*path)
        if not known or word.startswith("-") or not re.fullmatch(r"[a-z]+", word):
            break
        if word not in known:
            return f"lacuna {' '.join([*path, word])}"
        path.append(word)
    text = help_of(*path)
    for option in (word.split("=")[0] for word in words if re.match(r"--[a-z]", word)):
        if option not in ("--help", "--version") and not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
            return f"lacuna {' '.join(path)} {option}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_advertises_what_there_is(page):
    if "needs torch" in lacuna("--help").stdout:
        pytest.skip("a build without torch has not all of it")
    wrong = {name for words in calls(page.read_text()) if (name := unknown(words))}
    assert not wrong, wrong


def test_so_do_the_helps():
    if "needs torch" in lacuna("--help").stdout:
        pytest.skip("a build without torch has not all of it")
    for path in [(), *[(name,) for name in sorted(subcommands())]]:
        text = help_of(*path).replace("\\\n", " ")
        for line in re.findall(r"^ +(lacuna [a-z].*)$", text, re.M):
            assert (name := unknown(shlex.split(line.split(" #")[0])[1:])) is None, (path, name)
    for command in re.findall(r"^ +\d?  lacuna (.*?)(?:   |$)", succeed(), re.M):
        assert unknown(command.split()) is None, command


def test_what_is_not_there_is_seen():
    assert unknown(["frobnicate", "x"]) == "lacuna frobnicate"
    assert unknown(["import", "scroll"]) == "lacuna import scroll"
    assert unknown(["split", "x", "--nam=y"]) == "lacuna split --nam"
    text = "```\nbuild/lacuna split demo --name a \\\n  --by b   # a comment --no\n```\nand `lacuna info\nX --json`"
    assert list(calls(text)) == [["split", "demo", "--name", "a", "--by", "b"], ["info", "X", "--json"]]
