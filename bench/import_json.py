"""JSON import on one core against Python's json.loads over the same database, in one run.

    python bench/import_json.py [--records 6000] [--keep FOLDER] [--program build/lacuna]

Makes an LMDB of synthetic records of 11 to 90 KB, most of it fields that a screen has no use for, once with plain and
once with zlib values. Times, in alternation and by their best of five, in seconds of processor time:
  json.loads    for every value: json.loads, after zlib.decompress where it is compressed; nothing is kept
  lacuna        the whole program, `lacuna import screen --threads 1`: start, reading, writing the screen
"""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile
import time
import zlib

import lmdb

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENES = [f"Y{arm}{side}{number:03}{strand}" for arm in "ABCDEFGHIJKLMNOP" for side in "LR" for number in range(1, 104) for strand in "WC"]
TEXT = "Deletion of the open reading frame by homologous recombination with a marker cassette, checked by PCR. "


def make_record(rng, genes, label):
    """One experiment on three genes, filled up with what such records carry."""
    perturbations = [
        {
            "systematic_gene_name": gene,
            "perturbed_gene_name": gene.lower() + "-delta",
            "description": TEXT,
            "perturbation_type": "deletion",
            "strain_id": f"{gene}_dma{rng.randrange(9999)}",
        }
        for gene in genes
    ]
    phenotype = {"graph_level": "hyperedge", "label_name": "gene_interaction", "gene_interaction": label}
    phenotype |= {"label_statistic_name": "gene_interaction_p_value", "gene_interaction_p_value": rng.random()}
    environment = {"media": {"name": "SGMM", "state": "solid"}, "temperature": {"value": 30.0, "unit": "Celsius"}}
    experiment = {"experiment_type": "gene interaction", "dataset_name": "synthetic", "genotype": {"perturbations": perturbations}}
    experiment |= {"environment": environment, "phenotype": phenotype}
    size = rng.randrange(11_000, 90_000)
    notes, used = [], len(json.dumps(experiment))
    while used < size:
        note = {
            "strain": rng.choice(GENES),
            "plate": rng.randrange(500),
            "position": [rng.randrange(32), rng.randrange(48)],
            "colony_size": rng.gauss(450, 80),
            "description": TEXT[: rng.randrange(20, len(TEXT))],
            "replicates": [round(rng.gauss(1, 0.1), 4) for _ in range(6)],
            "flags": {"edge": rng.random() < 0.1, "contaminated": False, "comment": None},
        }
        used += len(json.dumps(note)) + 2
        notes.append(note)
    reference = {"genome_reference": {"species": "Saccharomyces cerevisiae", "strain": "S288C"}, "controls": notes}
    return json.dumps([{"experiment": experiment, "experiment_reference": reference}]).encode()


def write_databases(folder, count):
    rng = random.Random(1)
    sizes = {"plain": 0, "zlib": 0}
    (folder / "genes.tsv").write_text("gene\n" + "\n".join(GENES) + "\n")
    databases = {name: lmdb.open(str(folder / name), map_size=1 << 36) for name in sizes}
    for start in range(0, count, 500):
        transactions = {name: database.begin(write=True) for name, database in databases.items()}
        for key in range(start, min(count, start + 500)):
            text = make_record(rng, rng.sample(GENES, 3), rng.gauss(-0.01, 0.06))
            for name, value in {"plain": text, "zlib": zlib.compress(text)}.items():
                transactions[name].put(str(key).encode(), value)
                sizes[name] += len(value)
        for transaction in transactions.values():
            transaction.commit()
    for database in databases.values():
        database.close()
    return sizes


def python_loads(path):
    with lmdb.open(str(path), readonly=True, lock=False) as database, database.begin(buffers=True) as transaction:
        start = time.process_time()
        for _, value in transaction.cursor():
            json.loads(zlib.decompress(value) if value[0] == 0x78 else bytes(value))
        return time.process_time() - start


def lacuna_import(program, path, folder):
    out = folder / "screen"
    shutil.rmtree(out, ignore_errors=True)
    command = [program, "import", "screen", out, "--genes", folder / "genes.tsv", "--json-lmdb", path, "--threads", "1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the databases; kept, and used again when there")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "lacuna")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core for both
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "genes.tsv").exists():
            write_databases(folder, arguments.records)
        print(f"{'values':8}{'records':>9}{'MB':>8}{'json.loads s':>14}{'lacuna s':>10}{'ratio':>8}")
        for name in ["plain", "zlib"]:
            path = folder / name
            with lmdb.open(str(path), readonly=True, lock=False) as database, database.begin() as transaction:
                count, size = 0, 0
                for _, value in transaction.cursor():
                    count, size = count + 1, size + len(value)
            python, ours = [], []
            for _ in range(5):
                ours.append(lacuna_import(arguments.program, path, folder))
                python.append(python_loads(path))
            ratio = min(python) / min(ours)
            print(f"{name:8}{count:>9,}{size / 1e6:>8.0f}{min(python):>14.2f}{min(ours):>10.2f}{ratio:>7.1f}x")


if __name__ == "__main__":
    main()
