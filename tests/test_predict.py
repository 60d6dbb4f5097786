"""`lacuna predict` and `lacuna export`, against `lacuna evaluate`, NumPy and the checkpoint itself."""

import csv
import itertools
import json
import os
import re
import signal

import numpy
import pytest

from program import BUILD, Started, fail, new_screen, succeed

pytestmark = pytest.mark.skipif(not (BUILD / "liblacuna_torch.so").exists(), reason="a build without torch")
CONFIG = """
screen: {screen}
split: random
model: {model}
train: {{epochs: 2, batch: 16, device: cpu, warmup_steps: 5, seed: 3}}
evaluate: {{parts: [validation, test], baselines: false, bootstrap: 0}}
"""
GIN = "{name: hetero_gin, width: 8, layers: 2, dropout: 0.1}"
MLP = "{name: mlp, width: 8}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    new_screen(folder / "screen", seed=5)
    return folder


def train(folder, name, model):
    (folder / f"{name}.yaml").write_text(CONFIG.format(screen=folder / "screen", model=model))
    succeed("train", folder / f"{name}.yaml", "--out", folder / name)
    return folder / name


@pytest.fixture(scope="module")
def run(folder):
    return train(folder, "gin", GIN)


@pytest.fixture(scope="module")
def genes(folder):
    return (folder / "screen/nodes/gene.txt").read_text().split()


def samples_of(folder, numbers):
    """The removed genes of samples, by index."""
    removed = numpy.load(folder / "screen/samples/removed.npy")
    ptr = numpy.load(folder / "screen/samples/ptr.npy")
    return [removed[ptr[s] : ptr[s + 1]] for s in numbers]


def read_csv(path):
    """Names of the genes of each line, and its numbers [S, L]."""
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    width = sum(re.fullmatch(r"gene_\d+", column) is not None for column in head)
    return [tuple(filter(None, row[:width])) for row in rows], numpy.array([row[width:] for row in rows], "f4")


@pytest.fixture(scope="module")
def pairs(folder, run):
    """Every pair, as (names, predictions)."""
    succeed("predict", run, "--all-pairs", "--out", folder / "pairs.csv")
    return read_csv(folder / "pairs.csv")


def test_listed_samples_are_predicted_as_evaluate_does(folder, run, genes):
    numbers = numpy.load(run / "predictions/test.sample.npy")
    expected = numpy.load(run / "predictions/test.predicted.npy")
    assert len(numbers) > 5
    names = [[genes[gene] for gene in sample] for sample in samples_of(folder, numbers)]
    (folder / "samples.csv").write_text("".join(",".join(sample) + "\n" for sample in names))
    checkpoint = json.loads((run / "evaluation.json").read_text())["checkpoint"]
    for out in ("listed.csv", "listed.npz"):
        succeed("predict", run, "--samples", folder / "samples.csv", "--checkpoint", checkpoint, "--batch", 7,
                "--out", folder / out)  # fmt: skip
    found, predicted = read_csv(folder / "listed.csv")
    assert [set(sample) for sample in found] == [set(sample) for sample in names]
    assert numpy.abs(predicted - expected).max() <= 1e-6 * numpy.abs(expected).max()
    arrays = numpy.load(folder / "listed.npz", mmap_mode="r")
    assert (arrays["predictions"] == predicted).all()
    assert arrays["labels"].tolist() == ["gene_interaction"]


def test_all_pairs(folder, run, genes, pairs):
    names, predicted = pairs
    assert names == list(itertools.combinations(genes, 2))
    assert predicted.shape == (40 * 39 // 2, 1)
    assert numpy.isfinite(predicted).all() and predicted.std() > 0
    succeed("predict", run, "--all-pairs", "--out", folder / "pairs.npz")
    arrays = numpy.load(folder / "pairs.npz")
    assert sorted(arrays.files) == ["gene_names", "genes", "labels", "predictions"]
    assert [tuple(row) for row in arrays["gene_names"][arrays["genes"]].tolist()] == names
    assert (arrays["predictions"] == predicted).all()
    assert arrays["gene_names"].tolist() == [*genes, ""]


def test_pairs_are_predicted_as_listed(folder, run, genes, pairs):
    """Another order, another batch, other genes beside them: the same numbers."""
    chosen = numpy.random.default_rng(1).permutation(len(pairs[0]))[:50]
    lines = [" ".join(reversed(pairs[0][i])) for i in chosen]
    (folder / "mixed.txt").write_text("\n".join(["# pairs", *lines, "-", genes[3], "\t".join(genes[:5])]))
    succeed("predict", run, "--samples", folder / "mixed.txt", "--out", folder / "mixed.npz")
    arrays = numpy.load(folder / "mixed.npz")
    assert arrays["genes"].shape == (53, 5)
    names = [tuple(filter(None, row)) for row in arrays["gene_names"][arrays["genes"]].tolist()]
    assert names == [*(tuple(line.split()) for line in lines), (), (genes[3],), tuple(genes[:5])]
    assert arrays["predictions"][:50] == pytest.approx(pairs[1][chosen], rel=1e-6, abs=1e-6)


def test_a_prediction_has_the_same_bits_in_every_batch(folder, run, genes):
    """On the CPU: alone, beside samples that remove other numbers of genes, with one thread and with two."""
    lines = [" ".join(genes[i : i + i % 5]) or "-" for i in range(33)]
    (folder / "sizes.txt").write_text("\n".join(lines))
    written = []
    for batch, threads in ((1, 1), (7, 2), (64, 1), (64, 2)):
        succeed("predict", run, "--samples", folder / "sizes.txt", "--batch", batch, "--out", folder / "sizes.npz",
                env={**os.environ, "OMP_NUM_THREADS": str(threads)})  # fmt: skip
        written.append(numpy.load(folder / "sizes.npz")["predictions"].tobytes())
        (folder / "sizes.npz").unlink()
    assert len(set(written)) == 1


def test_what_it_wrote_is_a_list_of_samples(folder, run, genes):
    (folder / "few.txt").write_text("\n".join([" ".join(genes[:3]), "-", genes[5], " ".join(genes[7:9])]))
    succeed("predict", run, "--samples", folder / "few.txt", "--out", folder / "first.csv")
    succeed("predict", run, "--samples", folder / "first.csv", "--out", folder / "second.csv")
    assert len(read_csv(folder / "first.csv")[0]) == 4
    assert (folder / "second.csv").read_text() == (folder / "first.csv").read_text()


def test_pairs_with_given_genes_from_a_list_without_the_measured(folder, run, genes, pairs):
    """Against all pairs: the same numbers of those that are asked for, and no others."""
    predicted = {frozenset(names): value for names, value in zip(*pairs)}
    (folder / "list.txt").write_text("\n".join(genes[10:20]))
    out = folder / "with.csv"
    succeed("predict", run, "--all-pairs-with", f"{genes[1]},{genes[2]}", "--genes", folder / "list.txt", "--out", out)
    names, values = read_csv(out)
    assert names == [(genes[a], genes[b]) for a in (1, 2) for b in range(10, 20)]
    assert values.ravel() == pytest.approx([predicted[frozenset(pair)].item() for pair in names], rel=1e-6, abs=1e-6)
    succeed("predict", run, "--all-pairs-with", genes[5], "--out", folder / "five.csv")
    assert len(read_csv(folder / "five.csv")[0]) == 39

    # All samples of this screen remove three genes: the unmeasured triples with one are the rest.
    given = samples_of(folder, range(len(numpy.load(folder / "screen/samples/ptr.npy")) - 1))
    triples = {frozenset(genes[g] for g in sample) for sample in given if len(set(sample)) == 3}
    gene = genes[given[0][0]]
    said = succeed("predict", run, "--all-triples-with", gene, "--unmeasured", "--out", folder / "unmeasured.csv")
    left = {frozenset(sample) for sample in read_csv(folder / "unmeasured.csv")[0]}
    every = {frozenset((gene, a, b)) for a, b in itertools.combinations([g for g in genes if g != gene], 2)}
    assert left == every - triples and len(left) < len(every) and f"{len(left)} unmeasured samples" in said
    (folder / "known.txt").write_text(" ".join(genes[g] for g in given[0]))
    words = ("predict", run, "--samples", folder / "known.txt", "--unmeasured", "--out", folder / "none.csv")
    assert "the screen has them all" in fail(*words)


@pytest.mark.parametrize("lowest", [False, True])
def test_top_is_a_sort_of_all(folder, run, pairs, lowest):
    words = succeed("predict", run, "--all-pairs", "--top", 25, *(["--lowest"] if lowest else []),
                    "--out", folder / "top.csv")  # fmt: skip
    assert f"the 25 {'lowest' if lowest else 'highest'} of 780 samples" in words
    names, predicted = read_csv(folder / "top.csv")
    values = pairs[1][:, 0]
    order = numpy.argsort(values if lowest else -values, kind="stable")[:25]
    assert names == [pairs[0][i] for i in order]
    assert (predicted[:, 0] == values[order]).all()


def test_all_triples(folder, run, genes):
    succeed("predict", run, "--all-triples-with", genes[7], "--out", folder / "one.csv")
    others = [gene for gene in genes if gene != genes[7]]
    assert read_csv(folder / "one.csv")[0] == [(genes[7], *two) for two in itertools.combinations(others, 2)]
    succeed("predict", run, "--all-triples-with", f"{genes[7]},{genes[2]}", "--out", folder / "two.csv")
    others.remove(genes[2])
    names, predicted = read_csv(folder / "two.csv")
    assert names == [(genes[7], genes[2], gene) for gene in others]
    one = dict(zip(*[[frozenset(n) for n in read_csv(folder / "one.csv")[0]], read_csv(folder / "one.csv")[1]]))
    assert predicted == pytest.approx(numpy.array([one[frozenset(n)] for n in names]), rel=1e-6, abs=1e-6)


def test_checkpoints(folder, run, genes):
    ask = ("predict", run, "--all-triples-with", f"{genes[1]},{genes[2]}", "--out", folder / "checkpoint.csv")
    for name in ("last", "best_mse"):
        assert f"checkpoint {name} " in succeed(*ask, "--checkpoint", name)
    assert "no checkpoint 'best'" in fail(*ask, "--checkpoint", "best")


def test_mistakes(folder, run, genes):
    out = ("--out", folder / "x.csv")
    (folder / "bad.txt").write_text(f"{genes[0]}\n{genes[1]} {genes[2]}x\n")
    words = fail("predict", run, "--samples", folder / "bad.txt", *out)
    assert f"bad.txt:2: there is no gene '{genes[2]}x'; did you mean '{genes[2]}'?" in words
    assert "there is no gene 'nobody'" in fail("predict", run, "--all-triples-with", "nobody", *out)
    assert "one gene or two" in fail("predict", run, "--all-triples-with", ",".join(genes[:3]), *out)
    for arguments in ([], ["--all-pairs", "--samples", folder / "bad.txt"]):
        assert "is needed" in fail("predict", run, *arguments, *out, code=2)
    assert "--lowest goes with --top" in fail("predict", run, "--all-pairs", "--lowest", *out, code=2)
    assert "did you mean 'gene_interaction'" in fail("predict", run, "--all-pairs", "--top", 3, "--by", "gene", *out)
    assert ".csv or .npz" in fail("predict", run, "--all-pairs", "--out", folder / "x.txt", code=2)
    assert "none/x.csv" in fail("predict", run, "--all-pairs", "--out", folder / "none" / "x.csv")
    assert not list(folder.glob("x.*"))


def test_export(folder, run, genes):
    succeed("export", run, "--embeddings", "--out", folder / "embeddings.npz")
    arrays = numpy.load(folder / "embeddings.npz")
    assert arrays["gene_names"].tolist() == genes
    assert arrays["genes"].shape == (40, 8) and arrays["genes"].dtype == numpy.float32
    numbers = numpy.load(run / "predictions/test.sample.npy")
    assert (arrays["samples"] == numbers).all()
    assert arrays["pooled"].shape == (len(numbers), 8)
    assert numpy.isfinite(arrays["pooled"]).all() and arrays["pooled"].std(axis=0).max() > 0
    succeed("export", run, "--embeddings", "--part", "all", "--out", folder / "all.npz")
    everything = numpy.load(folder / "all.npz")
    assert (everything["samples"] == numpy.arange(200)).all()
    assert everything["pooled"][numbers] == pytest.approx(arrays["pooled"], rel=1e-5, abs=1e-6)
    assert everything["genes"] == pytest.approx(arrays["genes"], rel=1e-5, abs=1e-6)


def read_safetensors(path, name):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])[name]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    return numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])


def test_export_is_what_the_checkpoint_holds(folder):
    """The network without a graph has its table as gene vectors, and pools by their sum."""
    run = train(folder, "mlp", MLP)
    succeed("export", run, "--embeddings", "--part", "all", "--checkpoint", "last", "--out", folder / "mlp.npz")
    arrays = numpy.load(folder / "mlp.npz")
    table = read_safetensors(run / "checkpoints/last.safetensors", "table")
    assert (arrays["genes"] == table).all()
    pooled = [table[numpy.unique(sample)].sum(axis=0) for sample in samples_of(folder, range(200))]
    assert arrays["pooled"] == pytest.approx(numpy.array(pooled), rel=1e-5, abs=1e-6)


def test_several_labels(folder):
    """All are predicted; --top must know which one it is about."""
    random = numpy.random.default_rng(2)
    names = [f"g{i}" for i in range(12)]
    edges = [(a, b) for a, b in itertools.combinations(names, 2) if random.random() < 0.4]
    (folder / "genes.tsv").write_text("gene\n" + "\n".join(names) + "\n")
    (folder / "n.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in edges))
    rows = [(*random.choice(names, 2, replace=False), *random.normal(size=2)) for _ in range(80)]
    (folder / "s.tsv").write_text("a\tb\ty\tz\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    succeed("import", "screen", folder / "two", "--genes", folder / "genes.tsv", "--network", f"n={folder / 'n.tsv'}",
            "--samples", f"{folder / 's.tsv'},removed=a+b,label=y+z")  # fmt: skip
    succeed("split", folder / "two", "--name", "random", "--by", "random", "--seed", 1)
    (folder / "two.yaml").write_text(CONFIG.format(screen=folder / "two", model=MLP))
    succeed("train", folder / "two.yaml", "--out", folder / "two-run")
    ask = ("predict", folder / "two-run", "--all-pairs", "--out", folder / "two.csv")
    succeed(*ask)
    pairs, predicted = read_csv(folder / "two.csv")
    assert predicted.shape == (66, 2)
    assert "y, z; say with --by" in fail(*ask, "--top", 5, code=2)
    succeed(*ask, "--top", 5, "--by", "z")
    names, best = read_csv(folder / "two.csv")
    order = numpy.argsort(-predicted[:, 1], kind="stable")[:5]
    assert names == [pairs[i] for i in order] and (best == predicted[order]).all()


def test_another_screen_needs_no_split_to_predict(folder, run, pairs):
    succeed("generate", "screen", folder / "unsplit", "--size", "tiny", "--seed", 5)
    succeed("predict", run, "--all-pairs", "--screen", folder / "unsplit", "--out", folder / "unsplit.csv")
    names, predicted = read_csv(folder / "unsplit.csv")
    assert names == pairs[0] and (predicted == pairs[1]).all()
    assert "no split 'random'" in fail("evaluate", run, "--screen", folder / "unsplit", "--out", folder / "evaluated")
    assert "--screen" in fail("predict", run, "--all-pairs", "--screen", folder / "gone", "--out", folder / "gone.csv")


def test_a_signal_leaves_nothing(folder, run, genes):
    many = "\n".join(" ".join(pair) for pair in itertools.permutations(genes, 3))
    (folder / "many.txt").write_text(many)
    predicting = Started("predict", run, "--samples", folder / "many.txt", "--batch", 1, "--out", folder / "stopped.npz",
                         is_nice=False)  # fmt: skip
    assert predicting.wait_for(lambda: list(folder.glob("stopped.npz.*.tmp")))
    assert predicting.end(signal.SIGTERM) == 1 and "stopped after" in predicting.errors
    assert not list(folder.glob("stopped*"))


# ---- shards
@pytest.mark.parametrize("top", [(), ("--top", 30), ("--top", 7, "--lowest")])
def test_shards_are_put_together(run, tmp_path, top):
    whole = tmp_path / "whole.csv"
    succeed("predict", run, "--all-pairs", *top, "--out", whole)
    parts = [tmp_path / f"part{i}.csv" for i in (1, 2, 3)]
    for number, part in enumerate(parts, start=1):
        succeed("predict", run, "--all-pairs", *top, "--shard", f"{number}/3", "--out", part)
    if not top:  # what a shard is, a head, and its part of the 780 pairs
        assert [len(part.read_text().splitlines()) - 2 for part in parts] == [260, 260, 260]
    merged = tmp_path / "merged.csv"
    succeed("predict", "--merge", parts[1], parts[2], parts[0], *top, "--out", merged)  # they know their order
    assert merged.read_text() == whole.read_text()
    # A part is a list of samples as any prediction.
    succeed("predict", run, "--samples", parts[1], "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines() == parts[1].read_text().splitlines()[1:]


def test_wrong_shards(run, tmp_path):
    assert "'0/2' is no shard" in fail("predict", run, "--all-pairs", "--shard", "0/2", "--out", tmp_path / "x.csv", code=2)
    assert "no RUN" in fail("predict", "--all-pairs", "--out", tmp_path / "x.csv", code=2)
    (tmp_path / "c.csv").write_text("name\nA\n")
    assert "is no file that `lacuna predict` wrote" in fail("predict", "--merge", tmp_path / "c.csv", "--out", tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()


def test_merge_notices_what_is_missing(run, tmp_path):
    out = tmp_path / "x.csv"

    def part(name, shard, *words):
        path = tmp_path / name
        succeed("predict", run, *(words or ["--all-pairs"]), "--shard", shard, "--out", path)
        return path

    def refused(*words, code=1):
        said = fail("predict", "--merge", *words, "--out", out, code=code)
        assert not out.exists()
        return said

    parts = [part(f"{i}.csv", f"{i}/3") for i in (1, 2, 3)]
    assert "shard 2/3 is missing: 2 of 3 files are named" in refused(parts[0], parts[2])
    assert "shard 3/3 is missing" in refused(parts[1], parts[0])
    assert "shard 2/3 is missing" in refused(parts[0])
    assert f"{parts[1]} and {parts[1]} are both shard 2/3" in refused(*parts, parts[1])
    # Of something else: other samples, another number of shards, another checkpoint.
    few = part("few.csv", "2/3", "--all-pairs", "--unmeasured")
    assert f"{parts[0]} and {few} are shards of two predictions" in refused(parts[0], few, parts[2])
    of_four = part("of_four.csv", "2/4")
    assert "shards of two predictions" in refused(parts[0], of_four, parts[2])
    other = part("other.csv", "2/3", "--all-pairs", "--checkpoint", "last")
    assert "shards of two predictions" in refused(parts[0], other, parts[2])
    whole = tmp_path / "whole.csv"
    succeed("predict", run, "--all-pairs", "--out", whole)
    assert f"{whole} does not say which shard it is" in refused(parts[0], whole, parts[2])
    # --top as the shards had it: the best of all are not among fewer of each.
    best = [part(f"top{i}.csv", f"{i}/2", "--all-pairs", "--top", 5) for i in (1, 2)]
    assert "was predicted with --top 5, but --merge has no --top; say the same" in refused(*best, code=2)
    assert "but --merge has --top 9; say the same" in refused(*best, "--top", 9, code=2)
    assert "was predicted with no --top" in refused(*parts, "--top", 9, code=2)
    # Cut short, or with a first line that is no longer what was written.
    lines = parts[1].read_text().splitlines(keepends=True)
    parts[1].write_text("".join(lines[:-3]))
    assert f"{parts[1]} has 257 samples, but was written with 260; predict it again" in refused(*parts)
    parts[1].write_text("".join(['# lacuna shard {"shard":"5/3"}\n', *lines[1:]]))
    assert f"{parts[1]} is damaged: its first line does not say which shard it is" in refused(*parts)
    parts[1].write_text("".join([lines[0], lines[1].replace("gene_2", "gene_3"), *lines[2:]]))
    assert f"{parts[1]} has other columns than {parts[0]}" in refused(*parts)
