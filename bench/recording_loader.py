#!/usr/bin/env python
"""Windows of a recording: `lacuna bench ladder` beside bare loops and torch's DataLoader, in one run, with what is asked.

    .venv/bin/python bench/recording_loader.py                  a synthetic recording, made for the occasion
    .venv/bin/python bench/recording_loader.py RECORDING        a recording of yours

33 x 51 x 51 windows, batch 256, two loader threads, everything warm, the median of five rounds:

    u8    ram:u8@device, bytes to be cast on the device, against a memcpy loop over the same rows, newest first (80% or
          more), and against DataLoader (15x or more)
    f32   ram:u8@worker against a bare gather-and-cast loop with the same threads (85%), and against DataLoader (7x)

DataLoader goes over numpy memmap and over tensors in memory, without workers and with two, and casts in the worker, as
most people write it. What it does with bytes alone is shown beside it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="?", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build" / "lacuna", type=pathlib.Path)
    parser.add_argument("--frames", default=100_000, type=int)
    parser.add_argument("--seconds", default=1.0, type=float, help="of a round")
    parser.add_argument("--rungs", default="ram:u8@device,ram:u8@worker,disk:u8@device,disk:u8@worker")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recording = arguments.recording
        if recording is None:
            recording = pathlib.Path(folder) / "movies"
            subprocess.run([arguments.program, "generate", "recording", recording, "--sessions", "3", "--minutes", "5",
                            "--seed", "1"], check=True)
        out = pathlib.Path(folder) / "ladder.json"
        subprocess.run([arguments.program, "bench", "ladder", recording, "--frames", str(arguments.frames), "--rungs",
                        arguments.rungs, "--seconds", str(arguments.seconds), "--peers", "--python", sys.executable,
                        "--json", out, "--out", folder], check=True)
        measured = json.loads(out.read_text())
    rate = {row["name"]: row["windows_per_s"] for row in measured["rungs"]}
    print()
    for dtype, rung, loop, of_loop, of_peers in (("u8", "ram:u8@device", "memcpy loop", 0.80, 15),
                                                 ("f32", "ram:u8@worker", "gather and cast", 0.85, 7)):
        if rung not in rate:
            continue
        share = rate[rung] / rate[loop]
        print(f"{dtype}: {rung} {rate[rung]:,.0f} windows/s, {share:.0%} of the {loop} "
              f"({of_loop:.0%} asked: {'yes' if share >= of_loop else 'NO'})")
        for peer in measured["peers"]:
            times = rate[rung] / peer["windows_per_s"]
            asked = f"({of_peers}x asked: {'yes' if times >= of_peers else 'NO'})" if peer["dtype"] == "f32" else ""
            print(f"     {times:.1f}x {peer['name']} {asked}".rstrip())


if __name__ == "__main__":
    main()
