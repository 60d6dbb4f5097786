"""A file includes the standard headers of the functions that it calls, itself or through its own header.

Headers that are parsed once for all files (see CMakeLists.txt) hide a missing one from the compiler that CI has;
another compiler, which parses none ahead, then fails.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path
    for folder in ("lacuna", "cli", "tests", "examples", "bench", "fuzz")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".cpp", ".h", ".cu", ".cuh")
)

# Not brought along by the headers of containers, strings and files.
CALLS = {
    "algorithm": "all_of any_of binary_search clamp copy copy_if copy_n count count_if equal equal_range fill fill_n "
    "find find_if for_each is_sorted lower_bound max_element min_element minmax_element none_of nth_element "
    "partial_sort partition remove_if replace_if reverse rotate set_difference set_intersection set_union shuffle "
    "sort stable_sort transform unique upper_bound",
    "cmath": "ceil erf exp floor isfinite isnan log log1p log2 pow round sqrt tanh",
    "condition_variable": "condition_variable",
    "cstring": "memchr memcmp memcpy memset strerror",
    "deque": "deque",
    "fstream": "ifstream ofstream",
    "map": "map multimap",
    "mutex": "lock_guard mutex scoped_lock unique_lock",
    "numeric": "accumulate exclusive_scan gcd inclusive_scan inner_product iota partial_sum reduce",
    "set": "multiset set",
    "sstream": "istringstream ostringstream stringstream",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
}


def code(path):
    """A file's text without comments and strings; empty where there is no such file."""
    if not path.exists():
        return ""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    return re.sub(r'(?<!#include )"(\\.|[^"\\\n])*"', '""', text)


def includes(path, seen=None):
    """The standard headers that a file includes, itself or through headers of this project."""
    seen = set() if seen is None else seen
    if path in seen:
        return set()
    seen.add(path)
    text = code(path)
    found = set(re.findall(r"#include <([a-z_]+)>", text))
    for ours in re.findall(r'#include "([^"]+)"', text):
        found |= includes(ROOT / ours, seen)
    return found


@pytest.mark.parametrize("header", CALLS)
def test_standard_headers_are_included(header):
    call = re.compile(r"std::(ranges::)?(%s)\b\s*[(<&; ]" % "|".join(CALLS[header].split()))
    missing = [
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in FILES
        if (match := call.search(code(path))) and header not in includes(path)
    ]
    assert not missing, f"#include <{header}> is missing in\n" + "\n".join(missing)


def test_installed_headers_include_installed_ones():
    """A model of a library of its own is compiled against what is installed alone."""
    listed = (ROOT / "cmake" / "LacunaInstall.cmake").read_text()
    lists = re.findall(r"^set\((?:public|included)_headers\n([^)]*)\)", listed, re.MULTILINE)
    assert len(lists) == 2
    installed = {f"lacuna/{header}" for text in lists for header in text.split()}
    missing = [
        f"{header} includes {other}"
        for header in sorted(installed)
        for other in re.findall(r'^#include "([^"]+)"', (ROOT / header).read_text(), re.MULTILINE)
        if other not in installed
    ]
    assert not missing, "cmake/LacunaInstall.cmake lacks\n" + "\n".join(missing)
