"""Predictions of a run's weights in plain PyTorch and PyG, f64, on the CPU: what `lacuna bench criteria` compares with.

    python bench/plain_predictions.py SCREEN CHECKPOINT --samples 0,1,2 --set name=hetero_gin --set width=64 ...

Reads the screen's arrays and the checkpoint with numpy, sample by sample masks the edges of the removed genes out of
the graph, and runs the models of plain_models.py, which share no line with Lacuna. A line of JSON a sample:

    {"sample": 3, "predicted": [0.12]}    standardised labels
    {"error": "..."}                      why there is none, instead of all
"""

import argparse
import importlib.util
import json
import pathlib
import sys


def fail(message):
    print(json.dumps({"error": message}), flush=True)
    raise SystemExit(1)


missing = [name for name in ("numpy", "torch", "torch_geometric") if not importlib.util.find_spec(name)]
if missing:
    names = " and ".join(missing)
    fail(f"{sys.executable} has no {names}, which plain PyTorch needs; install them there, or name another Python (--python)")

import numpy  # noqa: E402
import plain_models  # noqa: E402
import torch  # noqa: E402


def value_of(text):
    """A setting as YAML has it: a number, true, false, or a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def settings_of(words):
    settings = {key: value_of(value) for key, value in (word.split("=", 1) for word in words)}
    if settings["name"] not in plain_models.DEFAULTS:
        fail(f"there is no model {settings['name']} in plain PyTorch here; there are: {', '.join(plain_models.DEFAULTS)}")
    if settings.get("features", "none") != "none":
        fail("plain PyTorch is there with model.features none only")
    return {**settings, "dropout": 0.0}  # which only training has


def read_removed(screen, samples):
    """The removed genes of each sample."""
    genes, ptr = (numpy.load(screen / f"samples/{name}.npy") for name in ("removed", "ptr"))
    return [genes[int(ptr[s]) : int(ptr[s + 1])].astype(int).tolist() for s in samples]


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("screen", type=pathlib.Path)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--samples", required=True, type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--set", required=True, action="append", metavar="key=value", help="of the model")
    options = parser.parse_args(words)
    settings = settings_of(options.set)
    torch.set_default_dtype(torch.float64)
    screen = plain_models.Screen(options.screen)
    weights = plain_models.read_safetensors(options.checkpoint)
    # One at a time, unless a norm couples them: messages along all edges take gigabytes at yeast size.
    together = len(options.samples) if settings.get("norm") == "batch_graph" else 1
    for first in range(0, len(options.samples), together):
        samples = options.samples[first : first + together]
        with torch.no_grad():
            predicted = plain_models.predict(weights, screen, settings, read_removed(options.screen, samples))[0]
        plain_models.copies_of.cache_clear()
        for sample, values in zip(samples, predicted.tolist()):
            print(json.dumps({"sample": sample, "predicted": values}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
