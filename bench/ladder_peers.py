"""Masks of a screen's samples, batch after batch, the ways a Python program usually gets them: the peers of
`lacuna bench ladder --peers`, which starts this and shows the rows beside its own.

    python bench/ladder_peers.py SCREEN --batch 28 --seconds 4 --folder SCRATCH

Every way ends with the masks of a shuffled batch in memory, for every node type and edge type one: bool, True where kept.

    PyG           a HeteroData a sample (edge_index shared by all of them, masks made from incidence lists), batched by
                  PyG's DataLoader: edge_index [2, B * E] int64, masks [B * E] and [B * N]
    torch         the same masks without edge_index, stacked by torch's DataLoader: [B, E] and [B, N]
    lmdb masks    a pickled dict of bool arrays a sample, read from an LMDB; stacked as above
    lmdb positions    a pickled dict of the positions that are gone, expanded on reading; stacked as above

Each runs without workers and with two. LMDB is opened for reading without locks, values are unpickled (protocol 5) from
the mapped file without a copy in between, batches are stacked in shared memory where there are workers; stores are in
the system's file cache. A line of JSON a peer:

    ms_per_batch        until a batch is there; read_ms_per_batch: until its masks have been read once too (counted)
    host_peak_bytes     memory of this process and its workers, shared memory too, on top of Python and the screen
    exact               the first batch equals masks taken from the edges one by one
    left_out            why a peer was not measured, instead of all figures
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import pathlib
import pickle
import shutil
import statistics
import sys
import time

WORKERS = (0, 2)
PREFETCH = 2  # batches ahead a worker, torch's default
ROUNDS = 5


def fail(message):
    print(json.dumps({"error": message}), flush=True)
    raise SystemExit(1)


os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a busy machine torch's threads lose much by spinning

missing = [name for name in ("numpy", "torch", "torch_geometric", "lmdb") if not importlib.util.find_spec(name)]
if missing:
    names = " and ".join(missing)
    fail(f"{sys.executable} has no {names}, which the peers need; install them there, or name another Python (--python)")

import lmdb  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset, RandomSampler  # noqa: E402
from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.loader import DataLoader as GraphLoader  # noqa: E402


# ---- the screen
class Screen:
    """Its arrays, from the files; a mask is named like its node type or edge type, in the manifest's order."""

    def __init__(self, path):
        manifest = json.loads((path / "manifest.json").read_text())
        self.removed = np.load(path / "samples/removed.npy")  # [ptr[S]]
        self.ptr = np.load(path / "samples/ptr.npy").astype(np.int64)  # [S + 1]
        self.nodes = {entry["type"]: entry["count"] for entry in manifest["nodes"]}
        keys = [(entry["source"], entry["name"], entry["target"]) for entry in manifest["edges"]]
        self.edges = {key: np.load(path / "edges" / f"{'.'.join(key)}.npy").astype(np.int64) for key in keys}  # [2, E]
        for source, _, target in self.edges:
            if (source, target) not in (("gene", "gene"), ("gene", "reaction"), ("reaction", "metabolite")):
                fail(f"edges from {source} to {target} have no rule of removal")

    def __len__(self):
        return len(self.ptr) - 1

    def genes(self, sample):
        return self.removed[self.ptr[sample] : self.ptr[sample + 1]]

    def counts(self):
        """Elements of every mask, by name."""
        return self.nodes | {".".join(key): edges.shape[1] for key, edges in self.edges.items()}


def plain_masks(screen, genes):
    """Masks from the edges one by one: what the ways below are checked by."""
    keep = {name: np.ones(count, dtype=bool) for name, count in screen.nodes.items()}
    keep["gene"][genes] = False
    for (source, _, target), (sources, targets) in screen.edges.items():
        if (source, target) == ("gene", "reaction"):
            keep["reaction"][targets[~keep["gene"][sources]]] = False
    masks = dict(keep)
    for key, (sources, targets) in screen.edges.items():
        whole = key[0] == key[2] == "gene"  # else its source decides alone
        masks[".".join(key)] = keep[key[0]][sources] & keep[key[2]][targets] if whole else keep[key[0]][sources]
    return masks


def lists_by(owners, positions, count):
    """[count] arrays: the positions that each owner has, ascending, without repeats."""
    pairs = np.unique(owners << 32 | positions)
    return np.split(pairs & 0xFFFFFFFF, np.searchsorted(pairs >> 32, np.arange(1, count)))


class Incidence:
    """Positions that go with each gene, by mask; metabolites stay."""

    def __init__(self, screen):
        genes = screen.nodes["gene"]
        self.counts = screen.counts()
        self.off = {"gene": [np.array([gene]) for gene in range(genes)]}
        rules = [edges for key, edges in screen.edges.items() if (key[0], key[2]) == ("gene", "reaction")]
        gene, reaction = np.concatenate(rules, axis=1) if rules else np.zeros((2, 0), dtype=np.int64)
        if "reaction" in screen.nodes:
            self.off["reaction"] = lists_by(gene, reaction, genes)
        for key, (sources, targets) in screen.edges.items():
            place = np.arange(len(sources))
            if key[0] == key[2] == "gene":
                lists = lists_by(np.concatenate([sources, targets]), np.concatenate([place, place]), genes)
            elif key[0] == "gene":
                lists = lists_by(sources, place, genes)
            else:
                of = lists_by(sources, place, screen.nodes["reaction"])  # by reaction
                none = np.zeros(0, dtype=np.int64)
                lists = [np.concatenate([none, *(of[r] for r in off)]) for off in self.off["reaction"]]
            self.off[".".join(key)] = lists

    def masks(self, genes):
        masks = {}
        for name, count in self.counts.items():
            mask = np.ones(count, dtype=bool)
            if name in self.off:
                for gene in genes:
                    mask[self.off[name][gene]] = False
            masks[name] = mask
        return masks


# ---- the ways
class Masks(Dataset):
    """torch: made when asked for."""

    def __init__(self, screen, incidence, folder):
        self.screen, self.incidence = screen, incidence

    def __len__(self):
        return len(self.screen)

    def __getitem__(self, sample):
        return self.incidence.masks(self.screen.genes(sample))

    def stored_bytes(self):
        return self.screen.removed.nbytes + len(self.screen.ptr) * 4

    def close(self):
        """Before workers are made: what they must not share."""

    def loader(self, **options):
        return DataLoader(self, **options)

    @staticmethod
    def masks_of(batch):
        """name -> tensor"""
        return batch


class Graphs(Masks):
    """PyG: as a graph a sample."""

    def __init__(self, screen, incidence, folder):
        super().__init__(screen, incidence, folder)
        self.edge_index = {key: torch.from_numpy(edges) for key, edges in screen.edges.items()}

    def __getitem__(self, sample):
        masks, data = super().__getitem__(sample), HeteroData()
        for name, count in self.screen.nodes.items():
            data[name].num_nodes = count
            data[name].mask = torch.from_numpy(masks[name])
        for key, edge_index in self.edge_index.items():
            data[key].edge_index = edge_index
            data[key].mask = torch.from_numpy(masks[".".join(key)])
        return data

    def loader(self, **options):
        return GraphLoader(self, **options)

    @staticmethod
    def masks_of(batch):
        return {type if isinstance(type, str) else ".".join(type): batch[type].mask
                for type in batch.node_types + batch.edge_types}  # fmt: skip


class StoredMasks(Masks):
    """lmdb masks: written once."""

    def __init__(self, screen, incidence, folder):
        super().__init__(screen, incidence, folder)
        self.folder, self.environment, self.transaction = folder, None, None
        with lmdb.open(str(folder), map_size=1 << 40, sync=False) as environment:
            for first in range(0, len(screen), 64):
                with environment.begin(write=True) as transaction:
                    for sample in range(first, min(first + 64, len(screen))):
                        masks = incidence.masks(screen.genes(sample))
                        transaction.put(self.key(sample), pickle.dumps(self.encode(masks), protocol=5))

    @staticmethod
    def key(sample):
        return int(sample).to_bytes(4, "big")

    @staticmethod
    def encode(masks):
        return masks

    def decode(self, value):
        return value

    def __getitem__(self, sample):
        if self.environment is None:  # a process opens its own
            self.environment = lmdb.open(str(self.folder), readonly=True, lock=False, map_size=1 << 40)
            self.transaction = self.environment.begin(buffers=True)
        return self.decode(pickle.loads(self.transaction.get(self.key(sample))))

    def stored_bytes(self):
        return (self.folder / "data.mdb").stat().st_blocks * 512

    def close(self):
        self.transaction = self.environment = None


class StoredPositions(StoredMasks):
    """lmdb positions: what is gone is written once."""

    @staticmethod
    def encode(masks):
        return {name: np.flatnonzero(~mask).astype(np.uint32) for name, mask in masks.items()}

    def decode(self, value):
        masks = {}
        for name, positions in value.items():
            masks[name] = np.ones(self.incidence.counts[name], dtype=bool)
            masks[name][positions] = False
        return masks


WAYS = {"PyG": Graphs, "torch": Masks, "lmdb masks": StoredMasks, "lmdb positions": StoredPositions}


# ---- measuring
def own_memory():
    """Bytes of this process and its workers; what they share counts once, mapped files do not."""
    total = 0
    for process in ["self", *(child.pid for child in multiprocessing.active_children())]:
        for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total


def bytes_of(batch):
    """Of all arrays of a batch, or of a sample."""
    stores = batch.stores if isinstance(batch, HeteroData) else [batch]
    return sum(value.nbytes for store in stores for value in store.values() if hasattr(value, "nbytes"))


def first_batch(screen, batch):
    """name -> [B * elements], by plain_masks()"""
    masks = [plain_masks(screen, screen.genes(sample)) for sample in range(batch)]
    return {name: np.concatenate([one[name] for one in masks]) for name in masks[0]}


def is_exact(dataset, batch, expected):
    masks = dataset.masks_of(next(iter(dataset.loader(batch_size=batch))))  # in the screen's order
    same = (np.array_equal(mask.numpy().reshape(-1), expected[name]) for name, mask in masks.items())
    return masks.keys() == expected.keys() and all(same)


def time_batches(batches, seconds, rounds, use=lambda batch: None):
    """-> seconds a batch: the median of rounds of at least two batches"""
    times = []
    for _ in range(rounds):
        start, count, passed = time.perf_counter(), 0, 0.0
        while passed < seconds / rounds or count < 2:
            use(next(batches))
            count += 1
            passed = time.perf_counter() - start
        times.append(passed / count)
    return statistics.median(times)


def measure(dataset, workers, options, expected, before):
    # One long epoch of many passes: nothing is waited for where one ends.
    sampler = RandomSampler(dataset, num_samples=len(dataset) << 20)
    extra = {"prefetch_factor": PREFETCH} if workers else {}
    loader = dataset.loader(batch_size=options.batch, sampler=sampler, num_workers=workers, drop_last=True, **extra)
    batches = iter(loader)
    peak, moved = 0, 0

    def look(batch):
        nonlocal peak, moved
        peak = max(peak, own_memory() - before)
        moved = bytes_of(batch)

    def read(batch):
        return sum(np.count_nonzero(mask.numpy()) for mask in dataset.masks_of(batch).values())

    time_batches(batches, options.seconds / 4, 1, look)  # also brings in pages and workers
    seconds = time_batches(batches, options.seconds, ROUNDS)
    read_seconds = time_batches(batches, options.seconds / 2, ROUNDS, read)
    return {"samples_per_s": options.batch / seconds, "ms_per_batch": 1000 * seconds,
            "read_ms_per_batch": 1000 * read_seconds,
            "stored_bytes_per_sample": dataset.stored_bytes() / len(dataset),
            "moved_bytes_per_sample": moved / options.batch, "host_peak_bytes": peak,
            "exact": is_exact(dataset, options.batch, expected)}  # fmt: skip


def lacks_shared_memory(dataset, workers, batch):
    needed, there = bytes_of(dataset[0]) * batch * (workers * PREFETCH + 2), shutil.disk_usage("/dev/shm").free
    if workers and needed > there:
        return f"needs {needed / 1e9:.1f} GB of shared memory, {there / 1e9:.1f} GB free in /dev/shm"
    return None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("screen", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=28)
    parser.add_argument("--seconds", type=float, default=4, help="for each peer, about")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="an empty folder for the stores")
    parser.add_argument("--ways", default=",".join(WAYS), type=lambda text: text.split(","))
    return parser.parse_args()


def main():
    options = parse()
    screen = Screen(options.screen)
    if len(screen) < options.batch:
        fail(f"a batch of {options.batch} samples needs more than the {len(screen)} of {options.screen}")
    expected = first_batch(screen, options.batch)
    before = own_memory()
    incidence = Incidence(screen)
    for way in options.ways:
        folder = options.folder / way.replace(" ", "-")
        dataset = WAYS[way](screen, incidence, folder)
        for workers in WORKERS:
            result = {"name": f"{way}, {workers} workers", "way": way, "workers": workers}
            lacks = lacks_shared_memory(dataset, workers, options.batch)
            dataset.close()
            result |= {"left_out": lacks} if lacks else measure(dataset, workers, options, expected, before)
            print(json.dumps(result), flush=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
