"""One training step (forward, loss, backward, AdamW): Lacuna beside plain PyTorch and PyG, in one run.

    python bench/step.py                                       # yeast size; on a GPU in bf16
    python bench/step.py --size small --precision f32 --batch 28 --device cpu

Makes a synthetic screen, has `lacuna bench step` time its steps and write weights, removed genes and predictions, and
lets the forms of step_opponents.py do the same with the same weights, edges and samples. Times are medians; the batch
lies ready on the device, and the device's end is awaited after every step. Memory is the peak: on a GPU all that is
allocated on it, on the CPU what comes on top of what the process held before. The last columns are the distance of the
predictions from those of form `shared` in f32, relative, in norm: as computed, and Lacuna's computed in f32 too.
"""

import argparse
import gc
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

missing = [name for name in ("numpy", "torch", "torch_geometric") if not importlib.util.find_spec(name)]
if missing:
    names = " and ".join(missing)
    sys.exit(f"error: {sys.executable} has no {names}, which this needs; install them there, or call it with another Python")

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from step_opponents import FORMS, HeteroGin  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARM_STEPS = 3  # of the opponents; Lacuna's own stand in its help
OutOfMemory = (torch.OutOfMemoryError, MemoryError)


# ---- Lacuna's side
def make_screen(lacuna, folder, size, samples):
    path = folder / "screen"
    run = lambda *words: subprocess.run([str(lacuna), *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    run("generate", "screen", path, "--size", size, "--samples", samples, "--seed", 1)
    run("split", path, "--name", "random", "--by", "random", "--seed", 1)
    return path


def run_lacuna(options, folder, screen, merge, device):
    """-> weights by name, one result a batch"""
    config = folder / "config.yaml"
    config.write_text(
        f"screen: {screen}\n"
        f"model: {{name: hetero_gin, width: {options.width}, layers: {options.layers}, merge: {merge}, "
        "output: global, dropout: 0}\n"
        f"train: {{precision: {options.precision}, device: {device}}}\n"
    )
    weights, results = folder / "weights.safetensors", folder / "steps.json"
    batches = ",".join(map(str, options.batch))
    command = [options.lacuna, "bench", "step", config, "--batch", batches, "--steps", options.steps]
    command += ["--weights", weights, "--json", results]
    if options.warm is not None:
        command += ["--warm", options.warm]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return read_safetensors(weights), json.loads(results.read_text())


def read_safetensors(path):
    """-> f32 tensors by name: eight bytes of header length, a JSON header, the data."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    arrays = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            first, last = (8 + size + place for place in entry["data_offsets"])
            arrays[name] = torch.from_numpy(numpy.frombuffer(data[first:last], "<f4").reshape(entry["shape"]).copy())
    return arrays


# ---- the opponents
class Peak:
    """The most memory in use since it was made, in bytes."""

    def __init__(self, device):
        self.on_gpu = device == "cuda"
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            self.before = self.read("VmRSS")

    def bytes(self):
        return torch.cuda.max_memory_allocated() if self.on_gpu else self.read("VmHWM") - self.before

    @staticmethod
    def read(key):
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"/proc/self/status has no {key}")


def timed_steps(model, batch, labels, device, steps, warm):
    """-> milliseconds by step"""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for _ in range(warm + steps):
        start = time.perf_counter()
        F.mse_loss(model(batch), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
        optimiser.step()
        optimiser.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000)
    return times[warm:]


def run_opponent(form, options, values, merge, networks, genes, ours, device, steps):
    """-> result of one batch, as Lacuna's; steps 0: predictions alone"""
    dtype = torch.bfloat16 if options.precision == "bf16" and steps else torch.float32
    warm = WARM_STEPS if options.warm is None else options.warm
    result = {"batch": ours["batch"], "fits": True}
    peak = Peak(device)
    try:
        model = HeteroGin(form, values, merge, options.layers, networks, genes, dtype, device)
        batch = model.prepare(ours["removed"])
        labels = torch.tensor(ours["labels"], device=device).reshape(len(ours["removed"]), -1)
        with torch.no_grad():
            result["predicted"] = model(batch).float().reshape(-1).tolist()
        if steps:
            result["ms"] = timed_steps(model, batch, labels, device, steps, warm)
            result["peak_bytes"] = peak.bytes()
    except OutOfMemory:
        result["fits"] = False
    model = batch = None
    gc.collect()
    if form == "compiled":
        torch._dynamo.reset()
    if device == "cuda":
        torch.cuda.empty_cache()
    return result


def read_networks(screen):
    files = sorted((screen / "edges").glob("gene.*.gene.npy"), key=lambda file: file.name.split(".")[1])
    return [torch.from_numpy(numpy.load(file).astype(numpy.int64)) for file in files]  # [2, E] each


# ---- the table
def distance(got, exact):
    got, exact = numpy.array(got), numpy.array(exact)
    return float(numpy.linalg.norm(got - exact) / numpy.linalg.norm(exact))


def show(merge, form, result, reference):
    line = f"{merge:9} {form:9} {result['batch']:6}"
    if not result["fits"]:
        print(line, "  out of memory", flush=True)
        return
    ms = statistics.median(result["ms"])
    line += f" {ms:10.2f} {1000 * result['batch'] / ms:10.0f} {result['peak_bytes'] / 1e9:10.2f}"
    if reference and reference["fits"]:
        result["difference"] = distance(result["predicted"], reference["predicted"])
        line += f" {result['difference']:10.1e}"
        if "predicted_in_f32" in result:
            result["difference_in_f32"] = distance(result["predicted_in_f32"], reference["predicted"])
            line += f" {result['difference_in_f32']:10.1e}"
    print(line, flush=True)


def machine(device):
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{torch.get_num_threads()} threads of a CPU, torch {torch.__version__}"


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser.add_argument("--lacuna", default=ROOT / "build" / "lacuna")
    parser.add_argument("--size", default="yeast", choices=["tiny", "mini", "small", "yeast", "human"])
    parser.add_argument("--screen", type=pathlib.Path, help="one with a split 'random', instead of a synthetic one")
    parser.add_argument("--merge", default="sum,pairwise", type=lambda text: text.split(","))
    parser.add_argument("--batch", default="28,64,128,256,512", type=numbers)
    parser.add_argument("--form", default=",".join(FORMS), type=lambda text: text.split(","), help="opponents")
    parser.add_argument("--width", default=64, type=int)
    parser.add_argument("--layers", default=3, type=int)
    parser.add_argument("--precision", default="bf16", choices=["f32", "bf16"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--steps", default=9, type=int)
    parser.add_argument("--warm", type=int, help=f"steps before them, of all forms (5 of Lacuna, {WARM_STEPS} of the others)")
    parser.add_argument("--compile-most", default=512, type=int, help="largest batch that is compiled (takes minutes)")
    parser.add_argument("--json", type=pathlib.Path, help="write all results here too")
    return parser.parse_args(words)


def main(words):
    options = parse(words)
    device = options.device
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        samples = max(2 * max(options.batch), 200)
        screen = options.screen or make_screen(options.lacuna, folder, options.size, samples)
        networks = read_networks(screen)
        genes = len((screen / "nodes/gene.txt").read_text().splitlines())
        edges = sum(network.shape[1] for network in networks)
        print(f"{machine(device)}; {genes} genes, {len(networks)} networks, {edges} edges, width {options.width}, "
              f"{options.layers} layers, {options.precision}")  # fmt: skip
        head = ["batch", "ms/step", "samples/s", "peak GB", "difference", "in f32"]
        print(f"{'merge':9} {'form':9} {head[0]:>6} " + " ".join(f"{word:>10}" for word in head[1:]))
        everything = []
        for merge in options.merge:
            values, ours = run_lacuna(options, folder, screen, merge, device)
            for result in ours:
                arguments = (options, values, merge, networks, genes, result, device)
                reference = run_opponent("shared", *arguments, steps=0) if result["fits"] else None
                results = {"lacuna": result}
                show(merge, "lacuna", result, reference)
                for form in options.form:
                    if not result["fits"] or (form == "compiled" and result["batch"] > options.compile_most):
                        continue
                    results[form] = run_opponent(form, *arguments, steps=options.steps)
                    show(merge, form, results[form], reference)
                everything += [{"merge": merge, "form": form} | one for form, one in results.items()]
        if options.json:
            for one in everything:
                one.pop("removed", None)
            options.json.write_text(json.dumps(everything))


if __name__ == "__main__":
    main(sys.argv[1:])
