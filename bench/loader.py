#!/usr/bin/env python
"""Shuffled batches of a screen: `lacuna bench loader` beside torch's DataLoader over the same arrays, in one run.

    .venv/bin/python bench/loader.py                      a synthetic screen at yeast size, made for the occasion
    .venv/bin/python bench/loader.py SCREEN --batch 256   a screen of yours

Every way gives the same thing: removed genes one after another, ptr, labels. torch's DataLoader is tried as it is usually
written (a Dataset of single samples and a collate function) and at its best (a Dataset that gathers a whole batch with
NumPy), each without workers and with two. It is stopped after a few seconds; lacuna runs whole epochs.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Samples(Dataset):
    """One sample at a time, as most people write it."""

    def __init__(self, screen):
        self.removed = np.load(screen / "samples/removed.npy")  # [ptr[S]]
        self.ptr = np.load(screen / "samples/ptr.npy")  # [S + 1]
        self.labels = np.load(screen / "samples/label.npy")  # [S] or [S, L]

    def __len__(self):
        return len(self.ptr) - 1

    def __getitem__(self, sample):
        removed = self.removed[self.ptr[sample] : self.ptr[sample + 1]]
        return torch.from_numpy(removed.astype(np.int32)), torch.as_tensor(self.labels[sample])


def collate(samples):
    removed, labels = zip(*samples)
    counts = torch.tensor([len(genes) for genes in removed])
    ptr = torch.zeros(len(samples) + 1, dtype=torch.int32)
    ptr[1:] = torch.cumsum(counts, 0)
    return torch.cat(removed), ptr, torch.stack(labels)


class WholeBatches(Samples):
    """A batch at a time: DataLoader hands the list of its samples to __getitems__."""

    def __getitems__(self, samples):
        samples = np.asarray(samples)
        begin = self.ptr[samples].astype(np.int64)
        counts = self.ptr[samples + 1] - begin
        ptr = np.zeros(len(samples) + 1, dtype=np.int32)
        np.cumsum(counts, out=ptr[1:])
        places = np.arange(ptr[-1]) + np.repeat(begin - ptr[:-1], counts)
        removed = self.removed[places].astype(np.int32)
        return torch.from_numpy(removed), torch.from_numpy(ptr), torch.from_numpy(self.labels[samples])


def as_it_is(batch):
    return batch


def time_dataloader(dataset, collate_fn, workers, batch, seconds):
    """Samples a second, over at most one epoch, from the moment the first batch is there."""
    loader = DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=workers, collate_fn=collate_fn)
    batches = iter(loader)
    next(batches)
    start = time.perf_counter()
    samples = 0
    for removed, ptr, labels in batches:
        samples += len(ptr) - 1
        if time.perf_counter() - start > seconds:
            break
    return samples / (time.perf_counter() - start)


def time_lacuna(lacuna, screen, threads, batch, epochs):
    command = [lacuna, "bench", "loader", screen, "--json", "--batch", batch, "--threads", threads, "--epochs", epochs]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)["samples_per_second"]


def measure(arguments, screen):
    plain, whole = Samples(screen), WholeBatches(screen)
    ways = []
    for workers in (0, 2):
        ways.append(("DataLoader, usual", workers, time_dataloader(plain, collate, workers, arguments.batch, arguments.seconds)))
    for workers in (0, 2):
        ways.append(("DataLoader, best", workers, time_dataloader(whole, as_it_is, workers, arguments.batch, arguments.seconds)))
    for threads in (0, 2):
        ways.append(("lacuna", threads, time_lacuna(arguments.lacuna, screen, threads, arguments.batch, arguments.epochs)))
    return len(plain), ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("screen", nargs="?", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=28)
    parser.add_argument("--seconds", type=float, default=4, help="for each DataLoader")
    parser.add_argument("--epochs", type=int, default=10, help="for lacuna")
    parser.add_argument("--lacuna", type=pathlib.Path, default=ROOT / "build/lacuna", help="the program")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.lacuna.exists():
        raise SystemExit(f"error: no program at {arguments.lacuna}; run `make build` or give --lacuna")

    with tempfile.TemporaryDirectory() as scratch:
        screen = arguments.screen
        if screen is None:
            screen = pathlib.Path(scratch) / "yeast"
            subprocess.run([arguments.lacuna, "generate", "screen", screen, "--size", "yeast"], check=True, stdout=subprocess.DEVNULL)
        samples, ways = measure(arguments, screen)

    lacuna = ways[-1][2]
    if arguments.json:
        rows = [{"way": way, "workers": workers, "samples_per_second": rate} for way, workers, rate in ways]
        print(json.dumps({"samples": samples, "batch": arguments.batch, "ways": rows}, indent=2))
        return
    print(f"{samples:,} samples, batch {arguments.batch}, shuffled; torch {torch.__version__}")
    print(f"{'':20} {'workers':>7} {'samples/s':>12} {'ms/batch':>9} {'lacuna, 2 threads':>18}")
    for way, workers, rate in ways:
        print(f"{way:20} {workers:7} {rate:12,.0f} {1000 * arguments.batch / rate:9.4f} {lacuna / rate:16,.1f} x")


if __name__ == "__main__":
    main()
