"""How cost grows: step time and memory against edges, genes, batch, removed genes and width, beside plain PyTorch.

    python bench/scaling.py --out docs/scaling               # all axes; minutes on a GPU
    python bench/scaling.py --axis batch,width --quick       # a small graph, to see that it works
    python bench/scaling.py --axis samples                   # time to the first batch and of a batch, 10^5 to 10^8 samples; no GPU

Every point is a random screen of its own (9 networks, all genes alike), a step of HeteroGin (3 layers, merge sum, output
global) by `lacuna bench step`, and the same step by form `shared` of step_opponents.py, the strongest that plain PyTorch
does without a compiler, until it runs out of memory. One axis moves, the others stay at yeast size. Writes
OUT-AXIS.svg and OUT-AXIS-memory.svg, and all numbers to OUT.json.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]

import numpy  # noqa: E402
import step as steps  # noqa: E402
import torch  # noqa: E402
from curves import draw  # noqa: E402

import lacuna  # noqa: E402

NETWORKS = 9
YEAST = {"edges": 2_500_000, "genes": 6_607, "batch": 28, "removed": 3, "width": 64}
SMALL = {"edges": 50_000, "genes": 1_000, "batch": 8, "removed": 3, "width": 64}  # --quick
AXES = {
    "edges": [100_000, 1_000_000, 10_000_000, 100_000_000],
    "genes": [1_000, 6_607, 20_000, 100_000, 1_000_000],
    "batch": [1, 8, 28, 64, 128, 256],
    "removed": [1, 3, 10, 100, 1_000],
    "width": [32, 64, 128, 256],
}
QUICK = {"edges": [20_000, 50_000], "genes": [500, 1_000], "batch": [1, 8], "removed": [1, 100], "width": [32, 48]}
SAMPLES = [10**5, 10**6, 10**7, 10**8]


# ---- screens
def random_networks(genes, edges, seed):
    """{name: [2, E] u32} without repeats, sorted by source."""
    random = numpy.random.default_rng(seed)
    networks = {}
    for i in range(NETWORKS):
        pairs = random.integers(0, genes * genes, int(edges / NETWORKS * 1.02) + 16, dtype=numpy.int64)
        pairs = numpy.unique(pairs)[: edges // NETWORKS]
        networks[f"network{i}"] = numpy.stack([pairs // genes, pairs % genes]).astype(numpy.uint32)
    return networks


def write_screen(path, genes, networks, samples, removed):
    random = numpy.random.default_rng(7)
    sets = [random.choice(genes, min(removed, genes), replace=False).tolist() for _ in range(samples)]
    table = {"removed": sets, "label": random.normal(size=samples).astype(numpy.float32)}
    lacuna.Screen.write(path, networks, table, genes=[f"G{i}" for i in range(genes)])
    subprocess.run([lacuna_program, "split", path, "--name", "random", "--by", "random", "--seed", "1"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip


# ---- one point
def measure(point, options, folder):
    """-> {"lacuna": {"ms", "bytes"}, "shared": ..}; a form that does not fit is left out"""
    networks = random_networks(point["genes"], point["edges"], seed=1)
    screen = folder / f"screen{len(list(folder.iterdir()))}"
    write_screen(screen, point["genes"], networks, max(2 * point["batch"], 200), point["removed"])
    call = steps.parse(["--width", str(point["width"]), "--batch", str(point["batch"]), "--steps", str(options.steps),
                        "--precision", options.precision, "--device", options.device, "--lacuna", lacuna_program])  # fmt: skip
    values, (ours,) = steps.run_lacuna(call, folder, screen, "sum", options.device)
    found = {}
    if ours["fits"]:
        found["lacuna"] = ours
        edges = [torch.from_numpy(network.astype(numpy.int64)) for network in networks.values()]
        found["shared"] = steps.run_opponent(
            "shared", call, values, "sum", edges, point["genes"], ours, options.device, steps=options.steps
        )
    return {form: {"ms": statistics.median(one["ms"]), "bytes": one["peak_bytes"]} for form, one in found.items() if one["fits"]}


def measure_axis(axis, options, folder):
    """-> [{"at": number, "lacuna": .., "shared": ..}]"""
    results = []
    for number in (QUICK if options.quick else AXES)[axis]:
        start = time.perf_counter()
        try:
            found = measure((SMALL if options.quick else YEAST) | {axis: number}, options, folder)
        except subprocess.CalledProcessError as error:
            print(f"{axis} {number:,}: {error}", flush=True)
            continue
        results.append({"at": number} | found)
        said = [f"{form} {one['ms']:.2f} ms, {one['bytes'] / 1e9:.2f} GB" for form, one in found.items()]
        print(f"{axis} {number:,}: {'; '.join(said) or 'out of memory'}  ({time.perf_counter() - start:.0f} s)", flush=True)
    return results


# ---- samples
def measure_samples(options, folder):
    """-> [{"at": samples, "first batch": {"ms"}, "a batch": {"ms"}}]: from opening a screen on, shuffled, batches of 28"""
    results = []
    for samples in SAMPLES[:2] if options.quick else SAMPLES:
        screen = folder / f"samples{samples}"
        run = lambda *words: subprocess.run([lacuna_program, *map(str, words)], check=True, capture_output=True, text=True)
        run("generate", "screen", screen, "--size", "yeast", "--samples", samples, "--seed", 1)
        opened = []
        for _ in range(5):
            start = time.perf_counter()
            loader = lacuna.Loader(screen, batch=28)
            next(iter(loader))
            opened.append((time.perf_counter() - start) * 1000)
        batches = min(len(loader), 50_000)
        start = time.perf_counter()
        for i, _ in enumerate(loader):
            if i == batches - 1:
                break
        ms = (time.perf_counter() - start) * 1000 / batches
        results.append({"at": samples, "first batch": {"ms": statistics.median(opened)}, "a batch": {"ms": ms}})
        print(f"samples {samples:,}: first batch after {statistics.median(opened):.1f} ms, a batch {ms:.4f} ms", flush=True)
    return results


# ---- pictures
def draw_axis(axis, results, out):
    forms = list(dict.fromkeys(form for result in results for form in result if form != "at"))
    for what, unit, scale in (("ms", "ms", 1), ("bytes", "GB", 1e-9)):
        lines = {form: [(r["at"], r[form][what] * scale) for r in results if what in r.get(form, {})] for form in forms}
        lines = {form: line for form, line in lines.items() if line}
        if lines:
            ending = "" if what == "ms" else "-memory"
            title = f"{'time' if what == 'ms' else 'peak memory'} against {axis}"
            draw(pathlib.Path(f"{out}-{axis}{ending}.svg"), title, axis, unit, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", default=",".join(AXES), type=lambda text: text.split(","), help=f"of {', '.join(AXES)}, samples")
    parser.add_argument("--out", default="scaling")
    parser.add_argument("--lacuna", default=str(ROOT / "build" / "lacuna"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", choices=["f32", "bf16"], help="bf16 on a GPU, f32 elsewhere unless given")
    parser.add_argument("--steps", default=7, type=int)
    parser.add_argument("--quick", action="store_true", help="a small graph and few points")
    options = parser.parse_args()
    options.precision = options.precision or ("bf16" if options.device == "cuda" else "f32")
    unknown = set(options.axis) - {*AXES, "samples"}
    if unknown:
        parser.error(f"no axis {', '.join(sorted(unknown))}; there are {', '.join(AXES)}, samples")
    global lacuna_program
    lacuna_program = options.lacuna
    everything = {"machine": steps.machine(options.device), "precision": options.precision}
    for axis in options.axis:
        with tempfile.TemporaryDirectory() as folder:
            measured = measure_samples if axis == "samples" else lambda *rest: measure_axis(axis, *rest)  # noqa: B023
            everything[axis] = measured(options, pathlib.Path(folder))
        draw_axis(axis, everything[axis], options.out)
        pathlib.Path(f"{options.out}.json").write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
