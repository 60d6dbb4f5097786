"""Screens from Python, against NumPy, pandas, PyG and the program."""

import copy
import inspect
import itertools
import json
import os
import pickle
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import lacuna
from lacuna.__main__ import program

pd = pytest.importorskip("pandas")
PROGRAM = program()


def generate(path, *words):
    subprocess.run([PROGRAM, "generate", "screen", path, "--size", "tiny", *words], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    return lacuna.Screen.open(generate(tmp_path_factory.mktemp("screens") / "tiny", "--seed", "3"))


def test_the_class_opens_a_path_as_open_does(screen):
    assert len(lacuna.Screen(str(screen.path))) == len(screen)
    with pytest.raises(lacuna.Error, match="nowhere"):
        lacuna.Screen("nowhere")


def test_arrays_are_the_files(screen):
    for name in ("removed", "ptr"):
        stored = np.load(screen.path / "samples" / f"{name}.npy")
        view = getattr(screen, name)
        assert view.dtype == stored.dtype and np.array_equal(view, stored)
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
    assert np.array_equal(screen.labels[:, 0], np.load(screen.path / "samples" / "label.npy").ravel())


def test_other_libraries_see_the_same_bytes(screen):
    """By DLPack and by the buffer protocol, without copies."""
    for array in (screen.labels, screen.removed, screen.ptr, screen.edges()["gene", "physical", "gene"]):
        assert torch.from_dlpack(array).data_ptr() == array.ctypes.data
        assert np.shares_memory(np.from_dlpack(array), array)
        seen = memoryview(array)
        assert seen.readonly and seen.nbytes == array.nbytes
    batch = next(iter(lacuna.Loader(screen, batch=4)))
    assert np.from_dlpack(batch["label"]).ctypes.data == batch["label"].data_ptr()


def test_what_it_says_is_what_the_program_says(screen):
    said = subprocess.run([PROGRAM, "info", screen.path, "--json"], check=True, capture_output=True, text=True)
    info = json.loads(said.stdout)
    info.pop("checked")
    assert screen.summary() == info
    assert screen.fingerprint == info["fingerprint"]["value"]
    html = screen._repr_html_()
    for edges in info["edges"]:
        assert edges["type"] in html and f"{edges['count']:,}" in html
    assert f"{len(screen):,} samples" in repr(screen)


def test_to_pandas_has_a_row_a_sample(screen):
    table = screen.to_pandas()
    assert len(table) == len(screen) == info_count(screen)
    for s in (0, 17, len(screen) - 1):
        genes = [screen.genes[g] for g in screen.removed[screen.ptr[s] : screen.ptr[s + 1]]]
        assert list(table["removed"][s]) == genes == screen.removed_of(s)
    assert np.array_equal(table[screen.label_names[0]], screen.labels[:, 0], equal_nan=True)
    column = screen.columns["query_pair"]
    assert table["query_pair"][5] == column.categories[column.values[5]]


def info_count(screen):
    return len(np.load(screen.path / "samples" / "ptr.npy")) - 1


def test_genes_are_found_by_any_of_their_names(tmp_path):
    screen = lacuna.Screen.open(generate(tmp_path / "screen", "--seed", "3"))
    first, second = screen.genes[:2]
    assert screen.aliases == [[] for _ in screen.genes] and screen.shown(0) == first
    (tmp_path / "names.tsv").write_text(f"gene\talias\n{first}\tVPS8\n{second}\tRVS161\n")
    screen.import_names(f"{tmp_path / 'names.tsv'}")
    for again in (screen, lacuna.Screen.open(screen.path)):
        assert again.aliases[:3] == [["VPS8"], ["RVS161"], []]
        assert again.shown(1) == f"RVS161 ({second})"
        assert {again.gene(name) for name in (second, "RVS161", "rvs161", f"RVS161 ({second})")} == {1}
    assert again.removed_of(0, shown=True) == [again.shown(again.gene(name)) for name in again.removed_of(0)]
    with pytest.raises(lacuna.Error, match=r"there is no gene 'VSP8'; did you mean 'VPS8 "):
        screen.gene("VSP8")


def test_a_split_is_drawn_added_and_removed(tmp_path):
    screen = lacuna.Screen.open(generate(tmp_path / "s"))
    split = screen.make_split("mine", by="gene", fractions=(0.7, 0.1, 0.2), seed=4)
    assert "mine" in screen.splits and "mine" in lacuna.Screen.open(screen.path).splits
    parts = [set(split.train), set(split.validation), set(split.test)]
    assert sum(map(len, parts)) == len(screen) == len(set.union(*parts))
    removed = [set(itertools.chain.from_iterable(map(screen.removed_of, part))) for part in parts]
    test_genes = removed[2] - removed[0] - removed[1]
    assert all(test_genes & set(screen.removed_of(s)) for s in parts[2])  # each has a gene never seen
    screen.remove_split("mine")
    assert "mine" not in screen.splits
    with pytest.raises(lacuna.Error, match="no split 'mine'"):
        screen.split("mine")


def test_a_named_category_is_held_out_and_a_missed_share_warns(tmp_path):
    rows = {"removed": [[f"g{i % 9}", f"g{(i * 7) % 11 + 20}"] for i in range(90)], "label": np.arange(90.0),
            "lab": ["a", "b", "c"] * 30}  # fmt: skip
    genes = [f"g{i}" for i in range(40)]
    screen = lacuna.Screen.write(tmp_path / "s", {"p": np.zeros((2, 0), int)}, rows, labels=["label"], genes=genes)
    split = screen.make_split("out", by="category", column="lab", hold_out=["b"], repeats_together=False)
    assert set(split.test) == {i for i in range(90) if rows["lab"][i] == "b"} and len(split.train) > len(split.validation)
    with pytest.warns(UserWarning, match="asked: 50.0%"):
        screen.make_split("thirds", by="category", fractions=(0.5, 0.25, 0.25), column="lab", repeats_together=False)
    with pytest.raises(lacuna.Error, match="no category 'd'"):
        screen.make_split("none", by="category", column="lab", hold_out=["d"])


def test_gene_folds_hold_every_gene_out_once(tmp_path):
    screen = lacuna.Screen.generate(tmp_path / "s", "mini", 400, 3, removed=2, share_module=0.5, share_graph=0, modules=6)
    folds = screen.make_split("fold", "gene", fractions=(0.8, 0.1, 0.1), folds=4, seed=1)
    assert [fold.name for fold in folds] == ["fold-1", "fold-2", "fold-3", "fold-4"] == screen.splits
    held_out = []
    for fold in folds:
        of_part = [set(itertools.chain.from_iterable(map(screen.removed_of, part))) for part in (fold.train, fold.test)]
        assert all(set(screen.removed_of(s)) - of_part[0] for s in fold.test)
        held_out.append(of_part[1] - of_part[0])
    removed = {screen.genes[g] for g in np.unique(screen.removed)}
    assert set().union(*held_out) == removed and sum(fold.how["test_genes"] for fold in folds) == len(removed)
    with pytest.raises(lacuna.UsageError, match="--folds goes with --by gene"):
        screen.make_split("other", "random", folds=3)


def test_one_split_a_category_and_one_of_a_file(tmp_path):
    rows = {"removed": [[f"g{i % 9}", f"g{(i * 7) % 11 + 20}"] for i in range(90)], "label": np.arange(90.0),
            "lab": ["a", "b", "c"] * 30}  # fmt: skip
    genes = [f"g{i}" for i in range(40)]
    screen = lacuna.Screen.write(tmp_path / "s", {"p": np.zeros((2, 0), int)}, rows, genes=genes)
    splits = screen.make_split("without", "category", column="lab", each=True, repeats_together=False)
    assert {split.name: set(split.test) for split in splits} == {
        f"without-{lab}": {i for i in range(90) if rows["lab"][i] == lab} for lab in "abc"
    }
    (tmp_path / "lists.json").write_text(json.dumps({"train": [0, 5], "val": [7], "test": [2, 1]}))
    given = screen.make_split("given", "file", file=tmp_path / "lists.json")
    assert [part.tolist() for part in (given.train, given.validation, given.test)] == [[0, 5], [7], [1, 2]]
    for by, file in (("file", None), ("gene", tmp_path / "lists.json")):
        with pytest.raises(lacuna.UsageError, match="--by file"):
            screen.make_split("none", by, file=file)


def test_every_option_of_generate_reaches_the_program(tmp_path):
    given = {"removed": 4, "query_pairs": 25, "interaction_type": "regulatory", "modules": 3, "share_gene": 0.1,
             "share_pair": 0.2, "share_graph": 0.3, "share_module": 0.25, "share_noise": 0.15}  # fmt: skip
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    screen = lacuna.Screen.generate(tmp_path / "s", "tiny", 60, 5, **given)
    told = lacuna.Screen.open(generate(tmp_path / "t", "--samples", "60", "--seed", "5", *words))
    assert screen.fingerprint == told.fingerprint and (np.diff(screen.ptr) == 4).all()
    assert len(screen.columns["query_pair"].categories) == 25 and "truth_module" in screen.columns


def test_copies_and_pickles_open_it_again(screen, tmp_path):
    for other in (copy.deepcopy(screen), pickle.loads(pickle.dumps(screen))):
        assert isinstance(other, lacuna.Screen) and other.fingerprint == screen.fingerprint
        assert np.array_equal(other.labels, screen.labels, equal_nan=True) and other.genes == screen.genes
    module = torch.nn.Linear(1, 1)
    module.screen = screen
    assert copy.deepcopy(module).screen.path == screen.path
    torch.save({"screen": screen}, tmp_path / "saved.pt")  # as Lightning keeps what a model was made with
    assert torch.load(tmp_path / "saved.pt", weights_only=True)["screen"].fingerprint == screen.fingerprint


def test_a_pickle_of_another_screen_is_refused(tmp_path):
    saved = pickle.dumps(lacuna.Screen.open(generate(tmp_path / "s", "--seed", "1")))
    (tmp_path / "s").rename(tmp_path / "old")
    generate(tmp_path / "s", "--seed", "2")
    with pytest.raises(lacuna.Error, match="was pickled; open the screen that you mean"):
        pickle.loads(saved)


def test_help_names_the_arguments():
    shown = inspect.signature(lacuna.Screen.write).parameters
    assert list(shown) == list(inspect.signature(lacuna.write_screen).parameters)
    for value in (lacuna.Screen, lacuna.Split, lacuna.Column, lacuna.Recording, lacuna.import_screen):
        assert not re.search(r":\w+:`", pydoc.render_doc(value)), value  # a role of Sphinx, which help() would show as it is


# ---- writing
def samples(count, genes, rng):
    removed = [sorted(rng.choice(genes, size=rng.integers(0, 4), replace=False).tolist()) for _ in range(count)]
    return removed, rng.standard_normal((count, 2)).astype(np.float32)


def test_written_from_numpy_and_pandas_it_reads_back(tmp_path, seed):
    rng = np.random.default_rng(seed)
    genes = [f"g{i}" for i in range(30)]
    edges = {"physical": rng.integers(0, 30, (2, 50)), "binding": np.array([[3, 3, 3], [3, 4, 4]])}  # loop, repeat
    removed, labels = samples(20, 30, rng)
    frame = pd.DataFrame(
        {
            "removed": [[genes[g] for g in sample] for sample in removed],
            "fitness": labels[:, 0],
            "growth": labels[:, 1].astype(np.float64),
            "plate": pd.Categorical(rng.choice(["a", "b"], 20)),
            "day": rng.integers(0, 9, 20),
            "note": [None if i % 3 else f"n{i}" for i in range(20)],  # unknown where there is none
        }
    )
    frame.loc[2, "fitness"] = np.nan
    parts = ["train"] * 10 + ["validation"] * 4 + ["test"] * 5 + ["unused"]
    screen = lacuna.Screen.write(
        tmp_path / "s", edges, frame, labels=["fitness", "growth"], genes=genes, splits={"given": parts}
    )
    assert screen.genes == genes and screen.label_names == ["fitness", "growth"]
    for name, index in edges.items():
        assert np.array_equal(screen.edges()["gene", name, "gene"], index)
    assert [screen.removed_of(s) for s in range(20)] == frame["removed"].tolist()
    assert np.array_equal(screen.labels, frame[["fitness", "growth"]].to_numpy(np.float32), equal_nan=True)
    back = screen.to_pandas()
    assert back["plate"].tolist() == frame["plate"].tolist() and back["day"].tolist() == frame["day"].tolist()
    assert back["note"].astype(object).fillna("-").tolist() == frame["note"].fillna("-").tolist()
    assert back["split:given"].tolist() == parts
    assert lacuna.Screen.open(screen.path).fingerprint == screen.fingerprint  # with every byte checked


def test_written_from_hetero_data_edges_features_and_values_stay(tmp_path, seed):
    hetero = pytest.importorskip("torch_geometric.data").HeteroData()
    hetero["gene"].names = [f"g{i}" for i in range(9)]
    hetero["gene"].x = torch.randn(9, 4)
    hetero["reaction"].names = ["r0", "r1"]
    hetero["gene", "physical", "gene"].edge_index = torch.tensor([[8, 0, 0, 5], [1, 0, 0, 8]])
    hetero["gene", "physical", "gene"].weight = torch.randn(4)
    hetero["gene", "rule", "reaction"].edge_index = torch.tensor([[1, 2, 3], [0, 1, 1]])
    table = {"removed": [[0], [1, 2], []], "label": [0.5, -1, 2]}
    screen = lacuna.Screen.write(tmp_path / "s", hetero, table)
    for key in hetero.edge_types:
        assert np.array_equal(screen.edges()[key], hetero[key].edge_index)
    assert np.array_equal(screen.features()["x"], hetero["gene"].x)
    weights = screen.edge_values()["gene", "physical", "gene"]["weight"]
    assert np.array_equal(weights, hetero["gene", "physical", "gene"].weight)
    assert screen.nodes("reaction") == ["r0", "r1"]


def test_written_from_networkx_direction_is_kept(tmp_path):
    nx = pytest.importorskip("networkx")
    directed, undirected = nx.DiGraph([("a", "b"), ("c", "a")]), nx.Graph([("b", "c"), ("d", "d")])
    screen = lacuna.Screen.write(
        tmp_path / "s", {"regulates": directed, "physical": undirected}, {"removed": [["d"]], "label": [1.0]}
    )
    named = {
        key[1]: {(screen.genes[u], screen.genes[v]) for u, v in index.T} for key, index in screen.edges().items()
    }
    assert named == {"regulates": {("a", "b"), ("c", "a")}, "physical": {("b", "c"), ("c", "b"), ("d", "d")}}


def test_imported_from_tables(tmp_path):
    (tmp_path / "genes.tsv").write_text("gene\nA\nB\nC\n")
    (tmp_path / "physical.tsv").write_text("source\ttarget\nA\tB\n")
    (tmp_path / "screen.csv").write_text("a,b,fitness,plate\nA,B,0.5,one\nB,C,0.7,two\n")
    screen = lacuna.import_screen(
        tmp_path / "s", genes=tmp_path / "genes.tsv", network=[f"physical={tmp_path / 'physical.tsv'}"],
        samples=f"{tmp_path / 'screen.csv'},removed=a+b,label=fitness,categories=plate",
    )  # fmt: skip
    assert [screen.removed_of(s) for s in range(2)] == [["A", "B"], ["B", "C"]]
    assert isinstance(screen.columns["plate"], lacuna.Column) and screen.columns["plate"].categories == ["one", "two"]
    assert "2 categories" in repr(screen.columns["plate"])
    split = screen.make_split("random", fractions=(0.5, 0, 0.5))
    assert isinstance(split, lacuna.Split) and "train 1" in repr(split) and len(split.validation) == 0
    with pytest.raises(lacuna.UsageError, match="--netwrok"):
        lacuna.import_screen(tmp_path / "t", genes=tmp_path / "genes.tsv", samples="x", netwrok="x")


def test_a_screen_is_written_once(tmp_path):
    arguments = {"p": np.array([[0], [1]])}, {"removed": [[0]], "label": [1.0]}
    assert lacuna.write_screen(tmp_path / "s", *arguments, genes=["a", "b"]) is None
    assert len(lacuna.Screen.open(tmp_path / "s")) == 1
    with pytest.raises(lacuna.Error, match="already there"):
        lacuna.write_screen(tmp_path / "s", *arguments, genes=["a", "b"])


def test_what_edges_and_nodes_have_beside_is_kept(tmp_path):
    nx = pytest.importorskip("networkx")
    undirected = nx.Graph()
    undirected.add_edge("b", "c", weight=0.5, source="x")
    undirected.add_edge("d", "d", weight=2)
    undirected.add_node("alone")
    table = pd.DataFrame({"from": ["c", "a", "a"], "to": ["a", "c", "c"], "score": [1, 2, 3]})  # a repeat
    samples = {"removed": [["d"], ["alone", "a"]], "label": [1.0, 2.0]}
    screen = lacuna.Screen.write(tmp_path / "s", {"physical": undirected, "listed": table}, samples)
    assert screen.genes == ["a", "alone", "b", "c", "d"]
    assert screen.edges()["gene", "listed", "gene"].tolist() == [[3, 0, 0], [0, 3, 3]]
    assert screen.edge_values()["gene", "listed", "gene"]["score"].tolist() == [1, 2, 3]
    assert screen.edges()["gene", "physical", "gene"].tolist() == [[2, 4, 3], [3, 4, 2]]
    assert screen.edge_values()["gene", "physical", "gene"]["weight"].tolist() == [0.5, 2, 0.5]

    hetero = pytest.importorskip("torch_geometric.data").HeteroData()
    hetero["gene"].names, hetero["gene"].length = ["a", "b", "c"], torch.tensor([3, 1, 2])
    hetero["gene", "p", "gene"].edge_index = torch.tensor([[0, 1], [1, 2]])
    hetero["gene", "p", "gene"].edge_attr = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    screen = lacuna.Screen.write(tmp_path / "h", hetero, {"removed": [[0]], "label": [1.0]})
    assert screen.features()["length"].tolist() == [[3], [1], [2]]
    values = screen.edge_values()["gene", "p", "gene"]
    assert values["edge_attr0"].tolist() == [1, 3] and values["edge_attr1"].tolist() == [2, 4]


def test_graph_is_that_of_the_operators(screen):
    removed, ptr = lacuna.removed_lists([[1, 5], []])
    x = torch.randn(len(screen.genes), 2, 3, dtype=torch.float64)
    out = lacuna.aggregate(screen.graph, x, removed, ptr)
    kept = torch.ones(len(screen.genes), 2, 1, dtype=torch.float64)
    kept[[1, 5], 0] = 0
    for t, name in enumerate(screen.graph.types):
        source, target = torch.from_numpy(screen.edges()["gene", name, "gene"].astype(np.int64))
        expected = torch.zeros_like(x).index_add_(0, target, (x * kept)[source]) * kept
        assert torch.allclose(out[t], expected, atol=1e-12)


# ---- errors
def test_errors_have_the_words_of_the_library(tmp_path, screen):
    with pytest.raises(lacuna.Error, match="nowhere"):
        lacuna.Screen.open(tmp_path / "nowhere")
    with pytest.raises(lacuna.Error, match="'fitnes'"):
        lacuna.Screen.write(tmp_path / "s", {"p": np.zeros((2, 0), int)}, {"removed": [], "fitness": []}, labels="fitnes", genes=["a"])
    with pytest.raises(lacuna.Error, match="gene 'zz' is not among the 1 genes"):
        lacuna.Screen.write(tmp_path / "s", {"p": np.zeros((2, 0), int)}, {"removed": [["zz"]], "label": [1.0]}, genes=["a"])
    empty = {"p": np.zeros((2, 0), int)}
    for removed, words in (([[-1]], "gene index -1"), ([[1]], "0 to 0"), ([float("nan")], "empty list")):
        with pytest.raises(lacuna.Error, match=words):
            lacuna.Screen.write(tmp_path / "s", empty, {"removed": removed, "label": [1.0]}, genes=["a"])
    with pytest.raises(lacuna.UsageError, match="part 'tset'; one of train"):
        lacuna.Screen.write(tmp_path / "s", empty, {"removed": [[0]], "label": [1.0]}, genes=["a"], splits={"x": ["tset"]})
    with pytest.raises(lacuna.UsageError, match="network 'p' has indices"):
        lacuna.Screen.write(tmp_path / "s", empty, {"removed": [[0]], "label": [1.0]})
    with pytest.raises(lacuna.Error, match="network 'p': gene 'c'"):
        edges = pd.DataFrame({"a": ["a"], "b": ["c"]})
        lacuna.Screen.write(tmp_path / "s", {"p": edges}, {"removed": [[0]], "label": [1.0]}, genes=["a", "b"])
    with pytest.raises(lacuna.UsageError, match="labels is empty; name the columns of measured labels, of removed, label"):
        lacuna.Screen.write(tmp_path / "s", empty, {"removed": [[0]], "label": [1.0]}, genes=["a"], labels=[])
    with pytest.raises(lacuna.UsageError):
        screen.make_split("bad", fractions=(0.9, 0.9, 0.9))
    assert issubclass(lacuna.UsageError, ValueError) and issubclass(lacuna.UsageError, lacuna.Error)
    assert not (tmp_path / "s").exists()


def test_a_damaged_screen_is_not_opened(tmp_path):
    path = generate(tmp_path / "s") / "samples" / "removed.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(lacuna.Error, match="removed.npy"):
        lacuna.Screen.open(tmp_path / "s")


def test_ctrl_c_ends_a_long_call(tmp_path):
    """Of an interpreter of its own, which is interrupted while it opens a screen again and again."""
    path = generate(tmp_path / "s", "--samples", "200")
    code = f"""
import os, signal, threading
import lacuna
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has not
screen = lacuna.Screen.open({str(path)!r})
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        lacuna.Screen.open({str(path)!r})
except KeyboardInterrupt:
    print("interrupted")
print(len(lacuna.Screen.open({str(path)!r})))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment)
    assert done.stdout.split() == ["interrupted", "200"], done.stderr
