"""lacuna import screen from small tables: every option, and what goes wrong."""

import csv
import gzip
import json
import os
import pathlib

import numpy as np
import pytest
from program import lacuna


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with four genes a, b, c, d (aliases A, B, C, D) and two samples."""
    monkeypatch.chdir(tmp_path)
    write("genes.tsv", "gene\tname\na\tA\nb\tB\nc\tC\nd\tD\n")
    write("s.tsv", "g1\tg2\ty\na\tb\t1\nc\td\t-2.5\n")
    return tmp_path


def write(name, text):
    if name.endswith(".gz"):
        pathlib.Path(name).write_bytes(gzip.compress(text.encode()))
    else:
        pathlib.Path(name).write_text(text, newline="")


SAMPLES = "--samples", "s.tsv,removed=g1+g2,label=y"


def call(*options, out="out", genes="genes.tsv,alias=name"):
    return lacuna("import", "screen", out, "--genes", genes, *options)


def make(*options, **more):
    out = pathlib.Path(more.setdefault("out", f"out{len(list(pathlib.Path().glob('out*')))}"))
    done = call(*options, **more)
    assert done.returncode == 0, done.stderr
    return out


def error(*options, code=1, **more):
    done = call(*options, **more)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert not pathlib.Path("out/manifest.json").exists()
    return done.stderr


def edges(out, network="n"):
    return np.load(out / f"edges/gene.{network}.gene.npy").T.tolist()


def weights(out, network="n"):
    return np.load(out / f"edges/gene.{network}.gene.weight.npy").tolist()


def sample(out, name):
    return np.load(out / f"samples/{name}.npy").tolist()


def removed(out):
    ptr, flat = sample(out, "ptr"), sample(out, "removed")
    return [flat[a:b] for a, b in zip(ptr, ptr[1:])]


def manifest(out):
    return json.loads((out / "manifest.json").read_text())


def count(out, source, what):
    found = manifest(out)["made_by"]["report"][source][what]
    return found["count"] if isinstance(found, dict) else found


LOOPS = [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_network_defaults(folder):
    write("n.tsv", "source\ttarget\na\tb\nb\ta\nc\tB\nc\tc\n")
    out = make(*SAMPLES, "--network", "n=n.tsv")
    assert edges(out) == [[0, 1], [1, 0], [2, 1], [1, 2]] + LOOPS
    assert not (out / "edges/gene.n.gene.weight.npy").exists()
    assert count(out, "n.tsv", "rows that repeat an edge") == 1
    assert count(out, "n.tsv", "self loops in the table") == 1
    assert count(out, "n.tsv", "self loops added") == 3


def test_network_options(folder):
    write("n.csv.gz", "from,to,w\na,b,5\nb,a,7\nc,d,1\na,a,4\nd,c,\n")
    spec = "n=n.csv.gz,source=from,target=to"
    assert edges(make(*SAMPLES, "--network", f"{spec},directed,self-loops=no")) == [[0, 1], [1, 0], [2, 3], [0, 0], [3, 2]]
    out = make(*SAMPLES, "--network", f"{spec},self-loops=no,repeated=keep")
    assert edges(out) == [[0, 1], [1, 0], [1, 0], [0, 1], [2, 3], [3, 2], [0, 0], [3, 2], [2, 3]]
    for repeated, expected in {"first": 5, "max": 7, "mean": 6}.items():
        out = make(*SAMPLES, "--network", f"{spec},weight=w,missing-weight=drop,loop-weight=0.5,repeated={repeated}")
        assert edges(out) == [[0, 1], [1, 0], [2, 3], [3, 2]] + LOOPS
        assert weights(out) == [expected, expected, 1, 1, 4, 0.5, 0.5, 0.5]
        assert count(out, "n.csv.gz", "rows without a weight") == 1
        assert count(out, "n.csv.gz", "rows that repeat an edge with another weight") == 1
    out = make(*SAMPLES, "--network", f"{spec},weight=w,missing-weight=9,min=5,max=8,self-loops=no")
    assert edges(out) == [[0, 1], [1, 0]] and weights(out) == [5, 5]
    assert count(out, "n.csv.gz", "rows left out: weight outside the threshold") == 3
    assert "n.csv.gz:6: no weight in column 'w'" in error(*SAMPLES, "--network", f"{spec},weight=w")
    assert "a threshold needs weights" in error(*SAMPLES, "--network", f"{spec},min=3", code=2)


def test_several_networks_and_space_separated(folder):
    write("links.txt", "p1 p2 score\n9.a 9.b 300\n9.c 9.d 100\n")
    write("m.tsv", "source\ttarget\nd\ta\n")
    spec = r"n=links.txt,separator=space,source=p1,target=p2,weight=score,min=200,pattern=^9\.(.+),self-loops=no"
    out = make(*SAMPLES, "--network", spec, "--network", "m=m.tsv,directed,self-loops=no")
    assert edges(out, "n") == [[0, 1], [1, 0]] and edges(out, "m") == [[3, 0]]


def test_sample_cells(folder):
    write("s.tsv", "genes\ty\tz\tsd\tallele\na_x1;b_x2\t1\t\t0.5\tts\nctrl_9;c_1\t\t2\t\t\nctrl_9\t3\t4\tNA\tko\nd_1;d_2\t5\t6\t1\tko\n")
    spec = "s.tsv,removed=genes,gene-separator=;,pattern=^([^_]+),ignore=ctrl,label=y+second:z,numbers=sd,categories=allele"
    out = make("--samples", spec)
    assert removed(out) == [[0, 1], [2], [], [3]]
    assert manifest(out)["samples"]["labels"] == ["y", "second"]
    np.testing.assert_array_equal(np.load(out / "samples/label.npy"), [[1, np.nan], [np.nan, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(np.load(out / "samples/sd.npy"), np.array([0.5, np.nan, np.nan, 1], np.float32))
    assert sample(out, "allele") == [0, 255, 1, 1] and sample(out, "row") == [0, 1, 2, 3]
    assert count(out, "s.tsv", "rows that remove nothing") == 1
    assert count(out, "s.tsv", "rows that name a gene twice (removed once)") == 1
    assert count(out, "s.tsv", "genes passed over (ignore)") == 2


def test_unknown_genes_are_named_with_file_and_line(folder):
    write("s.tsv", "g1\tg2\ty\na\tb\t1\na\tzz\t2\n")
    message = error(*SAMPLES)
    assert "s.tsv:3: unknown gene 'zz'" in message and "--unknown drop" in message
    write("n.tsv.gz", "source\ttarget\na\tb\nq\tb\n")
    assert "n.tsv.gz:3: unknown gene 'q'" in error(*SAMPLES, "--network", "n=n.tsv.gz", "--unknown", "error")
    out = make(*SAMPLES, "--network", "n=n.tsv.gz,self-loops=no", "--unknown", "drop")
    assert removed(out) == [[0, 1]] and edges(out) == [[0, 1], [1, 0]]
    report = manifest(out)["made_by"]["report"]
    assert report["s.tsv"]["different unknown genes"] == {"count": 1, "examples": ["s.tsv:3: 'zz'"]}


def test_aliases(folder):
    write("s.tsv", "g1\tg2\ty\nA\told1\t1\nold2\tboth\t2\n")
    write("aliases.tsv", "gene\talias\nb\told1|old2\nc\tboth\nd\tboth\nnowhere\told3\n")
    aliases = "--aliases", "aliases.tsv,alias-separator=|"
    assert "s.tsv:3: 'both' is an alias of several genes" in error(*SAMPLES, *aliases)
    out = make(*SAMPLES, *aliases, "--unknown", "drop")
    assert removed(out) == [[0, 1]]
    assert count(out, "aliases.tsv", "aliases of several genes (lead to none)") == 1
    assert count(out, "aliases.tsv", "rows about other genes") == 1


def test_non_numbers(folder):
    write("s.tsv", "g1\tg2\ty\na\tb\t1\nc\td\tn.d.\na\tc\tinf\n")
    assert "s.tsv:3: 'n.d.' in column 'y' is not a number" in error(*SAMPLES)
    out = make(*SAMPLES, "--non-numbers", "missing")
    np.testing.assert_array_equal(np.load(out / "samples/label.npy"), np.array([1, np.nan, np.nan], np.float32))
    assert count(out, "s.tsv", "cells that are not numbers") == 2


def test_missing_labels(folder):
    write("s.tsv", "g1\tg2\ty\na\tb\t1\nc\td\t\n")
    np.testing.assert_array_equal(np.load(make(*SAMPLES) / "samples/label.npy"), np.array([1, np.nan], np.float32))
    assert removed(make(*SAMPLES, "--missing-labels", "drop")) == [[0, 1]]
    assert "s.tsv:3: no label in column 'y'" in error(*SAMPLES, "--missing-labels", "error")


def test_repeated_samples(folder):
    write("s.tsv", "g1\tg2\ty\na\tb\t1\nb\ta\t2\nc\td\t5\n")
    write("t.tsv", "g1\tg2\ty\na\tb\t7\n")
    both = *SAMPLES, "--samples", "other=t.tsv,removed=g1+g2,label=y"
    out = make(*both)
    assert sample(out, "label") == [1, 2, 5, 7] and sample(out, "screen") == [0, 0, 0, 1]
    assert not (out / "samples/repeats.npy").exists()
    assert count(out, "all samples", "repeated samples (--duplicates keep)") == 1
    assert sample(make(*both, "--duplicates", "first"), "label") == [1, 5, 7]
    out = make(*both, "--duplicates", "mean")
    assert sample(out, "label") == [1.5, 5, 7] and sample(out, "repeats") == [2, 1, 1] and sample(out, "row") == [0, 2, 3]
    assert sample(make(*both, "--duplicates", "first", "--repeats-within", "nothing"), "label") == [1, 5]
    [column] = [c for c in manifest(out)["samples"]["columns"] if c["name"] == "screen"]
    assert column["categories"] == ["s", "other"]


def test_splits(folder):
    write("s.tsv", "g1\tg2\ty\tpart\na\tb\t1\ttrain\nzz\tb\t1\ttrain\nc\td\t5\tval\na\tc\t1\t\n")
    spec = "s.tsv,removed=g1+g2,label=y,split=fold:part"
    write("lists.json", '{"train": [3, 1], "val": [], "test": [0]}')
    out = make("--samples", spec, "--split", "lists.json", "--unknown", "drop")
    assert np.load(out / "splits/fold.npy").tolist() == [0, 1, 255]
    assert np.load(out / "splits/lists.npy").tolist() == [2, 255, 0]
    assert count(out, "lists.json", "indices of rows that were left out") == 1
    write("lists.json", '{"train": [4]}')
    assert "index 4 of part 'train' is no row" in error("--samples", spec, "--split", "lists.json", "--unknown", "drop")
    write("s.tsv", "g1\tg2\ty\tpart\na\tb\t1\tholdout\n")
    assert "s.tsv:2: 'holdout' is no part of a split" in error("--samples", spec)


def test_features(folder):
    np.save("f.npy", np.arange(8).reshape(4, 2))
    write("t.tsv", "gene\tx\tname\ty\nC\t3\tq\t-3\na\t1\tr\tNA\n")
    out = make(*SAMPLES, "--features", "f=f.npy", "--features", "t=t.tsv,columns=x+y,missing=-1")
    np.testing.assert_array_equal(np.load(out / "nodes/gene.f.npy"), np.arange(8, dtype=np.float32).reshape(4, 2))
    assert np.load(out / "nodes/gene.t.npy").tolist() == [[1, -1], [-1, -1], [3, -3], [-1, -1]]
    assert count(out, "t.tsv", "genes with a missing feature") == 3
    assert "gene 'a' has no feature 't'" in error(*SAMPLES, "--features", "t=t.tsv,columns=x+y")
    write("t.tsv", "gene\tx\na\t1\nA\t2\n")
    assert "t.tsv:3: features of gene 'a' are already on line 2" in error(*SAMPLES, "--features", "t=t.tsv,missing=0")
    np.save("f.npy", np.zeros((3, 2)))
    assert "f.npy: 3 rows" in error(*SAMPLES, "--features", "f=f.npy")


def test_features_of_an_array_are_looked_at_like_those_of_a_table(folder):
    features = ["--features", "f=f.npy"]
    np.save("f.npy", np.array([[1, 2], [3, np.nan], [5, 6], [7, 8]]))
    assert "f.npy: gene 'b' has no feature 'f'; say missing=NUMBER" in error(*SAMPLES, *features)
    out = make(*SAMPLES, "--features", "f=f.npy,missing=-1")
    assert np.load(out / "nodes/gene.f.npy").tolist() == [[1, 2], [3, -1], [5, 6], [7, 8]]
    assert count(out, "f.npy", "genes with a missing feature") == 1
    for large in [1e300, -1e39, np.inf]:
        np.save("f.npy", np.array([1, 2, large, 4]))
        assert f"f.npy: row 2: {large:g} is too large for f32" in error(*SAMPLES, *features)
        out = make(*SAMPLES, "--features", "f=f.npy,missing=nan", "--non-numbers", "missing")
        np.testing.assert_array_equal(np.load(out / "nodes/gene.f.npy"), np.array([[1], [2], [np.nan], [4]]))
    np.save("f.npy", np.zeros((4, 0)))
    assert "f.npy: rows of no numbers" in error(*SAMPLES, *features)


def test_metabolism(folder):
    write("r.tsv", "reaction\trule\tlb\nR1\t(a and b) or C\t-1\nR2\t\t0\nR3\td\t0\n")
    write("m.tsv", "metabolite\treaction\tcoefficient\nx\tR1\t-1\ny\tR1\t2\nx\tR3\t1\n")
    tables = "--reactions", "r.tsv,numbers=lb", "--stoichiometry", "m.tsv"
    out = make(*SAMPLES, *tables)
    assert (out / "nodes/reaction.txt").read_text().split() == ["R1#1", "R1#2", "R2", "R3"]
    assert np.load(out / "edges/gene.rule.reaction.npy").T.tolist() == [[0, 0], [1, 0], [2, 1], [3, 3]]
    stoichiometry = np.load(out / "edges/reaction.stoichiometry.metabolite.npy").T.tolist()
    assert stoichiometry == [[0, 0], [0, 1], [1, 0], [1, 1], [3, 0]]
    assert np.load(out / "edges/reaction.stoichiometry.metabolite.coefficient.npy").tolist() == [-1, 2, -1, 2, 1]
    assert np.load(out / "nodes/reaction.lb.npy").tolist() == [[-1], [-1], [0], [0]]
    write("r.tsv", "reaction\trule\tlb\nR1\t(a and zz) or zz\t-1\nR3\td\t0\n")
    assert "r.tsv:2: unknown gene 'zz'" in error(*SAMPLES, *tables)
    write("r.tsv", "reaction\trule\tlb\nR1\t(a and zz) or zz\t-1\nR3\ta and b and c or (d\t0\n")
    assert "r.tsv:3: gene rule" in error(*SAMPLES, *tables, "--unknown", "drop")
    write("r.tsv", "reaction\trule\tlb\nR1\t(a and zz) or zz\t-1\nR1\ta\t0\n")
    assert "r.tsv:3: reaction 'R1' is listed twice" in error(*SAMPLES, *tables, "--unknown", "drop")
    write("r.tsv", "reaction\trule\tlb\nR1\t(a and zz) or zz\t-1\n")
    out = make(*SAMPLES, *tables, "--unknown", "drop")  # zz is never removed: R1#1 needs a, R1#2 nothing
    assert (out / "nodes/reaction.txt").read_text().split() == ["R1#1", "R1#2"]
    assert np.load(out / "edges/gene.rule.reaction.npy").T.tolist() == [[0, 0]]
    assert count(out, "m.tsv", "rows left out: an unknown reaction") == 1
    write("m.tsv", "metabolite\treaction\tcoefficient\n\tR1\t1\n")
    assert "m.tsv:2: no metabolite in column 'metabolite'" in error(*SAMPLES, *tables, "--unknown", "drop")
    write("m.tsv", "metabolite\treaction\tcoefficient\nx\tR1\tmuch\n")
    assert "m.tsv:2: 'much' in column 'coefficient'" in error(*SAMPLES, *tables, "--unknown", "drop")
    assert "needs both" in error(*SAMPLES, "--reactions", "r.tsv", code=2)


def test_made_by(folder):
    out = make(*SAMPLES)
    made_by = manifest(out)["made_by"]
    assert made_by["command"].startswith(f"lacuna import screen {out} --genes")
    assert made_by["settings"]["unknown"] == "error" and made_by["settings"]["duplicates"] == "keep"
    assert [s["path"] for s in made_by["sources"]] == ["genes.tsv", "s.tsv"]
    assert all(len(s["xxh3"]) == 16 for s in made_by["sources"])


def test_wrong_calls(folder):
    assert "no path" in error(*SAMPLES, code=2, genes=",gene=a")
    assert "give samples" in error(code=2)
    assert "there is no setting 'removd'" in error("--samples", "s.tsv,removd=g1,label=y", code=2)
    assert "name the columns of removed genes" in error("--samples", "s.tsv,label=y", code=2)
    assert "give it a name" in error(*SAMPLES, "--network", "n.tsv", code=2)
    assert "repeated is first, keep, max or mean" in error(*SAMPLES, "--network", "n=n.tsv,repeated=last", code=2)
    assert "min is not a number" in error(*SAMPLES, "--network", "n=n.tsv,min=x", code=2)
    assert "--unknown" in error(*SAMPLES, "--unknown", "guess", code=2)
    assert "no column 'medium'" in error(*SAMPLES, "--repeats-within", "medium")
    assert "pattern '^a' has no group" in error("--samples", "s.tsv,removed=g1,label=y,pattern=^a")


def test_wrong_files(folder):
    assert "none.tsv: cannot open" in error("--samples", "none.tsv,removed=a,label=y")
    assert "no column 'g9'; it has 'g1', 'g2', 'y'" in error("--samples", "s.tsv,removed=g9,label=y")
    write("genes.tsv", "gene\na\nb\na\n")
    assert "genes.tsv:4: gene 'a' is already on line 2" in error(*SAMPLES, genes="genes.tsv")
    write("genes.tsv", "gene\n")
    assert "genes.tsv: no genes" in error(*SAMPLES, genes="genes.tsv")
    write("genes.tsv", "")
    assert "genes.tsv: empty" in error(*SAMPLES, genes="genes.tsv")


def test_existing_output_is_kept(folder):
    out = make(*SAMPLES)
    before = (out / "manifest.json").read_bytes()
    done = call(*SAMPLES, out=out)
    assert done.returncode == 1 and done.stderr.startswith("error: ")
    assert (out / "manifest.json").read_bytes() == before


def test_help_has_an_example(folder):
    done = lacuna("import", "screen", "--help")
    assert done.returncode == 0 and "Examples:" in done.stdout and "--unknown" in done.stdout


def test_text_that_is_not_utf8(folder):
    """What is kept must be UTF-8, as all text of a screen is; what is only shown as an example becomes printable."""
    pathlib.Path("s.tsv").write_bytes(b"g1\tg2\ty\tmedium\na\tb\t1\t30 \xb5M\nc\td\t2\tYPD\n")
    spec = "s.tsv,removed=g1+g2,label=y"
    assert "s.tsv:2: the text in column 'medium' is not UTF-8" in error("--samples", spec + ",categories=medium")
    make("--samples", spec)  # a column that nobody asks for
    pathlib.Path("s.tsv").write_bytes(b"g1\tg2\ty\na\tb\t1\nc\t\xb5\t2\n")
    out = make("--samples", spec, "--unknown", "drop")
    assert r"s.tsv:3: '\\xb5'" in (out / "manifest.json").read_text()


def test_names_that_spreadsheets_take_for_formulas(folder):
    """As Lacuna and spreadsheets write them, with an apostrophe; as Python's csv module does, without one."""
    names = ["=SUM(A1)", "+x", "-omega", "@y", "'=z", "'tis", "-"]
    with open("odd.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["gene", "=alias"])
        for name in names:
            signed = name.lstrip("'")[0] in "=+-@"
            rows.writerow(["'" + name if signed else name, f"'={name}"])
    write("odd_samples.csv", "g1,'-y,'@kind\n'=SUM(A1),-1,'=a\n'-,2,'b\n''=z,3,'=a\n")
    spec = "odd_samples.csv,removed=g1,label=-y,categories=@kind"
    out = make("--samples", spec, genes="odd.csv,alias==alias")
    assert (out / "nodes/gene.txt").read_text().splitlines() == names
    assert sample(out, "removed") == [0, 6, 4] and sample(out, "label") == [-1, 2, 3]
    assert manifest(out)["samples"]["labels"] == ["-y"]
    assert [c["categories"] for c in manifest(out)["samples"]["columns"] if c["name"] == "@kind"] == [["=a", "'b"]]


def test_garbage_behind_gzip_is_an_error(folder):
    packed = gzip.compress(pathlib.Path("s.tsv").read_bytes())
    pathlib.Path("g.tsv.gz").write_bytes(packed + b"garbage")
    assert f"g.tsv.gz: something else stands behind its gzip data, at byte {len(packed)}" in error(
        "--samples", "g.tsv.gz,removed=g1+g2,label=y")
    pathlib.Path("g.tsv.gz").write_bytes(packed + gzip.compress(b"b\tc\t3\n") + bytes(512))
    out = make("--samples", "g.tsv.gz,removed=g1+g2,label=y")
    assert sample(out, "label") == [1, -2.5, 3]


def test_pipes_in_place_of_files_are_refused(folder):
    os.mkfifo("pipe.tsv")
    os.mkfifo("pipe.json")
    os.mkfifo("pipe.npy")
    for options in (["--samples", "pipe.tsv,removed=g1,label=y"], [*SAMPLES, "--network", "n=pipe.tsv"],
                    [*SAMPLES, "--split", "s=pipe.json"], [*SAMPLES, "--features", "f=pipe.npy"]):
        assert "not a regular file" in error(*options)
    assert "is not a file" in error("--json-lmdb", "pipe.tsv")


def test_what_multiplies_out_is_bounded_and_repeats_are_counted_once(folder):
    many = "+".join(["a", "b"] * 1000)
    write("n.tsv", f"source\ttarget\na\tb\n{many}\t{many}\n")
    message = error(*SAMPLES, "--network", "n=n.tsv,gene-separator=\\+")
    assert "n.tsv:3: 2000 and 2000 genes are 4000000 edges" in message
    write("r.tsv", "reaction\trule\nR\ta and b\n")
    write("m.tsv", "reaction\tmetabolite\tcoefficient\n" + "R\tx\t1\n" * 3 + "R\ty\t-1\n")
    out = make(*SAMPLES, "--reactions", "r.tsv", "--stoichiometry", "m.tsv")
    assert count(out, "m.tsv", "rows that repeat a metabolite of a reaction (kept)") == 2
