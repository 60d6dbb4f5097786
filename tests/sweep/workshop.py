"""What the sweep damages: a screen, a recording, stores, runs and a grid, all tiny, and the commands that read and write them.

Everything lies in one folder, and commands are called inside it with relative names; runs remember absolute ones, so each
worker makes its own. Names of what a command writes begin with "new".
"""

import dataclasses
import gzip
import json
import random
import shutil
import signal
import subprocess
import time

import lmdb

GENES = [f"g{i:02}" for i in range(30)]
MOVIE_SIZE = ["--sessions", "2", "--minutes", "0.1", "--side", "17", "--units", "3"]
CONFIG = """screen: screen
split: part
model:
  name: hetero_gin
  width: 8
  layers: 2
  features: beside
  metabolism: true
train:
  epochs: 2
  batch: 16
  warmup_steps: 2
  log_every: 1
  device: cpu
  weight_column: weight
evaluate:
  bootstrap: 20
"""
# In bf16 a record has more than half a page, and so pages of its own.
DISK = CONFIG.replace("split: part\n", "split: part\nrung: disk:bf16\nstore: store\n")
# Long enough that a signal meets it half way.
LONG = CONFIG.replace("epochs: 2", "epochs: 30").replace("bootstrap: 20", "bootstrap: 0\n  baselines: false")
# A recording: frames from its own files, from a store of floats and from one of compressed chunks.
MOVIE = """recording: movies
split: trials
rung: disk:u8
window: {lags: 3, inputs: [behavior]}
model: {channels: 2, temporal: 1, layers: 1, first_kernel: 3, behaviour_width: 2}
train: {epochs: 2, batch: 128, warmup_steps: 2, log_every: 1, device: cpu}
evaluate: {bootstrap: 5, baselines: false}
"""
MOVIE_FLOATS = MOVIE.replace("rung: disk:u8", "rung: disk:f32\nstore: floats")
MOVIE_CHUNKS = MOVIE.replace("rung: disk:u8", "rung: ram:chunks\nstore: chunks")
GAZE = "transforms:\n  gaze: {from: behavior, ops: [{columns: {take: [0, 1]}}, {difference: {}}, symlog]}\n"


@dataclasses.dataclass
class Command:
    words: list  # behind the program's name
    outputs: list = dataclasses.field(default_factory=list)  # files and directories that it writes
    is_printed: bool = False  # its result is what it prints
    # Of one file, written in one go: after a kill it is whole or not there.
    is_atomic: bool = False
    # After a kill these words succeed, with the result of before or that of after.
    between: list = None


IMPORT = ["import", "screen"]
TABLES = ["--genes", "genes.tsv,alias=name", "--network", "physical=physical.csv.gz,weight=weight", "--network",
          "binding=binding.csv,directed", "--reactions", "reactions.tsv", "--stoichiometry", "stoichiometry.tsv",
          "--features", "embedding=features.csv", "--samples",
          "samples.csv,removed=a+b,label=first+second,numbers=weight,categories=allele,split=part"]
READ = {
    "train": Command(["train", "tiny.yaml", "--out", "new-run"], ["new-run"]),
    "train (disk)": Command(["train", "disk.yaml", "--out", "new-run"], ["new-run"]),
    "train (a run's config)": Command(["train", "run/config.yaml", "--out", "new-run"], ["new-run"]),
    "train --resume": Command(["train", "--resume", "--out", "stopped"], ["stopped"]),
    "evaluate": Command(["evaluate", "run", "--out", "new-evaluation"], ["new-evaluation"]),
    "evaluate (disk)": Command(["evaluate", "disk-run", "--out", "new-evaluation"], ["new-evaluation"]),
    "predict": Command(["predict", "run", "--samples", "list.txt", "--out", "new.csv"], ["new.csv"]),
    "export": Command(["export", "run", "--embeddings", "--out", "new.npz"], ["new.npz"]),
    "explain": Command(["explain", "run", "--label", "first", "--candidates", "20"], ["run/explanation.json"]),
    "prepare": Command(["prepare", "screen", "--rung", "disk:bf16", "--out", "new-store"], ["new-store"]),
    "prepare (again)": Command(["prepare", "screen", "--rung", "disk:bf16", "--out", "store"], ["store"]),
    "verify": Command(["verify", "store", "--screen", "screen", "--all"], is_printed=True),
    "subset": Command(["subset", "screen", "new-screen", "--where", "weight<1.4"], ["new-screen"]),
    "concat": Command(["concat", "new-screen", "screen", "other"], ["new-screen"]),
    "split": Command(["split", "screen", "--name", "new", "--by", "gene", "--seed", "3"], ["screen"]),
    "split --folds": Command(["split", "screen", "--name", "new", "--by", "gene", "--folds", "3"], ["screen"]),
    "ensemble": Command(["ensemble", "run", "disk-run", "--out", "new-ensemble"], ["new-ensemble"]),
    "features": Command(["features", "screen", "--spectral", "3"], ["screen"]),
    "info SCREEN": Command(["info", "screen"], is_printed=True),
    "info SCREEN --check": Command(["info", "screen", "--check"], is_printed=True),
    "info STORE": Command(["info", "store"], is_printed=True),
    "info RUN": Command(["info", "run"], is_printed=True),
    "report": Command(["report", "run", "--out", "new.html"], ["new.html"]),
    "report GRID": Command(["report", "grid", "--out", "new.html"], ["new.html"]),
    "compare": Command(["compare", "tiny.yaml", "--seeds", "2", "--out", "grid"], ["grid"]),
    "compare (finished)": Command(["compare", "tiny.yaml", "--seeds", "1", "--out", "grid"], ["grid"]),
    "import --json-lmdb": Command([*IMPORT, "new-screen", "--genes", "genes.tsv", "--json-lmdb", "records"], ["new-screen"]),
}
READ |= {
    "train (movie)": Command(["train", "movie.yaml", "--out", "new-run"], ["new-run"]),
    "train (floats)": Command(["train", "floats.yaml", "--out", "new-run"], ["new-run"]),
    "train (chunks)": Command(["train", "chunks.yaml", "--out", "new-run"], ["new-run"]),
    "evaluate (movie)": Command(["evaluate", "movie-run", "--out", "new-evaluation"], ["new-evaluation"]),
    "predict (movie)": Command(["predict", "movie-run", "--out", "new-rates"], ["new-rates"]),
    "transform": Command(["transform", "movies", "new-movies", "--config", "gaze.yaml"], ["new-movies"]),
    "prepare (frames)": Command(["prepare", "movies", "--rung", "disk:chunks", "--out", "new-chunks"], ["new-chunks"]),
    "split (movie)": Command(["split", "movies", "--name", "new", "--seed", "3"], ["movies"]),
    "info RECORDING --check": Command(["info", "movies", "--check"], is_printed=True),
    "verify (floats)": Command(["verify", "floats", "--recording", "movies", "--all"], is_printed=True),
    "verify (chunks)": Command(["verify", "chunks", "--recording", "movies", "--all"], is_printed=True),
}
WRITE = {
    "generate": Command(["generate", "screen", "new-screen", "--size", "tiny", "--samples", "500", "--seed", "1"],
                        ["new-screen"]),
    "import (tables)": Command([*IMPORT, "new-screen", *TABLES], ["new-screen"]),
    "import --json-lmdb": READ["import --json-lmdb"],
    "import names": Command(["import", "names", "screen", "names.tsv"], ["screen"]),
    "subset": READ["subset"],
    "concat": READ["concat"],
    "split": READ["split"],
    "split --folds": READ["split --folds"],
    "features": READ["features"],
    "split --remove": Command(["split", "screen", "--name", "part", "--remove"], ["screen"]),
    "prepare": READ["prepare"],
    "prepare (more samples)": Command(["prepare", "screen", "--rung", "disk:bf16", "--out", "half"], ["half"]),
    "prepare --again": Command(["prepare", "screen", "--rung", "disk:bf16", "--out", "store", "--again"], ["store"]),
    "train": Command(["train", "tiny.yaml", "--resume", "--out", "new-run"], ["new-run"]),
    "train --resume": READ["train --resume"],
    "evaluate": Command(["evaluate", "run", "--checkpoint", "last"], ["run/evaluation.json", "run/predictions"],
                        between=["report", "run", "--out", "new.html"]),
    "compare": READ["compare"],
    "predict": dataclasses.replace(READ["predict"], is_atomic=True),
    "predict (npz)": Command(["predict", "run", "--samples", "list.txt", "--out", "new.npz"], ["new.npz"], is_atomic=True),
    "export": dataclasses.replace(READ["export"], is_atomic=True),
    "explain": dataclasses.replace(READ["explain"], between=["report", "run", "--out", "new.html"]),
    "report": dataclasses.replace(READ["report"], is_atomic=True),
    "profile": Command(["profile", "tiny.yaml", "--steps", "3", "--out", "new-profile"], ["new-profile"]),
}
WRITE |= {
    "generate (movie)": Command(["generate", "recording", "new-movies", *MOVIE_SIZE, "--seed", "9"], ["new-movies"]),
    "import (movie)": Command(["import", "recording", "new-movies", "arrays", "--rate", "120"], ["new-movies"]),
    "transform": READ["transform"],
    "prepare (frames)": READ["prepare (frames)"],
    "prepare --again (frames)": Command(["prepare", "movies", "--rung", "disk:f32", "--out", "floats", "--again"], ["floats"]),
    "train (movie)": Command(["train", "movie.yaml", "--resume", "--out", "new-run"], ["new-run"]),
}

OF_SCREEN = ["train", "train (disk)", "train --resume", "evaluate", "predict", "export", "explain", "prepare", "subset", "concat",
             "split", "features", "info SCREEN", "info SCREEN --check", "verify", "report", "compare"]
OF_STORE = ["train (disk)", "evaluate (disk)", "verify", "info STORE", "prepare (again)"]
OF_RUN = ["evaluate", "predict", "export", "explain", "info RUN", "report"]
OF_CHECKPOINT = ["evaluate", "predict", "export", "explain", "train --resume"]
OF_GRID = ["compare", "compare (finished)", "report GRID"]
OF_MOVIE = ["train (movie)", "evaluate (movie)", "predict (movie)", "transform", "prepare (frames)", "split (movie)",
            "info RECORDING --check"]
# What can be damaged: which files, and the commands that read them.
KINDS = {
    "screen: manifest": ("screen/manifest.json", OF_SCREEN),
    "screen: names": ("screen/nodes/*.txt", OF_SCREEN),
    "screen: features": ("screen/nodes/*.npy", OF_SCREEN),
    "screen: edges": ("screen/edges/*.npy", OF_SCREEN),
    "screen: removed": ("screen/samples/removed.npy", OF_SCREEN),
    "screen: ptr": ("screen/samples/ptr.npy", OF_SCREEN),
    "screen: labels": ("screen/samples/label.npy", OF_SCREEN),
    "screen: columns": ("screen/samples/[!rpl]*.npy", OF_SCREEN),
    "screen: splits": ("screen/splits/*.npy", OF_SCREEN),
    "store: manifest": ("store/manifest.json", OF_STORE),
    "store: data": ("store/data.mdb", OF_STORE),
    "store: pages": ("store/pages.npy", OF_STORE),
    "run: run.json": ("run/run.json", OF_RUN),
    "run: config": ("run/config.yaml", [*OF_RUN, "train (a run's config)"]),
    "run: metrics": ("run/metrics.jsonl", ["report", "info RUN"]),
    "run: split": ("run/split.safetensors", ["evaluate", "report"]),
    "run: checkpoints": ("run/checkpoints/*", OF_CHECKPOINT[:-1]),
    "run: evaluation": ("run/evaluation.json", ["report", "info RUN"]),
    "run: predictions": ("run/predictions/*", ["report", "info RUN"]),
    "run: profile": ("run/profile.json", ["report"]),
    "run: explanation": ("run/explanation.json", ["report", "info RUN"]),
    "stopped run: all": ("stopped/[!l]*", ["train --resume"]),
    "stopped run: checkpoints": ("stopped/checkpoints/*", ["train --resume"]),
    "grid: compare.json": ("grid/compare.json", OF_GRID),
    "grid: summary": ("grid/summary.*", OF_GRID),
    "grid: its runs": ("grid/*/*", OF_GRID),
    "grid: predictions": ("grid/*/predictions/*", OF_GRID),
    "records": ("records/data.mdb", ["import --json-lmdb"]),
    "movie: manifest": ("movies/manifest.json", [*OF_MOVIE, "train (chunks)", "verify (floats)"]),
    "movie: frames": ("movies/m*/*/stim.npy", [*OF_MOVIE, "train (chunks)", "verify (chunks)"]),
    "movie: checksums": ("movies/m*/*/*.check.npy", OF_MOVIE),
    "movie: rows with NaN": ("movies/m*/*/*.nan.npy", OF_MOVIE),
    "movie: other fields": ("movies/m*/*/[!s]*[!kn].npy", OF_MOVIE),
    "movie: splits": ("movies/splits/*.npy", OF_MOVIE),
    "floats: manifests": ("floats/**/manifest.json", ["train (floats)", "verify (floats)"]),
    "floats: frames": ("floats/*/*/*.npy", ["train (floats)", "verify (floats)"]),
    "chunks: manifests": ("chunks/**/*.json", ["train (chunks)", "verify (chunks)"]),
    "chunks: shards": ("chunks/*/*/*.zarr/c/**/*", ["train (chunks)", "verify (chunks)"]),
    "movie run: all": ("movie-run/[!lf]*", ["evaluate (movie)", "predict (movie)"]),
    "movie run: checkpoints": ("movie-run/checkpoints/*", ["evaluate (movie)", "predict (movie)"]),
}
# Somebody else's files have no checksum: another number in them is other data. What is counted are samples.
FOREIGN = {"records"}


def write_tables(folder, rng):
    write = lambda name, rows: (folder / name).write_text("".join(row + "\n" for row in rows))
    write("genes.tsv", ["gene\tname", *(f"{gene}\t{gene.upper()}" for gene in GENES)])
    write("names.tsv", ["gene\talias", *(f"{gene}\tother-{gene}" for gene in GENES)])
    pairs = sorted({tuple(sorted(rng.sample(GENES, 2))) for _ in range(1000)})
    with gzip.open(folder / "physical.csv.gz", "wt") as file:
        file.write("source,target,weight\n" + "".join(f"{a},{b},{rng.random():.3f}\n" for a, b in pairs))
    write("binding.csv", ["source,target", *(",".join(rng.sample(GENES, 2)) for _ in range(600))])
    write("reactions.tsv", ["reaction\trule", "R1\tg00 and g01", "R2\tg02 or (g03 and g04)", "R3\t"])
    write("stoichiometry.tsv", ["reaction\tmetabolite\tcoefficient", "R1\tm1\t-1", "R1\tm2\t1", "R2\tm2\t-2", "R3\tm1\t1"])
    write("features.csv", ["gene,x,y", *(f"{gene},{rng.random():.3f},{rng.random():.3f}" for gene in GENES)])
    for name in ("samples.csv", "others.csv"):
        write(name, ["a,b,first,second,weight,allele,part", *sample_rows(rng)])
    write("list.txt", [",".join(rng.sample(GENES, 2)) for _ in range(20)])


def sample_rows(rng, count=60):
    for number in range(count):
        a, b = rng.sample(range(len(GENES)), 2)
        second = "" if number % 7 == 0 else f"{a * b / 50 + rng.gauss(0, 1):.3f}"
        part = ["train", "train", "train", "validation", "test"][number % 5]
        yield (f"{GENES[a]},{GENES[b]},{a - b + rng.gauss(0, 1):.3f},{second},{rng.uniform(0.5, 2):.3f},"
               f"{rng.choice(['ts', 'ko', ''])},{part}")


def write_records(folder, rng, count=60):
    """An LMDB of JSON records, some large enough for pages of their own, written in three transactions."""
    with lmdb.open(str(folder / "records"), map_size=1 << 24) as environment:
        for first in range(0, count, count // 3):
            with environment.begin(write=True) as transaction:
                for key in range(first, first + count // 3):
                    transaction.put(str(key).encode(), json.dumps(record(rng)).encode())
    (folder / "records" / "lock.mdb").unlink(missing_ok=True)


def record(rng):
    genes = rng.sample(GENES, 2)
    phenotype = {"label_name": "fitness", "fitness": rng.gauss(0, 1), "padding": "x" * rng.choice([0, 50, 5000])}
    return [{"experiment": {
        "experiment_type": "e", "dataset_name": "d", "phenotype": phenotype,
        "genotype": {"perturbations": [{"systematic_gene_name": g, "perturbation_type": "t"} for g in genes]},
        "environment": {"media": {"name": "m", "state": "solid"}, "temperature": {"value": 30, "unit": "C"}}}}]


def build(folder, program, timeout=300):
    """Makes all of it, always the same."""
    rng = random.Random(1)
    folder.mkdir(parents=True)
    write_tables(folder, rng)
    write_records(folder, rng)
    for name, text in (("tiny.yaml", CONFIG), ("disk.yaml", DISK), ("long.yaml", LONG), ("movie.yaml", MOVIE),
                       ("floats.yaml", MOVIE_FLOATS), ("chunks.yaml", MOVIE_CHUNKS), ("gaze.yaml", GAZE)):
        (folder / name).write_text(text)

    def succeed(*words):
        done = subprocess.run([str(program), *words], cwd=folder, capture_output=True, text=True, timeout=timeout)
        if done.returncode != 0:
            raise SystemExit(f"error: the sweep could not be prepared: lacuna {' '.join(words)}\n{done.stdout}{done.stderr}")

    succeed(*IMPORT, "screen", *TABLES)
    succeed(*IMPORT, "other", *(word.replace("samples.csv", "others.csv") for word in TABLES))
    succeed("prepare", "screen", "--rung", "disk:bf16", "--out", "store")
    succeed("prepare", "screen", "--rung", "disk:bf16", "--out", "half", "--samples", "0:30")
    succeed("train", "tiny.yaml", "--out", "run")
    succeed("profile", "tiny.yaml", "--steps", "3", "--out", "run")
    succeed("explain", "run", "--label", "first", "--candidates", "20")
    succeed("train", "disk.yaml", "--out", "disk-run")
    succeed("compare", "tiny.yaml", "--seeds", "1", "--out", "grid")
    succeed("generate", "recording", "movies", *MOVIE_SIZE, "--seed", "5")
    succeed("split", "movies", "--name", "trials", "--seed", "1")
    succeed("prepare", "movies", "--rung", "disk:f32", "--out", "floats")
    succeed("prepare", "movies", "--rung", "disk:chunks", "--out", "chunks")
    succeed("train", "movie.yaml", "--out", "movie-run")
    (folder / "arrays").mkdir()
    for file in sorted((folder / "movies" / "m1_000" / "images").glob("[!.]*.npy")):
        if file.name.count(".") == 1 and file.stem != "dfs":  # which is packed
            shutil.copy(file, folder / "arrays" / file.name)
    stop_half_way(folder, program)


def stop_half_way(folder, program):
    """A run that a signal ended: what `train --resume` goes on with."""
    metrics = folder / "stopped" / "metrics.jsonl"
    process = subprocess.Popen([str(program), "train", "long.yaml", "--out", "stopped"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 12):
        if process.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    if process.wait(120) != 75:
        raise SystemExit("error: the sweep could not be prepared: no run was stopped half way")
