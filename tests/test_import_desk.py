"""lacuna import screen from tables as people have them: five published kinds, and what spreadsheets do to tables."""

import json
import os
import pathlib
import re
import sys
import zipfile

import numpy as np
import pytest
from program import lacuna

# Real names, so that the tables below look as they were published.
GENES = {
    "YFL039C": "ACT1",
    "YOR085W": "OST3",
    "YDL227C": "HO",
    "YAL002W": "VPS8",
    "YKL134C": "OCT1",
    "YCR009C": "RVS161",
    "YDR388W": "RVS167",
    "YOR153W": "PDR5",
    "YDR406W": "PDR15",
    "YDR011W": "SNQ2",
}
INDEX = {name: i for i, pair in enumerate(GENES.items()) for name in pair}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("genes.tsv", "gene\tname\n" + "".join(f"{gene}\t{name}\n" for gene, name in GENES.items()))
    return tmp_path


def write(name, text, encoding="utf-8"):
    pathlib.Path(name).write_bytes(text.encode(encoding))


def call(*options, out="out"):
    return lacuna("import", "screen", out, "--genes", "genes.tsv,alias=name", *options)


def make(*options):
    out = pathlib.Path(f"out{len(list(pathlib.Path().glob('out*')))}")
    done = call(*options, out=out)
    assert done.returncode == 0, done.stderr
    return out


def refused(*options, code=1):
    done = call(*options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert not pathlib.Path("out").exists()
    return done


def error(*options, code=1):
    return refused(*options, code=code).stderr


def array(out, name):
    return np.load(out / f"samples/{name}.npy")


def removed(out):
    """The removed genes of each sample, by standard name."""
    names, ptr, flat = list(GENES.values()), array(out, "ptr"), array(out, "removed")
    return [[names[g] for g in flat[a:b]] for a, b in zip(ptr, ptr[1:])]


def report(out):
    return json.loads((out / "manifest.json").read_text())["made_by"]["report"]


# ---- five published kinds
def test_e_map_matrix(folder):
    """An E-MAP: names on both sides, each pair twice, nothing on the diagonal, a corner that is empty or not there."""
    rows = {"VPS8": "\t-2.5\t0.5", "OCT1": "-2.5\t\t", "RVS161": "0.5\t\t"}
    head = "\tVPS8\tOCT1\tRVS161\n"
    for corner in ("Gene", "", None):
        text = (head[1:] if corner is None else corner + head) + "".join(f"{n}\t{r}\n" for n, r in rows.items())
        write("emap.txt", text)
        out = make("--samples", "emap.txt,matrix,label=S")
        assert removed(out) == [["VPS8", "OCT1"], ["VPS8", "RVS161"]]
        assert array(out, "label").tolist() == [-2.5, 0.5]
        counts = report(out)["emap.txt"]
        assert counts["cells left out: the matrix is symmetric, and has each pair twice"] == 2
        assert counts["cells without a score (no samples)"] == 5


def test_matrix_of_queries_and_arrays(folder):
    """Measured both ways: then the two are repeats, not copies. With a weight column, a diagonal and an unknown name."""
    write("m.tsv", "ORF\tweight\tYAL002W\tYKL134C\tnoname\nYAL002W\t1\t9\t1\t7\nYKL134C\t1\t3\tNA\t\n")
    spec = "m.tsv,matrix,label=S,row=ORF,skip=weight"
    assert "'noname'" in error("--samples", spec)
    out = make("--samples", f"{spec},unknown=drop,self=drop", "--duplicates", "mean")
    assert removed(out) == [["VPS8", "OCT1"]]
    assert array(out, "label").tolist() == [2] and array(out, "S_repeats").tolist() == [2]
    assert array(out, "row").tolist() == [1]
    counts = report(out)["m.tsv"]
    assert counts["cells left out: an unknown gene"] == 1
    assert counts["cells left out: a gene is named twice (self=drop)"]["count"] == 1
    assert removed(make("--samples", f"{spec},unknown=drop"))[0] == ["VPS8"]
    assert "one label" in error("--samples", f"{spec},categories=ORF", code=2)
    assert "matrix must be said" in error("--samples", "m.tsv,removed=ORF,label=YAL002W,skip=weight", code=2)


def test_headerless_triples(folder):
    """tau-SGA: three genes and a score a line, no header."""
    write("tau.txt", "YAL002W\tYKL134C\tYFL039C\t-0.25\nyal002w\tYKL134C\tYOR085W\t0.5\n")
    out = make("--samples", "tau.txt,header=no,removed=1+2+3,label=tau:4")
    assert removed(out) == [["VPS8", "OCT1", "ACT1"], ["VPS8", "OCT1", "OST3"]]
    assert array(out, "label").tolist() == [-0.25, 0.5]
    assert "say header=no" in error("--samples", "tau.txt,removed=a+b,label=score")


def test_list_of_alleles(folder):
    """Strains as `act1-129_hoΔ_ost3Δ`: alleles in lower case, joined by underscores, HO stands for nothing."""
    write("strains.csv", "strain,fitness\nact1-129_hoΔ_ost3Δ,0.8\nvps8Δ_hoΔ_oct1Δ,0.5\n")
    spec = "strains.csv,removed=strain,gene-separator=_,pattern=^([a-z]+[0-9]*),ignore=HO,label=fitness"
    out = make("--samples", spec)
    assert removed(out) == [["ACT1", "OST3"], ["VPS8", "OCT1"]]
    folded = report(out)["strains.csv"]["different names that are a gene's in another case"]
    assert folded["count"] == 4 and "'act1' is ACT1 (YFL039C)" in folded["examples"]
    said = refused("--samples", spec + ",case=exact")
    assert "unknown gene 'act1' (from 'act1-129')" in said.stderr
    said = refused("--samples", spec + ",case=exact", "--unknown", "drop")
    assert "every row was left out" in said.stderr and "'act1' (from 'act1-129')" in said.stderr


def test_four_labels(folder):
    """BFG-GI: a table of pairs with a score and a p-value in each of two conditions."""
    write("bfg.csv", "ORF1, ORF2 ,GIS_MMS,GIS_none,p_MMS,p_none\nYAL002W,YKL134C,-0.5,#N/A,0.01,n/a\nYFL039C,YOR085W,\u22120.125,0.25,1e-60,1\n")
    spec = "bfg.csv,removed=ORF1+ORF2,label=GIS_MMS+GIS_none+p_MMS+p_none"
    out = make("--samples", spec)
    assert removed(out) == [["VPS8", "OCT1"], ["ACT1", "OST3"]]
    expected = np.array([[-0.5, np.nan, 0.01, np.nan], [-0.125, 0.25, 0, 1]], np.float32)
    np.testing.assert_array_equal(array(out, "label"), expected)


def test_genotype_columns(folder):
    """XGA: a 0/1 column a gene, then the growth in several drugs."""
    write("xga.csv", "plate,PDR5,pdr15,SNQ2,none,benomyl\nA,1,0,1,0.5,0.25\nB,0,0,0,1,1\nA,0,1,0,2,\n")
    spec = "xga.csv,genotype=rest,label=none+benomyl,categories=plate"
    out = make("--samples", spec)
    assert removed(out) == [["PDR5", "SNQ2"], [], ["PDR15"]]
    assert array(out, "plate").tolist() == [0, 1, 0]
    assert removed(make("--samples", "xga.csv,genotype=PDR5+SNQ2,label=none,removed-is=0")) == [[], ["PDR5", "SNQ2"], ["PDR5", "SNQ2"]]
    message = error("--samples", "xga.csv,genotype=rest,label=none+benomyl")
    assert "xga.csv:2: 'A' in genotype column 'plate' is neither 0 nor 1" in message and "categories=" in message
    write("xga.csv", "PDR5,YOX1,none\n1,0,0.5\n1,1,0.25\n")
    spec = "xga.csv,genotype=rest,label=none"
    assert "xga.csv:3: unknown gene 'YOX1'" in error("--samples", spec)
    assert removed(make("--samples", spec + ",unknown=drop")) == [["PDR5"]]  # YOX1 is there in the first sample


# ---- what spreadsheets and other programs do
def test_text_of_others(folder):
    text = "ORF 1\t ORF2 \ty\nYAL002W\tYKL134C\t0.5\nYFL039C\tYOR085W\t\u22121.5\n"
    spec = "s.tsv,removed=ORF 1+ORF2,label=y"
    for change in (str, lambda t: t.replace("\n", "\r"), lambda t: t.replace("\n", "\r\n")):
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
            write("s.tsv", change(text), encoding)
            assert array(make("--samples", spec), "label").tolist() == [0.5, -1.5], (change(text), encoding)


def test_decimal_commas(folder):
    write("s.csv", "a;b;y\nVPS8;OCT1;-0,5\nACT1;OST3;2\n")
    spec = "s.csv,separator=semicolon,removed=a+b,label=y"
    assert "decimal=," in error("--samples", spec)
    for decimal in ("decimal=,", "decimal=\\,", "decimal=,,self=drop"):
        assert array(make("--samples", f"{spec},{decimal}"), "label").tolist() == [-0.5, 2]
    assert "is it separator=semicolon?" in error("--samples", "s.csv,removed=a+b,label=y")


def test_dates_for_genes(folder):
    write("s.tsv", "a\tb\ty\nVPS8\t1-Oct\t1\nVPS8\tACT1\t1\n")
    message = error("--samples", "s.tsv,removed=a+b,label=y")
    assert "s.tsv:2: unknown gene '1-Oct': a date, which a spreadsheet has made of a name such as OCT1 (YKL134C)" in message


def book(path, rows):
    """A workbook as spreadsheets write it, by hand: strings inline, numbers as they are, a date as its serial number."""
    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return "<c/>" if value is None else f'<c s="1"><v>{value[0]}</v></c>' if isinstance(value, tuple) else f"<c><v>{value}</v></c>"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="{kinds}.styles+xml"/>'
        + "".join(f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kinds}.worksheet+xml"/>' for i in (1, 2))
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets><sheet name="about" sheetId="1" r:id="r1"/><sheet name="scores" sheetId="2" r:id="r2"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        + "".join(f'<Relationship Id="r{i}" Type="{relations}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in (1, 2))
        + f'<Relationship Id="r3" Type="{relations}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{main}"><fonts count="1"><font/></fonts><fills count="1"><fill><patternFill/></fill></fills><borders count="1"><border/></borders>'
        '<cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="16" applyNumberFormat="1"/></cellXfs></styleSheet>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData/></worksheet>',
        "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{main}"><sheetData>'
        + "".join("<row>" + "".join(map(cell, row)) + "</row>" for row in rows)
        + "</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)


def test_workbooks(folder, monkeypatch):
    pytest.importorskip("openpyxl", reason="openpyxl is not there, so no .xlsx can be read")
    monkeypatch.setenv("LACUNA_PYTHON", sys.executable)
    book("s.xlsx", [["a", "b", "y"], ["VPS8", "act1", -0.5], ["OCT1", "OST3, or what", 2], ["VPS8", (45566,), None]])
    spec = "s.xlsx,sheet=scores,removed=a+b,label=y"
    assert "s.xlsx: empty" in error("--samples", "s.xlsx,removed=a+b,label=y")
    assert "no sheet 'none'; it has about, scores" in error("--samples", "s.xlsx,sheet=none,removed=a+b,label=y")
    message = error("--samples", spec)
    assert "s.xlsx:3: unknown gene 'OST3, or what'" in message and "'1-Oct': a date" in message
    out = make("--samples", spec, "--unknown", "drop-most")
    assert removed(out) == [["VPS8", "ACT1"]] and array(out, "label").tolist() == [-0.5]
    [source] = [s for s in json.loads((out / "manifest.json").read_text())["made_by"]["sources"] if s["path"] == "s.xlsx"]
    assert source["bytes"] == os.path.getsize("s.xlsx")
    pathlib.Path("broken.xlsx").write_text("a,b")
    assert "broken.xlsx: no workbook that openpyxl reads" in error("--samples", "broken.xlsx,removed=a+b,label=y")


def test_workbooks_without_openpyxl_are_refused_in_one_line(folder, monkeypatch):
    pathlib.Path("none").mkdir()
    write("none/openpyxl.py", "raise ImportError('not here')\n")
    monkeypatch.setenv("LACUNA_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", "none")
    pathlib.Path("s.xlsx").write_text("")
    assert "s.xlsx: reading .xlsx needs Python's openpyxl: `pip install openpyxl`" in error("--samples", "s.xlsx,removed=a+b,label=y")
    assert "there is no such file" in error("--samples", "t.xlsx,removed=a+b,label=y")
    assert "sheet= is for .xlsx files" in error("--samples", "s.tsv,sheet=a,removed=a+b,label=y", code=2)


# ---- what is unknown, and how much of it
SPEC = "s.tsv,removed=a+b,label=y"


def test_all_unknown_names_at_once(folder):
    write("s.tsv", "a\tb\ty\nVPS9\tACT1\t1\nACT1\tOST33\t2\nVPS9\tOCT1\t3\nACT1\tOST3\t4\n")
    write("n.tsv", "source\ttarget\nSNQ2\tPDR55\nSNQ2\tPDR5\n")
    words = "--samples", SPEC, "--network", "n=n.tsv"
    done = refused(*words)
    assert "3 unknown genes: n.tsv:2: unknown gene 'PDR55': nearest is PDR5 (YOR153W); s.tsv:2: unknown gene 'VPS9'" in done.stderr
    table = [line.split() for line in done.stdout.splitlines() if "nearest is" in line]
    assert table == [
        ["PDR55", "1", "n.tsv:2", "nearest", "is", "PDR5", "(YOR153W)"],
        ["VPS9", "2", "s.tsv:2", "nearest", "is", "VPS8", "(YAL002W)"],
        ["OST33", "1", "s.tsv:3", "nearest", "is", "OST3", "(YOR085W)"],
    ]
    assert "s.tsv:2" in error("--samples", SPEC, "--network", "n=n.tsv,unknown=drop")
    assert "n.tsv:2" in error("--samples", SPEC + ",unknown=drop-most", "--network", "n=n.tsv")
    out = make("--samples", SPEC + ",unknown=drop-most", "--network", "n=n.tsv,unknown=drop")
    assert removed(out) == [["ACT1", "OST3"]]


def test_most_rows_left_out_is_an_error_unless_it_is_said(folder):
    write("s.tsv", "a\tb\ty\nVPS8\tACT1\t1\nVPS8\txx\t1\nVPS8\tyy\t1\n")
    message = error("--samples", SPEC, "--unknown", "drop")
    assert "s.tsv: 2 of its 3 rows" in message and "such as 'xx'" in message and "unknown=drop-most" in message
    assert removed(make("--samples", SPEC, "--unknown", "drop-most")) == [["VPS8", "ACT1"]]
    write("n.tsv", "source\ttarget\nxx\tyy\n")
    assert "n.tsv: 1 of its 1 rows" in error("--samples", SPEC + ",unknown=drop-most", "--network", "n=n.tsv", "--unknown", "drop")
    assert "unknown is error, drop or drop-most" in error("--samples", SPEC + ",unknown=x", code=2)


def test_dry_run_writes_nothing(folder):
    write("s.tsv", "a\tb\ty\nVPS8\tACT1\t1\nVPS8\txx\t1\n")
    done = call("--samples", SPEC, "--unknown", "drop", "--dry-run")
    assert done.returncode == 0 and not pathlib.Path("out").exists()
    assert "nothing written (--dry-run): 10 genes, 0 edge types, 1 samples" in done.stdout
    assert "rows left out: an unknown gene" in done.stdout and "nearest is" in done.stdout
    done = refused("--samples", SPEC, "--dry-run")
    assert "unknown gene 'xx'" in done.stderr and "different unknown genes" in done.stdout


def test_every_row_left_out_says_why(folder):
    write("s.tsv", "a\tb\ty\nVPS8\txx\t1\nACT1\tACT1\t2\n")
    message = error("--samples", SPEC + ",self=drop", "--unknown", "drop")
    assert "every row was left out" in message and "s.tsv:2: 'xx'" in message
    assert "a gene is named twice (self=drop) (such as s.tsv:3)" in message


def test_a_gene_twice_in_a_row(folder):
    write("s.tsv", "a\tb\ty\nVPS8\tVPS8\t1\nACT1\tOST3\t2\n")
    assert removed(make("--samples", SPEC)) == [["VPS8"], ["ACT1", "OST3"]]
    out = make("--samples", SPEC + ",self=drop")
    assert removed(out) == [["ACT1", "OST3"]] and array(out, "row").tolist() == [1]
    assert "self is once or drop" in error("--samples", SPEC + ",self=never", code=2)


# ---- repeats
def noisy(folder, sd, pairs=400):
    """Pairs of genes, each measured twice: a true value of sd 1 and noise."""
    draw = np.random.default_rng(7)
    genes = [f"g{i}" for i in range(60)]
    write("genes.tsv", "gene\tname\n" + "".join(f"{g}\t\n" for g in genes))
    chosen = [(a, b) for i, a in enumerate(genes) for b in genes[:i]]
    chosen = [chosen[i] for i in draw.permutation(len(chosen))[:pairs]]
    truth = draw.normal(size=pairs)
    write("n.tsv", "source\ttarget\ng0\tg1\n")
    lines = [f"{a}\t{b}\t{t + sd * draw.normal()}\t{draw.random()}" for (a, b), t in zip(chosen, truth) for _ in range(2)]
    write("s.tsv", "a\tb\ty\tp\n" + "\n".join(lines) + "\n")
    return truth


def test_a_subset_still_says_what_the_import_left_out(folder):
    write("rows.tsv", "a\tb\tscore\nACT1\tHO\t1\nACT1\tOST3\t2\nVPS8\tHO\t3\nACT1\tNOBODY\t4\n")
    out = make("--samples", "rows.tsv,removed=a+b,label=score,unknown=drop")
    assert lacuna("subset", out, "few", "--where", "any-gene=ACT1").returncode == 0
    report = [json.loads((pathlib.Path(path) / "manifest.json").read_text())["made_by"]["report"] for path in (out, "few")]
    assert report[0] == report[1] and "NOBODY" in json.dumps(report[0])


def test_means_carry_their_spread_and_the_noise_is_kept(folder):
    truth = noisy(folder, 0.5)
    spec = "--samples", SPEC + ",numbers=p", "--network", "n=n.tsv"
    out = make(*spec, "--duplicates", "mean")
    values = np.array([line.split("\t")[2] for line in open("s.tsv").read().splitlines()[1:]], float).reshape(-1, 2)
    np.testing.assert_allclose(array(out, "label"), values.mean(1), rtol=1e-6)
    np.testing.assert_allclose(array(out, "y_repeat_sd"), values.std(1, ddof=1), rtol=1e-5)
    assert set(array(out, "y_repeats")) == {2} and np.isnan(array(out, "p")).all()
    for made in (out, make(*spec)):
        [noise] = json.loads((made / "manifest.json").read_text())["noise"]
        assert noise["variance"] == pytest.approx(values.var(1, ddof=1).mean()) and noise["sets"] == len(truth)
        assert noise["column"] == "screen" and noise["category"] == "s"
    assert "noise of 'y' in s: sd" in lacuna("info", out).stdout
    # The best that any model can score is what the truth itself scores.
    lacuna("split", out, "--name", "random", "--by", "random")
    lacuna("subset", out, "part", "--where", "removed=2")
    test = np.load(out / "splits/random.npy") == 2
    np.save("truth.npy", truth.astype(np.float32))
    for screen in (out, "part"):
        done = lacuna("evaluate", "--predictions", "truth.npy", "--screen", screen, "--split", "random", "--out", f"run-{screen}", "--without-baselines")
        assert done.returncode == 0, done.stderr
        scores = json.loads(pathlib.Path(f"run-{screen}/evaluation.json").read_text())["parts"]["test"]["labels"]["y"]
        assert scores["noise_ceiling"] == pytest.approx(np.corrcoef(truth[test], array(out, "label")[test])[0, 1], abs=0.1)
        assert f"test: noise ceiling of 'y': Pearson {scores['noise_ceiling']:.3f}" in done.stdout
    np.save("labels.npy", array(out, "label"))  # what knows the noise, too
    done = lacuna("evaluate", "--predictions", "labels.npy", "--screen", out, "--split", "random", "--out", "above", "--without-baselines")
    assert "the model is above it" in done.stdout and "knew what it was asked" in done.stdout
    assert "no model can be expected above it" not in done.stdout
    np.save("other.npy", truth.astype(np.float32) / 2)
    other = "evaluate", "--predictions", "other.npy", "--screen", out, "--split", "random", "--out", "run-other", "--without-baselines"
    for call in (other, ("ensemble", f"run-{out}", "run-other", "--out", "both")):
        assert lacuna(*call).returncode == 0
    both = json.loads(pathlib.Path("both/evaluation.json").read_text())["parts"]["test"]["labels"]["y"]
    assert both["noise_ceiling"] == scores["noise_ceiling"]
    done = lacuna("report", f"run-{out}", "--out", "report.html")
    assert done.returncode == 0, done.stderr
    page = pathlib.Path("report.html").read_text()
    ceiling = f"{scores['noise_ceiling']:.3f}"  # of `part`, which has all samples
    assert "noise ceiling of" in page and f"noise ceiling {ceiling}</small>" in page
    assert re.search(rf"test Pearson of y 0\.\d+, noise ceiling {ceiling}", lacuna("info", f"run-{out}").stdout)


# ---- names stay
def test_names_are_part_of_the_screen(folder):
    write("s.tsv", "a\tb\ty\nvps8\tACT1\t1\nVPS8\tOST3\t2\nOCT1\tOST3\t3\n")
    out = make("--samples", SPEC)
    assert "other names of genes: 10, such as ACT1 (YFL039C)" in lacuna("info", out).stdout
    for name in ("VPS8", "vps8", "YAL002W", "VPS8 (YAL002W)"):
        gene = json.loads(lacuna("info", out, "--gene", name, "--json").stdout)
        assert gene["gene"] == "YAL002W" and gene["samples"] == 2 and gene["aliases"] == ["VPS8"]
        done = lacuna("subset", out, f"sub-{name}", "--where", f"any-gene={name}")
        assert done.returncode == 0 and "2 of 3 samples" in done.stdout, done.stderr
    assert "VPS8 (YAL002W), gene 3 of 10" in lacuna("info", "sub-VPS8", "--gene", "vps8").stdout  # subset keeps them
    done = lacuna("info", out, "--gene", "VPS9")
    assert "there is no gene 'VPS9'; did you mean 'VPS8 (YAL002W)'?" in done.stderr
    assert lacuna("info", out, "--check").returncode == 0


def test_names_are_added_to_an_old_screen(folder):
    write("s.tsv", "a\tb\ty\nYAL002W\tYFL039C\t1\nYKL134C\tYOR085W\t3\n")
    assert lacuna("import", "screen", "old", "--genes", "genes.tsv", "--samples", SPEC).returncode == 0
    before = json.loads(lacuna("info", "old", "--json").stdout)
    assert "aliases" not in before["nodes"][0]
    done = lacuna("info", "old", "--gene", "VPS8")
    assert done.returncode == 1 and "there is no gene 'VPS8'" in done.stderr
    done = lacuna("import", "names", "old", "genes.tsv,alias=name")
    assert done.returncode == 0 and "old: 10 new names for its 10 genes" in done.stdout, done.stderr
    write("more.csv", "gene;alias\nVPS8;VPT8|VPL8\nnowhere;x\n")
    done = lacuna("import", "names", "old", "more.csv,separator=semicolon,alias-separator=|")
    assert "2 new names for its 10 genes; 1 rows are about other genes" in done.stdout, done.stderr
    assert "VPS8 (YAL002W), gene 3 of 10\nalso called VPS8, VPT8, VPL8" in lacuna("info", "old", "--gene", "vpt8").stdout
    assert "0 new names" in lacuna("import", "names", "old", "genes.tsv,alias=name").stdout
    after = json.loads(lacuna("info", "old", "--json", "--check").stdout)
    assert after["fingerprint"] == before["fingerprint"] and after["files"] == before["files"] + 1
    assert "no row is about a gene of old" in lacuna("import", "names", "old", "s.tsv,gene=y,alias=a").stderr
