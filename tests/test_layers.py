"""A folder of lacuna/ includes only itself and what stands before it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = "core store graph ops screen recording masks load ladder plan run report torch nn train measure".split()
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def violations(root):
    found = []
    for path in sorted((root / "lacuna").rglob("*")):
        if path.suffix not in {".h", ".cuh", ".cpp", ".cu"}:
            continue
        name = path.relative_to(root)
        folder = name.parts[1]
        if folder not in ORDER:
            found.append(f"{name}: folder {folder} has no place in the order")
            continue
        for quote, target in INCLUDE.findall(path.read_text()):
            ours = target.startswith(("lacuna/", "cli/"))
            if ours and quote == "<":
                found.append(f"{name}: <{target}> is ours, write it in quotes")
            elif not ours and quote == '"' and (path.parent / target).exists():
                found.append(f'{name}: "{target}" is ours, write it from the root of the repository')
            elif ours:
                to = target.split("/")[1] if target.startswith("lacuna/") else "cli"
                if to not in ORDER[: ORDER.index(folder) + 1]:
                    found.append(f"{name}: {folder} may not include {target}")
    return found


def test_repository_keeps_the_order():
    assert violations(ROOT) == []


def test_violations_are_seen(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("lacuna/core/error.h", "#pragma once\n")
    write("lacuna/graph/csr.h", '#include "lacuna/core/error.h"\n#include "lacuna/graph/names.h"\n#include <vector>\n')
    assert violations(tmp_path) == []
    write("lacuna/graph/upward.cpp", '#include "lacuna/screen/screen.h"\n')
    write("lacuna/graph/program.cpp", '#include "cli/terminal.h"\n')
    write("lacuna/core/sideways.cpp", '#include "error.h"\n')
    write("lacuna/core/angle.cpp", "  #  include <lacuna/core/error.h>\n")
    write("lacuna/extra/odd.cpp", "")
    assert sorted(line.split(":")[0] for line in violations(tmp_path)) == [
        "lacuna/core/angle.cpp",
        "lacuna/core/sideways.cpp",
        "lacuna/extra/odd.cpp",
        "lacuna/graph/program.cpp",
        "lacuna/graph/upward.cpp",
    ]
