"""Windows of a recording, batch after batch, the ways a Python program usually gets them: the peers of
`lacuna bench ladder RECORDING --peers`, which starts this and shows the rows beside its own.

    python bench/recording_peers.py RECORDING --lags 33 --batch 256 --rounds 5

A Dataset of single windows over one session after another, shuffled by torch's DataLoader, frames newest first:

    memmap      numpy.load(.., mmap_mode="r"), a slice reversed and copied
    tensors     the whole movie a torch tensor in memory, a slice flipped
each without workers and with two, as bytes ("u8") and cast in the worker to (x - 127) / 255 in float32 ("f32"), as most
people write it. Everything is in the system's file cache. A line of JSON a peer: windows_per_s, the median of the rounds.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

WORKERS = (0, 2)


def fail(message):
    print(json.dumps({"error": message}), flush=True)
    raise SystemExit(1)


os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a busy machine torch's threads lose much by spinning

missing = [name for name in ("numpy", "torch") if not importlib.util.find_spec(name)]
if missing:
    names = " and ".join(missing)
    fail(f"{sys.executable} has no {names}, which the peers need; install them there, or name another Python (--python)")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Windows(Dataset):
    """One window at a time. Trials are not looked at: that costs a peer nothing."""

    def __init__(self, files, lags, kind, dtype):
        self.lags, self.kind, self.dtype = lags, kind, dtype
        self.movies = [np.load(file, mmap_mode="r") for file in files]  # [T, Y, X]
        if kind == "tensors":
            self.movies = [torch.from_numpy(np.array(movie)) for movie in self.movies]
        counts = [max(0, len(movie) - lags + 1) for movie in self.movies]
        self.first = np.concatenate([[0], np.cumsum(counts)])

    def __len__(self):
        return int(self.first[-1])

    def __getitem__(self, window):
        movie = int(np.searchsorted(self.first, window, side="right")) - 1
        begin = int(window - self.first[movie])
        frames = self.movies[movie][begin:begin + self.lags]
        if self.kind == "memmap":
            frames = torch.from_numpy(np.ascontiguousarray(frames[::-1]))
        else:
            frames = frames.flip(0)
        return frames if self.dtype == "u8" else (frames.float() - 127) / 255


def measure(dataset, batch, workers, rounds, seconds):
    loader = DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=workers, drop_last=True,
                        persistent_workers=workers > 0)

    def endless():
        while True:
            yield from loader

    batches = endless()
    for _ in range(4 + 2 * workers):  # workers have started and made their first batches
        next(batches)
    rates = []
    for _ in range(rounds):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            next(batches)
            count += 1
        rates.append(count * batch / (time.perf_counter() - start))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=pathlib.Path)
    parser.add_argument("--field", default="stim")
    parser.add_argument("--lags", type=int, default=33)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    arguments = parser.parse_args()
    files = sorted(arguments.recording.glob(f"*/*/{arguments.field}.npy"))
    if not files:
        fail(f"{arguments.recording} has no field {arguments.field}")
    torch.set_num_threads(2)
    for kind in ("memmap", "tensors"):
        for dtype in ("u8", "f32"):
            dataset = Windows(files, arguments.lags, kind, dtype)
            if len(dataset) < arguments.batch:
                fail(f"{len(dataset)} windows are fewer than a batch")
            for workers in WORKERS:
                rate = measure(dataset, arguments.batch, workers, arguments.rounds, arguments.seconds)
                print(json.dumps({"name": f"DataLoader, {kind}, {dtype}, {workers} workers", "dtype": dtype,
                                  "kind": kind, "workers": workers, "windows_per_s": rate}), flush=True)


if __name__ == "__main__":
    main()
