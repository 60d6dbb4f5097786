"""Several ranks on the cores of one host against one process on all of them, with the floor beside.

    python bench/ranks.py                                      # two ranks, widths 32 and 128; minutes
    python bench/ranks.py --ranks 4 --width 64 --size yeast    # another point
    python bench/ranks.py --quick                              # to see that it works

Each round measures one process and the ranks, one after the other, with the same number of cores in all (`lacuna profile`,
whole training steps); medians of the rounds, and of their ratios, so that a machine that is busy with other work disturbs both
alike. The floor is what the gradients take over the link between two processes of this host (`lacuna plan`), however the
ranks compute.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "lacuna"


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", default="small", help="of the generated screen")
    parser.add_argument("--width", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--batch", type=int, default=28)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tiny screen, one round")
    parser.add_argument("--json", type=pathlib.Path, help="write all numbers here")
    options = parser.parse_args(words)
    if options.quick:
        options.size, options.width, options.steps, options.rounds = "tiny", [16], 2, 1
    return options


def run(*words, threads):
    """What it prints, with so many threads a process."""
    known = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT / "python"), "LACUNA_LIBRARY": str(PROGRAM.parent)}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=known)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def measure(options, width, folder, cores):
    """-> {"one": ms, "ranks": ms, "ratio": of the two, "planned": ms, "floor": ms, "bytes": of gradients}"""
    config = folder / f"width{width}.yaml"
    config.write_text(f"screen: {folder / 'screen'}\nmodel: {{name: hetero_gin, width: {width}}}\n"
                      f"train: {{device: cpu, batch: {options.batch}}}\n")
    each = max(1, cores // options.ranks)
    profile = ["profile", config, "--steps", options.steps, "--json"]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", options.ranks, "-m", "lacuna"]
    share = -(-options.batch // options.ranks)
    ones, several, planned = [], [], []
    for _ in range(options.rounds):
        ones.append(json.loads(run(PROGRAM, *profile, threads=cores)))
        several.append(json.loads(run(*start, *profile, threads=each)))
        out = folder / f"share{width}"
        run(PROGRAM, *profile[:-1], "--set", f"train.batch={share}", "--out", out, threads=each)
        plan = run(PROGRAM, "plan", folder / "screen", "--batch", options.batch, "--ranks", options.ranks, "--profile", out, "--json",
                   threads=each)
        planned.append(json.loads(plan)["step_of_ranks"])
    one, ranks = ([profile["wall_ms_per_step"] for profile in list] for list in (ones, several))
    return {"one": statistics.median(one), "ranks": statistics.median(ranks),
            "ratio": statistics.median(a / b for a, b in zip(one, ranks)),
            "waited": statistics.median(profile["ranks"][0]["waited_ms"] for profile in several),
            "alone": statistics.median(profile["ranks"][0]["alone_ms"] for profile in several),
            "planned": statistics.median(plan["step_ms"] for plan in planned),
            "floor": statistics.median(plan["floor_ms"] for plan in planned),
            "bytes": several[0]["gradient_bytes"]}  # fmt: skip


def main():
    options = parse()
    cores = len(os.sched_getaffinity(0))
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(PROGRAM, "generate", "screen", folder / "screen", "--size", options.size, "--seed", 1, threads=1)
        run(PROGRAM, "split", folder / "screen", "--name", "random", "--by", "random", "--seed", 1, threads=1)
        print(f"screen {options.size}, batch {options.batch}, {cores} cores in all, medians of {options.rounds} rounds of "
              f"{options.steps} steps; ms a step")
        print(f"| width | gradients | one process | {options.ranks} ranks | planned | times as fast | waited | sums alone | floor |")
        print("|---|---|---|---|---|---|---|---|---|")
        for width in options.width:
            one = found[width] = measure(options, width, folder, cores)
            print(f"| {width} | {one['bytes'] / 1e6:.2f} MB | {one['one']:.1f} | {one['ranks']:.1f} | {one['planned']:.1f} "
                  f"| {one['ratio']:.2f} | {one['waited']:.2f} | {one['alone']:.2f} | {one['floor']:.2f} |", flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
