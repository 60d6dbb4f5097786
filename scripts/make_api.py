"""docs/api.md, the reference of the Python package, from its signatures and docstrings.

.venv/bin/python scripts/make_api.py      # after a change to either; a test compares, and runs the examples
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"

HEAD = """# API reference

Every public name of `lacuna` and `lacuna.nn`, as `help()` shows it. Made from the docstrings by `scripts/make_api.py`;
[python.md](python.md) and [pyg.md](pyg.md) lead through it. Its examples are run by the tests, beside the files and names
that they mention.
"""

# The chapters of the page, in the order that somebody needs them; a name that stands in none ends the script.
CHAPTERS = {
    "Screens": ["Screen", "Split", "Column", "import_screen", "write_screen"],
    "Recordings": [
        "Recording", "Session", "Segment", "Field", "RecordingSplit", "import_recording", "write_recording",
    ],
    "Batches": ["Loader", "ScreenLoader", "RecordingLoader", "Dataset", "collate"],
    "Results": ["Run", "train", "join_ranks", "evaluate", "Evaluation", "influence", "Influence"],
    "Graphs and operators": [
        "Graph", "removed_lists", "aggregate", "aggregate_shared", "aggregate_masked", "masks", "split_masks", "MaskArena",
        "BipartiteGraph", "bipartite", "cast", "check_errors",
    ],
    "Errors and the library": ["Error", "UsageError", "has_cuda", "library_path"],
}  # fmt: skip
NN_CHAPTERS = {
    "lacuna.nn: models": ["Model", "make_model", "HeteroGin", "Dango", "GeneMlp", "WildType", "Factors", "GeneGraph", "gene_sets"],
    "lacuna.nn: checkpoints": ["Checkpoint", "load_checkpoint", "save_checkpoint"],
    "lacuna.nn: layers": [
        "GIN", "SAGE", "GCN", "Dense", "GraphDense", "GraphMlp", "Norm", "attend", "make_merge", "SumMerge", "MeanMerge",
        "AttentionMerge", "PairwiseMerge", "Pool", "GlobalHead", "LocalHead", "PairHead", "ProductHead",
        "HiddenGenes", "Metabolism",
    ],
}  # fmt: skip


@dataclasses.dataclass
class Entry:
    """A name with what is said of it."""

    name: str  # "Screen.open"
    signature: str  # "(path: str | os.PathLike, check: bool = True) -> Screen"; "" of an attribute
    text: str  # the docstring, clean


def signature_of(value: object) -> str:
    """As it stands in the source: annotations are texts there, and stay so."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    words, is_keyword = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls") or parameter.name.startswith("_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            words.append("*")
        is_keyword |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        word = stars + parameter.name
        if parameter.annotation is not parameter.empty:
            word += f": {type_text(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            word += (" = " if ":" in word else "=") + repr(parameter.default)
        words.append(word)
    gives = "" if signature.return_annotation in (signature.empty, None) else f" -> {type_text(signature.return_annotation)}"
    line = f"({', '.join(words)}){gives}"
    return line if len(line) < 90 else "(\n    " + ",\n    ".join(words) + f",\n){gives}"


def type_text(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


# Made by others than the reader, who never calls their constructors.
MADE_BY_LACUNA = {
    "Screen", "Split", "Column", "Recording", "Session", "Segment", "Field", "RecordingSplit", "Run", "Evaluation",
    "Influence", "Graph", "BipartiteGraph", "GeneGraph", "Checkpoint",
}  # fmt: skip
SPECIAL = {"__len__": "len(...)", "__getitem__": "...[...]", "__call__": "...(...)"}


def members_of(kind: type) -> Iterator[Entry]:
    """Its public methods and properties, in the order of its file; those of its parents stand with them."""
    for name, value in vars(kind).items():
        if (name.startswith("_") and name not in SPECIAL) or name in ("extra_repr",):
            continue
        if isinstance(value, property):
            yield Entry(name, "", doc_of(value))
            continue
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(function) and not (name == "forward" and not function.__doc__):  # its class has said it
            yield Entry(name, signature_of(function), doc_of(function))


def doc_of(value: object) -> str:
    """Its own, not that of a parent of torch's."""
    return inspect.cleandoc(value.__doc__ or "")


def entry_of(name: str, value: object) -> Entry:
    if inspect.isclass(value) and issubclass(value, Exception):
        return Entry(name, "", doc_of(value))
    if not callable(value):
        return Entry(name, "", "")
    if name in MADE_BY_LACUNA:
        return Entry(name, "", doc_of(value))
    return Entry(name, signature_of(value), doc_of(value))


# ---- a docstring as Markdown
@functools.cache
def names_of_the_page() -> set[str]:
    """Every heading that a link may lead to: "Screen", "Screen.open"."""
    found: set[str] = set()
    for module in ("lacuna", "lacuna.nn"):
        package = __import__(module, fromlist=["*"])
        for name in package.__all__:
            value = getattr(package, name)
            found |= {name, *(f"{name}.{m.name}" for m in (members_of(value) if inspect.isclass(value) else ()))}
    return found


def link_to(shown: str, target: str) -> str:
    return f"[`{shown}`](#{re.sub(r'[^a-z0-9_-]', '', target.lower())})"


def inline(text: str, owner: str = "") -> str:
    """Names become links: roles (those without a dot to a method of `owner`), and plain ``lacuna.collate``, ``Screen`` and
    ``Screen.open`` where they stand on the page. A plain ``masks`` may be anything, and stays what it is."""

    def role(found: re.Match) -> str:
        kind, name = found[1], found[2]
        if kind == "mod" or kind == "data":
            return f"`{name}`"
        short = name.removeprefix("lacuna.").removeprefix("nn.")
        return link_to(short, f"{owner}.{short}" if kind == "meth" and "." not in short else short)

    def plain(found: re.Match) -> str:
        short = found[1].removeprefix("lacuna.").removeprefix("nn.")
        is_name = short != found[1] or short[:1].isupper()
        return link_to(short, short) if is_name and short in names_of_the_page() else f"`{found[1]}`"

    return re.sub(r"``([^`]*)``", plain, re.sub(r":(\w+):`~?([\w.]+)`", role, text))


def compiles(lines: list[str]) -> bool:
    """An example, and not a formula."""
    try:
        compile("\n".join(lines), "example", "exec")
    except SyntaxError:
        return False
    return True


def markdown(text: str, owner: str = "") -> str:
    """Paragraphs, lists and sections of the docstring; what is indented without a section is an example, and is run."""
    out: list[str] = []
    code: list[str] = []
    section = ""

    def end_code() -> None:
        while code and not code[-1]:
            code.pop()
        if code:
            out.extend([f"```{'python' if compiles(code) else 'text'}", *code, "```", ""])
            code.clear()

    for line in text.splitlines():
        if heading := re.fullmatch(r"(Args|Attributes|Returns|Raises):", line):
            end_code()
            section = heading[1]
            out += [f"{section}:", ""]
        elif line.startswith("    ") and not section:
            code.append(line[4:])
        elif line.startswith("    ") and (item := re.match(r" {4}(\*{0,2}[\w, *]+): (.*)", line)) and section != "Returns":
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            out.append(f"- {names}: {inline(item[2], owner)}")
        elif line.startswith("    "):
            out.append(("  " if section != "Returns" else "") + inline(line.strip(), owner))
        elif code and not line.strip():
            code.append("")
        else:
            end_code()
            section = "" if line.strip() else section
            out.append(inline(line, owner))
    end_code()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def page_of(module: str, chapters: dict[str, list[str]]) -> str:
    package = __import__(module, fromlist=["*"])
    missing = set(package.__all__) - {name for names in chapters.values() for name in names} - {"nn"}
    unknown = {name for names in chapters.values() for name in names} - set(package.__all__)
    if missing or unknown:
        raise SystemExit(f"scripts/make_api.py: {module}: no chapter for {sorted(missing)}, unknown {sorted(unknown)}")
    lines: list[str] = []
    for chapter, names in chapters.items():
        lines += [f"## {chapter}", ""]
        for name in names:
            value = getattr(package, name)
            entry = entry_of(name, value)
            if name == "library_path":
                entry.text = "Where the library lies that was loaded, a ``Path``."
            lines += [f"### {name}", "", "```text", f"{module}.{name}{entry.signature}", "```", ""]
            lines += [markdown(entry.text, name), ""]
            for member in members_of(value) if inspect.isclass(value) else ():
                shown = f"{name}.{member.name}" if member.name not in SPECIAL else SPECIAL[member.name].replace("...", name, 1)
                lines += [f"#### {shown}", ""]
                if member.signature and member.name not in SPECIAL:
                    lines += ["```text", f"{member.name}{member.signature}", "```", ""]
                lines += [markdown(member.text, name), ""]
    return "\n".join(lines)


def make_page() -> str:
    return HEAD + "\n" + page_of("lacuna", CHAPTERS) + "\n" + page_of("lacuna.nn", NN_CHAPTERS)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    PAGE.write_text(make_page())
