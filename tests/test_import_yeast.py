"""Real tables of S. cerevisiae import in full: counts and contents against a plain reading of the same tables.

The tables are not part of the project; LACUNA_YEAST_DATA says where they lie (default: ../shared/data/yeast beside the
checkout). Without them these tests are skipped.
"""

import csv
import gzip
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from program import PROGRAM, ROOT

DATA = pathlib.Path(os.environ.get("LACUNA_YEAST_DATA", ROOT.parent / "shared" / "data" / "yeast"))
DIRECTED = ["activation", "binding"]
WEIGHTED = ["coexpression", "cooccurence", "database", "experimental", "fusion", "neighborhood", "physical"]
SCREENS = ["costanzo2010", "collins2007"]

pytestmark = pytest.mark.skipif(
    not (DATA / "genes.tsv").exists(), reason=f"no yeast tables in {DATA}; set LACUNA_YEAST_DATA to their folder"
)


def rows_of(name):
    path = DATA / name
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def run_import(out, *more):
    done = subprocess.run(
        [ROOT / "examples" / "import_yeast.sh", DATA, out, *more],
        env={**os.environ, "LACUNA": str(PROGRAM)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def genes():
    """Systematic and common names to indices."""
    index, aliases = {}, {}
    for row in rows_of("genes.tsv"):
        index[row["gene"]] = len(index)
        aliases.setdefault(row["name"], set()).add(index[row["gene"]])
    for alias, owners in aliases.items():
        if len(owners) == 1:
            index.setdefault(alias, *owners)
    return index


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    return run_import(tmp_path_factory.mktemp("yeast") / "kept")


@pytest.fixture(scope="module")
def manifest(screen):
    return json.loads((screen / "manifest.json").read_text())


def load(screen, name):
    return np.load(screen / f"{name}.npy")


def codes_to_names(screen, manifest, column):
    names = [c for c in manifest["samples"]["columns"] if c["name"] == column][0]["categories"]
    return [names[code] for code in load(screen, f"samples/{column}")]


def test_genes(screen):
    assert (screen / "nodes/gene.txt").read_text().split() == [row["gene"] for row in rows_of("genes.tsv")]


@pytest.mark.parametrize("network", DIRECTED + WEIGHTED)
def test_networks(screen, manifest, genes, network):
    edges, unknown, repeated = {}, 0, 0
    loops = {}
    for row in rows_of(f"networks/{network}.tsv.gz"):
        u, v = genes.get(row["source"]), genes.get(row["target"])
        if u is None or v is None:
            unknown += 1
            continue
        weight = float(row.get("weight", 1))
        key = (u, v) if network in DIRECTED else (min(u, v), max(u, v))
        if key in edges or (u == v and u in loops):
            repeated += 1
        elif u == v:
            loops[u] = weight
        else:
            edges[key] = (u, v, weight)
    expected = []
    for u, v, weight in edges.values():
        expected.append((u, v, weight))
        if network not in DIRECTED:
            expected.append((v, u, weight))
    gene_count = sum(1 for _ in rows_of("genes.tsv"))
    expected += [(g, g, loops.get(g, 1)) for g in range(gene_count)]
    stored = load(screen, f"edges/gene.{network}.gene")
    assert stored.dtype == np.uint16
    np.testing.assert_array_equal(stored.T, [(u, v) for u, v, _ in expected])
    if network in WEIGHTED:
        weights = load(screen, f"edges/gene.{network}.gene.weight")
        np.testing.assert_array_equal(weights, np.array([w for _, _, w in expected], np.float32))
    path = str(DATA / f"networks/{network}.tsv.gz")
    report = manifest["made_by"]["report"][path]
    count = lambda what: report[what]["count"] if isinstance(report[what], dict) else report[what]
    assert count("rows left out: an unknown gene") == unknown
    assert count("rows that repeat an edge") == repeated
    assert count("self loops in the table") == len(loops)


def expected_samples(genes):
    samples, unknown, row_number = [], 0, 0
    for name in SCREENS:
        for row in rows_of(f"screens/{name}.tsv.gz"):
            removed = [genes.get(row["gene_a"]), genes.get(row["gene_b"])]
            if None in removed:
                unknown += 1
            else:
                samples.append((row_number, removed, name, row))
            row_number += 1
    return samples, unknown


def test_samples(screen, manifest, genes):
    samples, unknown = expected_samples(genes)
    ptr, removed = load(screen, "samples/ptr"), load(screen, "samples/removed")
    np.testing.assert_array_equal(ptr, 2 * np.arange(len(samples) + 1))
    np.testing.assert_array_equal(removed.reshape(-1, 2), [s[1] for s in samples])
    np.testing.assert_array_equal(load(screen, "samples/row"), [s[0] for s in samples])
    number = lambda cell: np.float32(cell) if cell else np.float32("nan")
    np.testing.assert_array_equal(load(screen, "samples/label"), [number(s[3]["score"]) for s in samples])
    for column in ["sd", "p"]:
        stored = load(screen, f"samples/{column}")
        expected = np.array([float(s[3][column] or "nan") for s in samples])
        np.testing.assert_array_equal(stored, expected.astype(stored.dtype))
    assert codes_to_names(screen, manifest, "screen") == [s[2] for s in samples]
    assert codes_to_names(screen, manifest, "allele_b") == [s[3]["allele_b"] for s in samples]
    report = manifest["made_by"]["report"]
    left_out = [report[str(DATA / f"screens/{n}.tsv.gz")]["rows left out: an unknown gene"] for n in SCREENS]
    assert sum(left_out) == unknown
    pairs = {(frozenset(s[1]), s[2]) for s in samples}
    assert report["all samples"]["repeated samples (--duplicates keep)"]["count"] == len(samples) - len(pairs)


def test_repeated_samples_by_mean(tmp_path, genes):
    screen = run_import(tmp_path / "mean", "--duplicates", "mean")
    groups = {}
    for row_number, removed, name, row in expected_samples(genes)[0]:
        groups.setdefault((frozenset(removed), name), []).append((row_number, float(row["score"])))
    np.testing.assert_array_equal(load(screen, "samples/row"), [g[0][0] for g in groups.values()])
    np.testing.assert_array_equal(load(screen, "samples/repeats"), [len(g) for g in groups.values()])
    means = np.array([sum(label for _, label in g) / len(g) for g in groups.values()], np.float32)
    np.testing.assert_array_equal(load(screen, "samples/label"), means)


def gene_sets(rule):
    """Alternatives of a rule, by Python's own parser: or = union of lists, and = product."""
    import ast

    def sets(node):
        if isinstance(node, ast.Name):
            return [[node.id]]
        parts = [sets(value) for value in node.values]
        if isinstance(node.op, ast.Or):
            found = sum(parts, [])
        else:
            found = [[]]
            for part in parts:
                found = [a + [g for g in b if g not in a] for a in found for b in part]
        unique = []
        for one in found:
            if not any(set(one) == set(other) for other in unique):
                unique.append(one)
        return unique

    text = re.sub(r"[^\s()]+", lambda m: m[0] if m[0] in ("and", "or") else m[0].replace("-", "__"), rule)
    found = sets(ast.parse(text, mode="eval").body) if rule.strip() else []
    return [[gene.replace("__", "-") for gene in one] for one in found]


def test_metabolism(screen, genes):
    names, rule_edges, nodes_of, bounds = [], [], {}, []
    for row in rows_of("metabolism/reactions.tsv.gz"):
        sets = gene_sets(row["grRule"]) or [[]]
        nodes_of[row["rxn"]] = range(len(names), len(names) + len(sets))
        for number, one in enumerate(sets):
            rule_edges += [(genes[gene], len(names)) for gene in one]
            names.append(row["rxn"] if len(sets) == 1 else f"{row['rxn']}#{number + 1}")
            bounds.append(float(row["lb"]))
    metabolites, entries = {}, {}
    for row in rows_of("metabolism/stoichiometry.tsv.gz"):
        metabolite = metabolites.setdefault(row["met"], len(metabolites))
        entries.setdefault(row["rxn"], []).append((metabolite, float(row["coef"])))
    edges = [(node, *entry) for rxn, nodes in nodes_of.items() for node in nodes for entry in entries.get(rxn, [])]
    assert (screen / "nodes/reaction.txt").read_text().splitlines() == names
    assert (screen / "nodes/metabolite.txt").read_text().splitlines() == list(metabolites)
    np.testing.assert_array_equal(load(screen, "edges/gene.rule.reaction").T, rule_edges)
    np.testing.assert_array_equal(load(screen, "edges/reaction.stoichiometry.metabolite").T, [e[:2] for e in edges])
    np.testing.assert_array_equal(
        load(screen, "edges/reaction.stoichiometry.metabolite.coefficient"), np.array([e[2] for e in edges], np.float32)
    )
    np.testing.assert_array_equal(load(screen, "nodes/reaction.lb"), np.array(bounds, np.float32)[:, None])


def test_features(screen, genes):
    expected = np.full((len(rows_of("genes.tsv")), 1), np.nan, np.float32)
    for row in rows_of("single_mutant_fitness.tsv.gz"):
        if row["gene"] in genes:
            expected[genes[row["gene"]]] = float(row["smf_30C_mean_over_strains"] or "nan")
    np.testing.assert_array_equal(load(screen, "nodes/gene.fitness"), expected)


def test_sources_are_named_with_their_sizes(manifest):
    sources = {source["path"]: source["bytes"] for source in manifest["made_by"]["sources"]}
    tables = [p for p in DATA.rglob("*.tsv*")]
    assert sources == {str(path): path.stat().st_size for path in tables}
