"""Run directories as a trainer writes them, from NumPy and json alone: what the tests of the report read."""

import json
import pathlib

import numpy as np


def ranks(values):
    order = np.argsort(values)
    result = np.empty(len(values))
    result[order] = np.arange(len(values))
    return result


def finite(value):
    return float(value) if np.isfinite(value) else None


def metrics(predicted, measured, rounds=30, interval=True):
    """The members of a metrics object in evaluation.json; null where a metric is not defined."""
    kept = ~np.isnan(measured)
    predicted, measured = predicted[kept], measured[kept]

    def compute(index):
        x, y = predicted[index], measured[index]
        with np.errstate(all="ignore"):
            pearson = np.corrcoef(x, y)[0, 1] if len(x) > 1 else np.nan
            spearman = np.corrcoef(ranks(x), ranks(y))[0, 1] if len(x) > 1 and np.ptp(x) > 0 else np.nan
            return {"pearson": pearson, "spearman": spearman, "mse": np.mean((x - y) ** 2) if len(x) else np.nan}

    values = compute(np.arange(len(measured)))
    result = {"count": int(len(measured)), **{name: finite(value) for name, value in values.items()}}
    if interval and len(measured):
        rng = np.random.default_rng(1)
        drawn = [compute(rng.integers(0, len(measured), len(measured))) for _ in range(rounds)]
        result["interval"] = {
            name: None if result[name] is None else [float(q) for q in np.nanquantile([d[name] for d in drawn], [0.025, 0.975])]
            for name in values}
    return result


def write_json(path, contents):
    path.write_text(json.dumps(contents, allow_nan=False))


def fingerprint(screen, graph):
    """Of genes and edges, as a trainer notes it; a shuffled graph has edges of its own."""
    parts = json.loads((screen / "manifest.json").read_text())["fingerprint"]
    return {name: "f" * 16 if graph == "shuffled" and name.startswith("edges ") else value
            for name, value in parts.items() if not name.startswith(("samples ", "label ", "column "))}


CONFIG = """screen: {screen}
split: {split}
graph: {graph}
labels: [{labels}]
model:
  name: hetero_gin
  width: 64
train:
  epochs: {epochs}
  lr: 0.001
"""


def make_run(path, screen, *, split="random", labels=("label",), status="finished", message=None, epochs=12,
             steps_per_epoch=40, validation=True, evaluated=True, quality=0.7, seed=1, profile=False, ladder=False,
             screen_name=None, graph="kept"):
    """A run on `screen` (a directory), whose predictions are its labels and noise; more `quality`, less noise."""
    path = pathlib.Path(path)
    rng = np.random.default_rng(seed)
    path.mkdir(parents=True)
    removed_ptr = np.load(screen / "samples" / "ptr.npy")
    samples = len(removed_ptr) - 1
    stored = np.load(screen / "samples" / "label.npy").reshape(samples, -1)
    measured = np.stack([stored[:, i % stored.shape[1]] for i in range(len(labels))], axis=1)
    parts = rng.choice([0, 1, 2], samples, p=[0.8, 0.1, 0.1])
    write_json(path / "run.json", {
        "format": "lacuna.run", "version": 1, "status": status, "message": message,
        "command": f"lacuna train configs/demo.yaml --set train.seed={seed} --out {path.name}",
        "lacuna": "0.1.0", "torch": "2.13.0", "device": "cpu",
        "screen": {"path": str(screen_name or screen), "fingerprint": fingerprint(screen, graph), "samples": samples,
                   "genes": len((screen / "nodes" / "gene.txt").read_text().splitlines()), "edges": 1234},
        "parameters": 1781187, "started": "2026-11-15T12:00:00Z", "ended": "2026-11-15T12:34:56Z"})
    (path / "config.yaml").write_text(CONFIG.format(screen=screen_name or screen, split=split, graph=graph,
                                                    labels=", ".join(labels), epochs=epochs))
    write_metrics(path / "metrics.jsonl", rng, labels, epochs, steps_per_epoch, validation, quality)
    if evaluated:
        write_evaluation(path, rng, parts, measured, labels, split, validation, quality)
    if profile:
        write_profile(path / "profile.json", gpu=seed % 2 == 1)
    if ladder:
        write_ladder(path / "ladder.json")
    return path


def write_metrics(path, rng, labels, epochs, steps_per_epoch, validation, quality):
    lines, step, total = [], 0, max(1, epochs * steps_per_epoch)
    for epoch in range(epochs):
        for _ in range(steps_per_epoch):
            step += 1
            lines.append({"kind": "step", "epoch": epoch, "step": step,
                          "loss": float((0.3 + 0.7 * np.exp(-4 * step / total)) * rng.lognormal(0, 0.15)),
                          "lr": float(1e-3 * min(1, step / 30) * (0.5 + 0.5 * np.cos(np.pi * step / total))),
                          "grad_norm": 1.0, "samples_per_s": float(3000 + 100 * rng.normal()), "seconds": 0.1 * step})
        done = 1 - np.exp(-3 * (epoch + 1) / epochs)
        line = {"kind": "epoch", "epoch": epoch, "step": step, "train_loss": float(0.3 + 0.7 * np.exp(-4 * step / total)),
                "seconds": 0.1 * step}
        if validation:
            line["validation"] = {
                label: {"count": 100, "pearson": float(quality * done + 0.01 * rng.normal() - 0.07 * i),
                        "spearman": float(quality * done * 0.95), "mse": float(1.3 - quality * done + 0.01 * rng.normal())}
                for i, label in enumerate(labels)}
        lines.append(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_evaluation(path, rng, parts, measured, labels, split, validation, quality):
    (path / "predictions").mkdir()
    evaluation = {"format": "lacuna.evaluation", "version": 1, "split": split, "checkpoint": "best_pearson",
                  "bootstrap": {"rounds": 30, "level": 0.95}, "parts": {}}
    for part, code in [("validation", 1), ("test", 2)]:
        if part == "validation" and not validation:
            continue
        chosen = np.flatnonzero(parts == code)
        truth = measured[chosen]
        spread = np.nanstd(truth, axis=0)

        def guess(strength):
            noise = rng.normal(size=truth.shape) * spread
            return (strength ** 2 * np.nan_to_num(truth) + strength * np.sqrt(1 - strength ** 2) * noise).astype(np.float32)

        predicted = guess(quality)
        np.save(path / "predictions" / f"{part}.sample.npy", chosen.astype(np.uint32))
        np.save(path / "predictions" / f"{part}.predicted.npy", predicted)
        np.save(path / "predictions" / f"{part}.measured.npy", truth.astype(np.float32))
        baselines = {"mean": np.zeros_like(truth), "gene": guess(0.45), "pair": guess(0.5), "ridge": guess(0.52),
                     "ridge_pairs": guess(0.58), "mlp": guess(0.55)}
        evaluation["parts"][part] = {"samples": len(chosen), "labels": {
            label: {"model": metrics(predicted[:, i], truth[:, i]),
                    "baselines": {name: metrics(values[:, i], truth[:, i]) for name, values in baselines.items()}}
            for i, label in enumerate(labels)}}
    write_json(path / "evaluation.json", evaluation)


def write_profile(path, gpu):
    names = ["load", "copy", "masks", "forward: aggregation", "forward: mlp", "forward: merge", "forward: heads",
             "backward", "optimiser", "communication", "logging", "idle"]
    cpu = [0.4, 0.1, 0.0, 5.2, 7.9, 1.1, 0.6, 14.2, 0.9, 0.0, 0.05, 0.2]
    device = [0.0, 0.2, 0.1, 2.1, 3.9, 0.4, 0.2, 6.2, 0.3, 0.0, 0.0, 17.25]
    entries = lambda values: [{"category": n, "ms": v, "share": v / sum(values)} for n, v in zip(names, values)]
    write_json(path, {"format": "lacuna.profile", "version": 1, "device": "cuda NVIDIA H200" if gpu else "cpu",
                      "steps": 50, "batch": 28, "wall_ms_per_step": sum(cpu), "cpu": entries(cpu),
                      "gpu": entries(device) if gpu else [],
                      "largest": "Backward takes the most: 14.2 of 30.7 ms a step (46%)."})


def write_ladder(path):
    rung = lambda name, rate, stored, moved, planned: {
        "rung": name, "samples_per_s": rate, "ms_per_batch": 28000 / rate, "stored_bytes_per_sample": stored,
        "moved_bytes_per_sample": moved, "host_peak_bytes": 2.1e8, "device_peak_bytes": 0, "exact": True,
        "train_steps_per_s": None, "planned_ms_per_batch": planned}
    write_json(path, {"format": "lacuna.ladder", "version": 1, "machine": "2 cores", "samples": 20000, "batch": 28,
                      "rungs": [rung("disk:u8", 2854, 2.55e6, 2.55e6, 9.5), rung("ram", 31000, 2.55e6, 2.55e6, 1.0),
                                rung("worker", 68300, 10, 2.55e6, 0.4), rung("kernel", 2.41e6, 10, 16.6, None)],
                      "peers": [{"name": "copies of the graph", "samples_per_s": 410, "ms_per_batch": 68.3}]})
