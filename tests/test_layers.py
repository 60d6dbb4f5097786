"""The shape of lacuna/: a folder includes only itself and what stands before it, and is small enough to be read."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = "core store graph ops screen recording masks load ladder plan run report torch nn train measure".split()
WITH_TORCH = ORDER[ORDER.index("torch"):]
MOST_FILES = 45  # of a folder; more is two concepts
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
BACKWARD = re.compile(r"(\.|->|autograd::)backward\(")


def sources(root):
    for path in sorted((root / "lacuna").rglob("*")):
        if path.suffix in {".h", ".cuh", ".cpp", ".cu"}:
            yield path, path.relative_to(root)


def include_violations(path, name):
    folder = name.parts[1]
    if folder not in ORDER:
        yield f"{name}: folder {folder} has no place in the order"
        return
    for quote, target in INCLUDE.findall(path.read_text()):
        ours = target.startswith(("lacuna/", "cli/"))
        if ours and quote == "<":
            yield f"{name}: <{target}> is ours, write it in quotes"
        elif not ours and quote == '"' and (path.parent / target).exists():
            yield f'{name}: "{target}" is ours, write it from the root of the repository'
        elif ours:
            to = target.split("/")[1] if target.startswith("lacuna/") else "cli"
            if to not in ORDER[: ORDER.index(folder) + 1]:
                yield f"{name}: {folder} may not include {target}"
        elif target.startswith(("torch/", "ATen/", "c10/")) and folder not in WITH_TORCH:
            yield f"{name}: {target} is torch's, which is used from lacuna/torch on"


def violations(root):
    return [line for path, name in sources(root) for line in include_violations(path, name)]


def large_folders(root):
    """Folders of lacuna/ with more files than fit on a screen, subfolders not counted."""
    folders = [root / "lacuna", *(path for path in (root / "lacuna").rglob("*") if path.is_dir())]
    counts = {folder: sum(path.is_file() for path in folder.iterdir()) for folder in folders}
    return [str(folder.relative_to(root)) for folder, count in counts.items() if count > MOST_FILES]


def backward_callers(root):
    """Files that start a backward pass: the training step alone, so that what goes for it goes for every training.

    An operator of lacuna/torch may run one inside its own."""
    return [str(name) for path, name in sources(root)
            if name.parts[1] in WITH_TORCH[1:] and not path.stem.endswith(("_test", "testing")) and BACKWARD.search(path.read_text())]


def test_repository_keeps_the_order():
    assert violations(ROOT) == []


def test_no_folder_is_large():
    assert large_folders(ROOT) == []


def test_one_place_starts_the_backward_pass():
    assert len(backward_callers(ROOT)) == 1, backward_callers(ROOT)


def write(root, name, text=""):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_violations_are_seen(tmp_path):
    write(tmp_path, "lacuna/core/error.h", "#pragma once\n")
    write(tmp_path, "lacuna/graph/csr.h",
          '#include "lacuna/core/error.h"\n#include "lacuna/graph/names.h"\n#include <vector>\n')
    write(tmp_path, "lacuna/nn/models/gin.cpp", "#include <torch/nn/module.h>\n#include \"lacuna/torch/common.h\"\n")
    assert violations(tmp_path) == []
    write(tmp_path, "lacuna/graph/upward.cpp", '#include "lacuna/screen/screen.h"\n')
    write(tmp_path, "lacuna/graph/program.cpp", '#include "cli/terminal.h"\n')
    write(tmp_path, "lacuna/core/text/deep.cpp", '#include "lacuna/store/npy.h"\n')
    write(tmp_path, "lacuna/core/sideways.cpp", '#include "error.h"\n')
    write(tmp_path, "lacuna/core/angle.cpp", "  #  include <lacuna/core/error.h>\n")
    write(tmp_path, "lacuna/run/tensors.cpp", "#include <ATen/ATen.h>\n")
    write(tmp_path, "lacuna/extra/odd.cpp")
    assert sorted(line.split(":")[0] for line in violations(tmp_path)) == [
        "lacuna/core/angle.cpp",
        "lacuna/core/sideways.cpp",
        "lacuna/core/text/deep.cpp",
        "lacuna/extra/odd.cpp",
        "lacuna/graph/program.cpp",
        "lacuna/graph/upward.cpp",
        "lacuna/run/tensors.cpp",
    ]


def test_large_folders_are_seen(tmp_path):
    for i in range(MOST_FILES):
        write(tmp_path, f"lacuna/core/{i}.h")
        write(tmp_path, f"lacuna/core/text/{i}.h")
    assert large_folders(tmp_path) == []
    write(tmp_path, "lacuna/core/text/more.h")
    assert large_folders(tmp_path) == ["lacuna/core/text"]


def test_callers_of_backward_are_seen(tmp_path):
    write(tmp_path, "lacuna/torch/op.cpp", "static Tensors backward(Context* c, Tensors g) { return {}; }\n")
    write(tmp_path, "lacuna/train/step_test.cpp", "loss.backward();\n")
    assert backward_callers(tmp_path) == []
    write(tmp_path, "lacuna/train/step.cpp", "loss.backward();\n")
    write(tmp_path, "lacuna/train/other.cpp", "torch::autograd::backward({loss});\n")
    assert backward_callers(tmp_path) == ["lacuna/train/other.cpp", "lacuna/train/step.cpp"]
