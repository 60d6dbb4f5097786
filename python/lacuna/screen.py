"""Screens: one graph and many samples, each of which removes a few genes and has measured labels."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import torch

from . import _core
from ._program import call
from ._progress import Progress
from ._write import write_screen
from .graph import Graph

if TYPE_CHECKING:
    from .dataset import Dataset

PARTS = {"train": 0, "validation": 1, "test": 2, "unused": 255}


class Split:
    """A part for every sample: train, validation, test or unused.

    Attributes:
        name: its name in the screen.
        parts: [S] u8 view; ``lacuna.screen.PARTS`` has the meaning of the numbers.
        how: how it was drawn, or where it came from.
    """

    def __init__(self, name: str, parts: np.ndarray, how: Mapping):
        self.name, self.parts, self.how = name, parts, dict(how or {})

    def samples(self, part: str) -> np.ndarray:
        """The numbers of the samples of a part, ascending."""
        return np.flatnonzero(self.parts == PARTS[_part_name(part)])

    @property
    def train(self) -> np.ndarray:
        """``samples("train")``; likewise the two others."""
        return self.samples("train")

    @property
    def validation(self) -> np.ndarray:
        """``samples("validation")``."""
        return self.samples("validation")

    @property
    def test(self) -> np.ndarray:
        """``samples("test")``."""
        return self.samples("test")

    def __repr__(self) -> str:
        counts = ", ".join(f"{part} {len(self.samples(part)):,}" for part in PARTS)
        return f"Split({self.name!r}: {counts})"


class Screen:
    """An open screen. Make one with ``Screen.open``, ``Screen.write`` or ``Screen.generate``; ``Screen(path)`` opens one, too.

    Arrays are read-only views of the files; nothing is copied.

    Attributes:
        path: where it lies.
        genes: their names, by index.
        label_names: [L].
        labels: [S, L] f32; NaN = not measured.
        removed, ptr: sample s removes the genes ``removed[ptr[s]:ptr[s + 1]]``.
        columns: what else is known about each sample, by name: a ``Column`` each.
    """

    def __init__(self, path: str | os.PathLike | _core.Screen):
        self._core: _core.Screen = path if isinstance(path, _core.Screen) else type(self).open(path)._core
        core = self._core
        self.path = Path(core.path)
        self.label_names = list(core.label_names)
        self.removed, self.ptr = core.removed, core.ptr
        self.labels = core.labels.reshape(core.size, len(self.label_names))
        self.columns = {name: Column(name, values, names) for name, values, names in core.columns}
        self._nodes = {name: (names, dict(features)) for name, names, features in core.node_types}
        self._graph: Graph | None = None

    def __reduce__(self) -> tuple:
        """A copy, and what arrives in another process, opens the path again."""
        return _reopened, (str(self.path.absolute()), self.fingerprint)

    # ---- making
    @classmethod
    def open(cls, path: str | os.PathLike, check: bool = True) -> Screen:
        """Opens a screen.

        Args:
            path: its directory.
            check: read every byte against its checksum first, so that nothing is computed from bytes that have changed
                (seconds at millions of samples). False reads none of the samples.
        """
        with Progress() as progress:
            return cls(_core.Screen.open(Path(path), check, progress))

    @classmethod
    def write(
        cls,
        path: str | os.PathLike,
        graph,
        samples,
        removed: str = "removed",
        labels: str | Iterable[str] = "label",
        genes: Iterable[str] | None = None,
        splits: Mapping[str, Iterable] | None = None,
    ) -> Screen:
        """Writes a new screen from what you have, and opens it; ``lacuna.write_screen`` says what each may be.

        Args:
            path: of the new directory; it must not exist.
            graph: a PyG ``HeteroData``, or a mapping of name to gene network: networkx, DataFrame or [2, E].
            samples: a DataFrame, or a mapping of columns, with a row a sample.
            removed: the column of removed genes.
            labels: the columns of measured labels.
            genes: their names, by index, where the graph does not have them.
            splits: by name, a part a sample.
        """
        write_screen(path, graph, samples, removed, labels, genes, splits)
        return cls.open(path, check=False)

    @classmethod
    def generate(
        cls,
        path: str | os.PathLike,
        size: str = "tiny",
        samples: int | None = None,
        seed: int = 0,
        *,
        removed: int | None = None,
        query_pairs: int | None = None,
        interaction_type: str | None = None,
        modules: int | None = None,
        share_gene: float | None = None,
        share_pair: float | None = None,
        share_graph: float | None = None,
        share_module: float | None = None,
        share_noise: float | None = None,
    ) -> Screen:
        """Writes a synthetic screen whose labels have known parts (docs/quickstart.md), and opens it. What is None is what
        `lacuna generate screen --help` says.

        Args:
            path: of the new directory.
            size: tiny, mini, small, yeast or human.
            samples: how many; None: what the size has.
            seed: of everything in it.
            removed: genes a sample removes, 2 to 16; with 2 every sample is another pair.
            query_pairs: pairs of genes that many samples remove.
            interaction_type: gene-gene edge type of the graph part.
            modules: of genes, with ``share_module``.
            share_gene, share_pair, share_graph, share_module, share_noise: of the labels' variance; they are divided by
                their sum. ``share_module`` can be told of genes that training never saw.
        """
        options = {
            "size": size,
            "samples": samples,
            "seed": seed,
            "removed": removed,
            "query_pairs": query_pairs,
            "interaction_type": interaction_type,
            "modules": modules,
            "share_gene": share_gene,
            "share_pair": share_pair,
            "share_graph": share_graph,
            "share_module": share_module,
            "share_noise": share_noise,
        }
        call("generate", "screen", path, *command_words(options))
        return cls.open(path, check=False)

    # ---- looking
    def __len__(self) -> int:
        """Samples, S."""
        return self._core.size

    @property
    def genes(self) -> list[str]:
        """Their names, by index."""
        return self._nodes["gene"][0]

    @property
    def aliases(self) -> list[list[str]]:
        """What else each gene is called, by index; the first is its standard name."""
        return self._core.gene_aliases

    @property
    def fingerprint(self) -> str:
        """Of graph and samples, as `lacuna info` shows it."""
        return f"{self._core.fingerprint:016x}"

    @property
    def splits(self) -> list[str]:
        """Names of its splits."""
        return [name for name, _, _ in self._core.splits]

    def split(self, name: str) -> Split:
        """A split by name."""
        for found, parts, how in self._core.splits:
            if found == name:
                return Split(found, parts, how)
        raise _core.Error(f"{self.path}: no split {name!r}; it has {', '.join(self.splits) or 'none'}")

    @overload
    def make_split(
        self, name: str, by: str = ..., fractions: Iterable[float] = ..., seed: int = ..., column: str = ..., bins: int = ...,
        repeats_together: bool = ..., hold_out: Iterable[str] = ..., *, file: str | os.PathLike | None = ...,
    ) -> Split: ...  # fmt: skip

    @overload
    def make_split(
        self, name: str, by: str, fractions: Iterable[float] = ..., seed: int = ..., column: str = ..., bins: int = ...,
        repeats_together: bool = ..., *, folds: int,
    ) -> list[Split]: ...  # fmt: skip

    @overload
    def make_split(
        self, name: str, by: str, fractions: Iterable[float] = ..., seed: int = ..., column: str = ..., bins: int = ...,
        repeats_together: bool = ..., *, each: Literal[True],
    ) -> list[Split]: ...  # fmt: skip

    def make_split(
        self,
        name: str,
        by: str = "random",
        fractions: Iterable[float] = (0.8, 0.1, 0.1),
        seed: int = 0,
        column: str = "",
        bins: int = 10,
        repeats_together: bool = True,
        hold_out: Iterable[str] = (),
        *,
        folds: int | None = None,
        each: bool = False,
        file: str | os.PathLike | None = None,
    ) -> Split | list[Split]:
        """Draws a split, adds it to the screen on disk and returns it (docs/evaluation.md says what each kind tests).

        Warns where a part misses its share by more than a tenth, and where nothing more is held out than at random.

        Args:
            name: of the new split.
            by: random, stratified, gene, pair, category or file.
            fractions: of train, validation and test; what they leave of 1 is unused.
            seed: of the draw.
            column: stratified: a column or a label; pair: a column of categories, or none; category: whose.
            bins: stratified by numbers.
            repeats_together: samples that remove the same genes go to the same part.
            hold_out: category: these are test, all of them (leave-one-screen-out).
            folds: gene: so many splits, ``name-1``, ``name-2``, ..., in which every gene is held out for test once; of
                ``fractions`` only validation's counts. They are returned as a list.
            each: category: a split for every category of the column, ``name-CATEGORY``, in which it is test; a list.
            file: file: a JSON file of sample numbers, {"train": [...], "val": [...], "test": [...]}.
        """
        if folds is not None or each or file is not None or by == "file":
            options = {"name": name, "by": by, "seed": seed, "bins": bins, "folds": folds, "each": each, "file": file}
            options["fractions"] = ",".join(str(float(share)) for share in fractions)
            options["repeats"] = "together" if repeats_together else "apart"
            options |= {"column": column or None, "hold_out": ",".join(hold_out) or None}
            before = self.splits
            call("split", self.path, *command_words(options))
            self._core = _core.Screen.open(self.path, False, None)
            if folds is not None:  # some may have been there, from a call that was cut short
                return [self.split(f"{name}-{fold + 1}") for fold in range(folds)]
            return [self.split(new) for new in self.splits if new not in before] if each else self.split(name)
        with Progress() as progress:
            notes = _core.make_split(
                self.path, name, by, tuple(fractions), seed, column, bins, repeats_together, list(hold_out), progress
            )
        for note in notes:
            warnings.warn(note, stacklevel=2)
        self._core = _core.Screen.open(self.path, False, None)
        return self.split(name)

    def remove_split(self, name: str) -> None:
        """Takes a split out of the screen on disk."""
        _core.remove_split(self.path, name)
        self._core = _core.Screen.open(self.path, False, None)

    def removed_of(self, sample: int, shown: bool = False) -> list[str]:
        """The names of the genes that a sample removes; shown: with standard names, as ``VPS8 (YAL002W)``."""
        genes = [int(g) for g in self.removed[self.ptr[sample] : self.ptr[sample + 1]]]
        return [self.shown(g) if shown else self.genes[g] for g in genes]

    def gene(self, name: str) -> int:
        """The index of a gene by its name, an alias (in any case, where only one gene is meant) or ``VPS8 (YAL002W)``."""
        return self._core.find_gene(name)

    def shown(self, gene: int) -> str:
        """``VPS8 (YAL002W)``, or the gene's own name where it has no other."""
        return self._core.shown_gene(gene)

    def import_names(self, table: str) -> None:
        """Adds aliases from a table to the screen on disk: ``genes.tsv,gene=gene,alias=name`` (docs/import.md)."""
        call("import", "names", self.path, table)
        self._core = _core.Screen.open(self.path, False, None)

    def dataset(self, split: str | None = None, part: str | None = None, masks: bool = True) -> Dataset:
        """Its samples one at a time; see ``lacuna.Dataset``."""
        from .dataset import Dataset

        return Dataset(self, split, part, masks)

    @property
    def graph(self) -> Graph:
        """The gene-gene edge types, laid out for the operators; made once."""
        if self._graph is None:
            edges = {
                name: torch.from_numpy(edges.astype(np.int64))
                for source, name, target, edges, _ in self._core.edge_types
                if source == target == "gene"
            }
            self._graph = Graph.from_edges(len(self.genes), dict(sorted(edges.items())))
        return self._graph

    def edges(self) -> dict[tuple[str, str, str], np.ndarray]:
        """[2, E] of every edge type, sources then targets, by (source type, name, target type)."""
        return {(source, name, target): edges for source, name, target, edges, _ in self._core.edge_types}

    def edge_values(self) -> dict[tuple[str, str, str], dict[str, np.ndarray]]:
        """[E] f32 of every value that edges have, by edge type and name."""
        return {(source, name, target): dict(values) for source, name, target, _, values in self._core.edge_types}

    def features(self, node_type: str = "gene") -> dict[str, np.ndarray]:
        """[N, d] f32 of every feature of a node type, by name."""
        return self._nodes[node_type][1]

    def nodes(self, node_type: str) -> list[str]:
        """Names of the nodes of a type, by index."""
        return self._nodes[node_type][0]

    def to_pandas(self, splits: bool = True):
        """A DataFrame with a row a sample: the removed genes (a tuple of names), labels, columns, and a column
        ``split:NAME`` for every split."""
        import pandas as pd

        genes = np.asarray(self.genes, dtype=object)[np.asarray(self.removed)]
        bounds = itertools.pairwise(np.asarray(self.ptr).tolist())
        data = {"removed": [tuple(genes[begin:end]) for begin, end in bounds]}
        data |= {name: self.labels[:, l] for l, name in enumerate(self.label_names)}
        data |= {name: column.to_pandas() for name, column in self.columns.items()}
        if splits:
            names = {number: part for part, number in PARTS.items()}
            for name in self.splits:
                codes = pd.Series(self.split(name).parts).map(names)
                data[f"split:{name}"] = pd.Categorical(codes, categories=list(PARTS))
        return pd.DataFrame(data)

    def summary(self) -> dict:
        """What `lacuna info --json` prints: counts, degrees, labels, columns, splits."""
        with Progress() as progress:
            return self._core.summary(progress)

    def __repr__(self) -> str:
        types = sum(source == target == "gene" for source, _, target, _, _ in self._core.edge_types)
        return (
            f"Screen({str(self.path)!r}: {len(self):,} samples, {len(self.genes):,} genes, {types} gene networks, "
            f"labels {', '.join(self.label_names) or 'none'}, splits {', '.join(self.splits) or 'none'})"
        )

    def _repr_html_(self) -> str:
        from ._html import screen_html

        return screen_html(self)


def _reopened(path: str, fingerprint: str) -> Screen:
    """A screen that was pickled: the one that lies at its path must be the same."""
    screen = Screen.open(path, check=False)
    if screen.fingerprint != fingerprint:
        raise _core.Error(
            f"{path}: has the fingerprint {screen.fingerprint}, but {fingerprint} was pickled; open the screen that you mean "
            "with lacuna.Screen.open"
        )
    return screen


# A checkpoint of Lightning may hold a screen (save_hyperparameters); torch.load refuses what it was not told of.
torch.serialization.add_safe_globals([_reopened])


def import_screen(path: str | os.PathLike, *words: object, **options: object) -> Screen:
    """`lacuna import screen` from Python: tables into a new screen, which is opened (docs/import.md).

        lacuna.import_screen("s", genes="genes.tsv", network=["physical=physical.tsv", "tf=tf.tsv"],
                             samples="screen.csv,removed=a+b,label=fitness")

    Args:
        path: of the new directory.
        words: further words of the command, as they stand.
        options: the command's options without their dashes, ``_`` for ``-``; a list repeats one, True is a flag. Those are
            ``genes``, ``aliases``, ``network``, ``reactions``, ``stoichiometry``, ``features``, ``samples``, ``json_lmdb``
            and ``split``, each a table with its columns, and ``unknown``, ``duplicates``, ``repeats_within``,
            ``missing_labels``, ``non_numbers`` and ``threads``; `lacuna import screen --help` explains them.
    """
    call("import", "screen", path, *words, *command_words(options))
    return Screen.open(path, check=False)


def command_words(options: Mapping[str, object]) -> list[object]:
    """Options of a command as its words: ``_`` for ``-``, a list repeats one, True is a flag, None and False are none."""
    words: list[object] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is not None and item is not False:
                words += [option] if item is True else [option, item]
    return words


class Column:
    """Something known about each sample: numbers, or categories as codes with names.

    Attributes:
        values: [S] view, as stored. Categories: the largest code of the type means unknown.
        categories: names of codes 0, 1, ...; empty for numbers.
    """

    def __init__(self, name: str, values: np.ndarray, categories: list[str]):
        self.name, self.values, self.categories = name, values, list(categories)

    def to_pandas(self):
        """A Series' values: numbers as they are, categories as a pandas Categorical."""
        if not self.categories:
            return self.values
        import pandas as pd

        codes = self.values.astype(np.int64)
        codes[codes >= len(self.categories)] = -1
        return pd.Categorical.from_codes(codes, self.categories)

    def __repr__(self) -> str:
        kind = f"{len(self.categories)} categories" if self.categories else str(self.values.dtype)
        return f"Column({self.name!r}, {kind}, [{len(self.values):,}])"


def _part_name(part: str) -> str:
    name = {"val": "validation", "valid": "validation"}.get(part, part)
    if name not in PARTS:
        raise _core.UsageError(f"part {part!r}: one of {', '.join(PARTS)}")
    return name
