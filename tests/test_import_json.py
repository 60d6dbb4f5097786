"""LMDBs of JSON records, written with the Python lmdb package, against a plain Python reading of the same records."""

import json
import random
import secrets
import zlib

import lmdb
import numpy as np
import pytest
from program import lacuna
from seeds import seed_of

GENES = [f"YAL{i:03}W" for i in range(40)]


def experiment(genes, label=0.5, label_name="gene_interaction", **changes):
    """One entry of a record's list, with unused fields around the used ones."""
    made = {
        "experiment": {
            "experiment_type": "gene interaction",
            "dataset_name": "tmi_set",
            "genotype": {
                "perturbations": [
                    {
                        "description": 'a "quoted" [text] {with} \\ everything',
                        "systematic_gene_name": gene,
                        "perturbed_gene_name": gene.lower() + "_delta",
                        "perturbation_type": "deletion",
                        "strain_id": gene + "_dma1",
                    }
                    for gene in genes
                ]
            },
            "environment": {
                "media": {"name": "SGMM", "state": "solid"},
                "temperature": {"value": 30.0, "unit": "Celsius"},
            },
            "phenotype": {
                "graph_level": "hyperedge",
                label_name: label,
                "label_name": label_name,
                "label_statistic_name": label_name + "_p_value",
                label_name + "_p_value": 0.25,
            },
        },
        "experiment_reference": {"genome_reference": {"species": "S. cerevisiae", "list": list(range(50))}},
    }
    made["experiment"].update(changes)
    return made


def write_lmdb(path, records, pack=lambda text, key: text):
    """records: {key: list or raw bytes}."""
    with lmdb.open(str(path), map_size=1 << 30) as environment, environment.begin(write=True) as transaction:
        for key, record in records.items():
            value = record if isinstance(record, bytes) else pack(json.dumps(record).encode(), key)
            transaction.put(str(key).encode(), value)
    return path


@pytest.fixture
def genes(tmp_path):
    path = tmp_path / "genes.tsv"
    path.write_text("gene\n" + "\n".join(GENES) + "\n")
    return path


def import_json(tmp_path, genes, records, *options, pack=lambda text, key: text, spec=""):
    number = secrets.token_hex(4)
    source = write_lmdb(tmp_path / f"lmdb{number}", records, pack)
    out = tmp_path / f"out{number}"
    return out, lacuna("import", "screen", out, "--genes", genes, "--json-lmdb", f"{source}{spec}", *options)


class Screen:
    def __init__(self, path):
        self.manifest = json.loads((path / "manifest.json").read_text())
        self.path = path
        self.ptr, self.flat = np.load(path / "samples/ptr.npy"), np.load(path / "samples/removed.npy")
        self.labels = np.load(path / "samples/label.npy")

    def removed(self):
        return [[GENES[g] for g in self.flat[a:b]] for a, b in zip(self.ptr, self.ptr[1:])]

    def column(self, name):
        values = np.load(self.path / f"samples/{name}.npy")
        names = [c for c in self.manifest["samples"]["columns"] if c["name"] == name][0].get("categories")
        return values if names is None else [names[v] if v < len(names) else None for v in values]

    def count(self, what):
        for source, report in self.manifest["made_by"]["report"].items():
            if what in report:
                return report[what]["count"] if isinstance(report[what], dict) else report[what]
        return 0


def screen_of(imported):
    out, done = imported
    assert done.returncode == 0, done.stderr
    return Screen(out)


def error_of(imported):
    out, done = imported
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert not (out / "manifest.json").exists()
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ")
    return lines[0]


def plain_reading(records, pack):
    """Sorted by number: removed genes (union, in order), labels by name, p, media, temperature."""
    read = []
    for key, record in sorted(records.items()):
        text = pack(json.dumps(record).encode(), key)
        entries = json.loads(zlib.decompress(text) if text[:1] == b"x" else text)
        removed, labels, statistics = [], {}, {}
        for entry in entries:
            for perturbation in entry["experiment"]["genotype"]["perturbations"]:
                if perturbation["systematic_gene_name"] not in removed:
                    removed.append(perturbation["systematic_gene_name"])
            phenotype = entry["experiment"]["phenotype"]
            labels[phenotype["label_name"]] = phenotype[phenotype["label_name"]]
            name = phenotype["label_statistic_name"]
            statistics[name] = phenotype[name]
        environment = entries[0]["experiment"]["environment"]
        read.append((key, removed, labels, statistics, environment["media"]["name"], environment["temperature"]["value"]))
    return read


PACKS = {
    "plain": lambda text, key: text,
    "zlib": lambda text, key: zlib.compress(text),
    "mixed": lambda text, key: zlib.compress(text, key % 10) if key % 3 else text,
}


@pytest.mark.parametrize("how", PACKS)
@pytest.mark.parametrize("threads", [1, 3])
def test_random_records(tmp_path, genes, how, threads):
    seed = seed_of(f"{how} {threads}")
    rng = random.Random(seed)
    records = {}
    for key in rng.sample(range(100_000), 300):  # sparse, and lexicographic order is not numeric order
        entries = []
        for label_name in rng.choice([["gene_interaction"], ["fitness"], ["fitness", "gene_interaction"]]):
            entry = experiment(rng.sample(GENES, rng.randint(1, 4)), rng.gauss(0, 1), label_name)
            entry["experiment"]["environment"] = {
                "media": {"name": "YEPD", "state": "solid"},
                "temperature": {"value": 26 + key % 3, "unit": "Celsius"},
            }
            entry["experiment"] = dict(rng.sample(list(entry["experiment"].items()), 5))
            entries.append(entry)
        records[key] = entries
    screen = screen_of(import_json(tmp_path, genes, records, "--threads", str(threads), pack=PACKS[how]))
    expected = plain_reading(records, PACKS[how])
    assert list(screen.column("key")) == [e[0] for e in expected]
    assert screen.removed() == [e[1] for e in expected]
    names = screen.manifest["samples"]["labels"]
    assert sorted(names) == ["fitness", "gene_interaction"]
    for place, name in enumerate(names):
        labels = np.array([e[2].get(name, np.nan) for e in expected], np.float32)
        np.testing.assert_array_equal(screen.labels[:, place], labels)
        statistics = np.array([e[3].get(name + "_p_value", np.nan) for e in expected], np.float32)
        np.testing.assert_array_equal(screen.column(name + "_p_value"), statistics)
    assert screen.column("media") == [e[4] for e in expected]
    np.testing.assert_array_equal(screen.column("temperature"), [e[5] for e in expected])
    assert screen.count("records") == 300
    assert screen.manifest["made_by"]["sources"][1]["records"] == 300


def test_every_number_of_threads_gives_the_same_screen(tmp_path, genes):
    records = {key: [experiment(GENES[key % 30 : key % 30 + 3], key / 7)] for key in range(1000)}
    screens = [screen_of(import_json(tmp_path, genes, records, "--threads", n)) for n in "124"]
    assert len({json.dumps(s.manifest["files"]) for s in screens}) == 1
    assert len({s.manifest["made_by"]["sources"][1]["xxh3_of_records"] for s in screens}) == 1


def test_columns_as_recorded(tmp_path, genes):
    damp = experiment(GENES[:2])
    damp["experiment"]["genotype"]["perturbations"][1]["perturbation_type"] = "damp"
    plain = experiment(GENES[2:3], environment={"media": "YPD", "temperature": 26})
    screen = screen_of(import_json(tmp_path, genes, {1: [damp], 2: [plain], 3: [experiment(GENES[:1], environment={})]}))
    assert screen.column("perturbation_type") == ["damp+deletion", "deletion", "deletion"]
    assert screen.column("media") == ["SGMM", "YPD", None]
    assert screen.column("media_state") == ["solid", None, None]
    np.testing.assert_array_equal(screen.column("temperature"), np.array([30, 26, np.nan], np.float32))
    assert screen.column("dataset_name") == ["tmi_set"] * 3
    assert screen.column("experiment_type") == ["gene interaction"] * 3
    assert screen.count("records with perturbation type 'damp'") == 1


def test_only_wanted_perturbation_types(tmp_path, genes):
    damp = experiment(GENES[:2])
    damp["experiment"]["genotype"]["perturbations"][1]["perturbation_type"] = "damp"
    screen = screen_of(import_json(tmp_path, genes, {1: [damp], 2: [experiment(GENES[:1])]}, spec=",types=deletion"))
    assert list(screen.column("key")) == [2]
    assert screen.count("records left out: another perturbation type") == 1


def test_unknown_genes(tmp_path, genes):
    records = {5: [experiment(["YAL001W", "YXX999C"])], 6: [experiment(["YAL002W"])]}
    message = error_of(import_json(tmp_path, genes, records))
    assert "key 5: unknown gene 'YXX999C'" in message and "--unknown drop" in message
    screen = screen_of(import_json(tmp_path, genes, records, "--unknown", "drop"))
    assert screen.removed() == [["YAL002W"]]
    assert screen.count("records left out: an unknown gene") == 1


def test_missing_labels_and_non_numbers(tmp_path, genes):
    null, nan = experiment(GENES[:1], None), experiment(GENES[1:2], float("nan"))
    absent = experiment(GENES[2:3])
    del absent["experiment"]["phenotype"]["gene_interaction"]
    records = {1: [null], 2: [nan], 3: [absent], 4: [experiment(GENES[3:4], 1.0)]}
    kept = screen_of(import_json(tmp_path, genes, records))
    np.testing.assert_array_equal(kept.labels, [np.nan, np.nan, np.nan, 1])
    assert kept.count("records without a label") == 3
    dropped = screen_of(import_json(tmp_path, genes, records, "--missing-labels", "drop"))
    assert list(dropped.column("key")) == [4]
    assert "key 1: no label" in error_of(import_json(tmp_path, genes, records, "--missing-labels", "error"))
    records = {7: [experiment(GENES[:1], "high")], 8: [experiment(GENES[1:2], [1, 2])], 9: [experiment(GENES[2:3], 2)]}
    assert "key 7: label 'gene_interaction' is not a number" in error_of(import_json(tmp_path, genes, records))
    screen = screen_of(import_json(tmp_path, genes, records, "--non-numbers", "missing"))
    np.testing.assert_array_equal(screen.labels, [np.nan, np.nan, 2])
    assert screen.count("labels that are not numbers") == 2


def test_one_label_twice_in_a_record(tmp_path, genes):
    records = {3: [experiment(GENES[:2], 1.0), experiment(GENES[1:3], 2.0)]}
    assert "key 3: label 'gene_interaction' is measured several times" in error_of(import_json(tmp_path, genes, records))
    mean = screen_of(import_json(tmp_path, genes, records, "--duplicates", "mean"))
    assert mean.labels.tolist() == [1.5] and mean.removed() == [GENES[:3]]
    assert screen_of(import_json(tmp_path, genes, records, "--duplicates", "first")).labels.tolist() == [1.0]


def test_repeats_need_the_same_conditions(tmp_path, genes):
    warm = {"media": {"name": "SGMM", "state": "solid"}, "temperature": {"value": 37, "unit": "Celsius"}}
    records = {
        1: [experiment(GENES[:2], 1.0)],
        2: [experiment(GENES[:2][::-1], 3.0)],
        3: [experiment(GENES[:2], 8.0, environment=warm)],
    }
    screen = screen_of(import_json(tmp_path, genes, records, "--duplicates", "mean"))
    assert screen.labels.tolist() == [2.0, 8.0] and screen.column("repeats").tolist() == [2, 1]
    alone = screen_of(import_json(tmp_path, genes, records, "--duplicates", "mean", "--repeats-within", "nothing"))
    assert alone.labels.tolist() == [4.0]


@pytest.mark.parametrize(
    "value, words",
    [
        (json.dumps([{"experiment": {"phenotype": {"label_name": "f", "f": 1}}}]).encode(), "no genotype"),
        (json.dumps([experiment(GENES[:1], genotype={})]).encode(), "no list of perturbations"),
        (json.dumps([experiment(GENES[:1], genotype={"perturbations": [{}]})]).encode(), "no systematic_gene_name"),
        (json.dumps([experiment(GENES[:1], phenotype={"fitness": 1})]).encode(), "no label_name"),
        (json.dumps([{"other": 1}]).encode(), "has no experiment"),
        (json.dumps({"experiment": 1}).encode(), "not a list of experiments"),
        (b"[]", "an empty list"),
        (b"", "key 12: "),
        (b"\x00\x01\x02", "key 12: "),
        (json.dumps([experiment(GENES[:2])]).encode()[:-700], "key 12: not the JSON of a record"),
        (json.dumps([experiment(GENES[:2])]).encode() + b"[]", "key 12: "),
        (zlib.compress(json.dumps([experiment(GENES[:2])]).encode())[:-20], "zlib data is damaged"),
        (b"x\x9c" + bytes(100), "zlib data is damaged"),
        (zlib.compress(b'[{"experiment": {'), "key 12: not the JSON of a record"),
    ],
)
def test_broken_records(tmp_path, genes, value, words):
    records = {3: [experiment(GENES[:1])], 12: value}
    message = error_of(import_json(tmp_path, genes, records))
    assert "key 12: " in message and words in message and "broken=drop" in message
    screen = screen_of(import_json(tmp_path, genes, records, spec=",broken=drop"))
    assert list(screen.column("key")) == [3]
    assert screen.count("records left out: broken") == 1


def test_truncation_anywhere_is_an_error(tmp_path, genes):
    text = json.dumps([experiment(GENES[:2]), experiment(GENES[2:3], 1.0, "fitness")]).encode()
    cuts = {cut: text[:cut] for cut in range(0, len(text), 7)}
    screen = screen_of(import_json(tmp_path, genes, {**cuts, 10_000: text}, spec=",broken=drop"))
    assert list(screen.column("key")) == [10_000]


def test_wrong_keys_and_databases(tmp_path, genes):
    assert "key 'seven' is not a decimal number" in error_of(import_json(tmp_path, genes, {"seven": [experiment(GENES[:1])]}))
    twice = {"7": [experiment(GENES[:1])], "07": [experiment(GENES[:1])]}
    assert "key 7 is there twice" in error_of(import_json(tmp_path, genes, twice))
    assert "no samples" in error_of(import_json(tmp_path, genes, {}))
    source = write_lmdb(tmp_path / "short", {i: [experiment(GENES[:3])] * 20 for i in range(50)})
    with open(source / "data.mdb", "r+b") as file:
        file.truncate(100_000)
    done = lacuna("import", "screen", tmp_path / "o", "--genes", genes, "--json-lmdb", source)
    assert done.returncode == 1 and "cut short" in done.stderr


def tree_pages(data):
    """Where the branches (1) and leaves (2) of an LMDB begin, with pages of 4096 bytes."""
    places = range(0, len(data) - 4095, 4096)
    return [at for at in places if int.from_bytes(data[at : at + 8], "little") == at // 4096 and data[at + 10] in (1, 2)]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """300 records, some in pages of their own."""
    records = {key: [experiment(GENES[key % 30 : key % 30 + 3], key / 7)] * (1 + key % 3) for key in range(300)}
    return write_lmdb(tmp_path_factory.mktemp("whole") / "lmdb", records), records


def import_damaged(tmp_path, genes, data):
    path = tmp_path / f"damaged{secrets.token_hex(4)}.mdb"
    path.write_bytes(data)
    out = tmp_path / f"out{secrets.token_hex(4)}"
    return out, lacuna("import", "screen", out, "--genes", genes, "--json-lmdb", path, "--duplicates", "first")


def test_records_that_a_damaged_page_hides_are_counted(tmp_path, genes, database):
    data = bytearray((database[0] / "data.mdb").read_bytes())
    leaf = [at for at in tree_pages(data) if data[at + 10] == 2][1]
    entries = int.from_bytes(data[leaf + 12 : leaf + 14], "little") - 2  # where the list of its entries ends
    data[leaf + 12 : leaf + 14] = entries.to_bytes(2, "little")
    message = error_of(import_damaged(tmp_path, genes, bytes(data)))
    assert "300 entries stated, 299 found" in message and "damaged" in message and "restore it" in message


def test_damaged_databases_are_errors_and_never_crashes(tmp_path, genes, database):
    """LMDB crashes on each of them, or does not notice it."""
    seed = seed_of("damaged databases")
    rng = random.Random(seed)
    whole = (database[0] / "data.mdb").read_bytes()
    pages = tree_pages(whole)
    branch = [at for at in pages if whole[at + 10] == 1][0]
    crashing = bytearray(whole)
    crashing[branch + 12 : branch + 14] = (18).to_bytes(2, "little")  # a branch with one child
    message = error_of(import_damaged(tmp_path, genes, bytes(crashing)))
    assert "LMDB could not be read on" in message and "Aborted" in message
    for _ in range(30):
        data = bytearray(whole)
        for at in rng.choices(pages, k=3):
            data[at + rng.randrange(60)] ^= 1 << rng.randrange(8)
        out, done = import_damaged(tmp_path, genes, bytes(data))
        assert done.returncode in (0, 1), (done.returncode, done.stderr)
        if done.returncode == 0:
            assert Screen(out).count("records") == 300
        else:
            error_of((out, done))


def test_splits_refer_to_keys(tmp_path, genes):
    records = {key: [experiment([GENES[key % 40]], key)] for key in (2, 5, 10, 30, 31)}
    records[31] = [experiment(["YXX999C"])]
    split = tmp_path / "fold0.json"
    split.write_text(json.dumps({"train": [10, 2, 31], "val": [5], "test": []}))
    options = ["--split", split, "--unknown", "drop"]
    screen = screen_of(import_json(tmp_path, genes, records, *options))
    assert np.load(screen.path / "splits/fold0.npy").tolist() == [0, 1, 0, 255]
    assert screen.count("indices of rows that were left out") == 1
    assert screen.count("samples in no part") == 1
    split.write_text(json.dumps({"train": [3]}))
    assert "index 3 of part 'train' is no key of the source" in error_of(import_json(tmp_path, genes, records, *options))
    split.write_text(json.dumps({"train": [2], "test": [2]}))
    assert "index 2 is in part 'test', but" in error_of(import_json(tmp_path, genes, records, *options))
    for text in ["[1]", '{"train": 3}', '{"train": ["a"]}', '{"holdout": [2]}', '{"train": [2', ""]:
        split.write_text(text)
        assert "fold0.json: " in error_of(import_json(tmp_path, genes, records, *options)), text
