"""The answer of docs/unseen-genes.md, from tables to text: can a model speak for genes that training never saw?

    python examples/unseen_genes.py DATA OUT [--seeds 5] [--fold-seeds 5] [--others] [--page docs/unseen-genes.md]

DATA is the folder of tables that examples/import_yeast.sh describes. For each of the two screens it draws the splits `gene`,
`random` and five folds by gene, trains configs/unseen-SCREEN.yaml on them (`lacuna compare`), with a shuffled graph and
without hiding beside, averages the seeds and the baseline `network` (`lacuna ensemble`), and writes OUT/unseen-genes.md with
its picture: an hour on two cores. `--others` also trains the models that were tried beside it (configs/unseen-wild-type.yaml,
-hetero-gin.yaml and -dango.yaml), which takes hours without a GPU; what was not run is left out of the tables. Killed at any
moment, the same command goes on. `--page` puts tables and picture into a page, between its two marks. LACUNA is the program,
where it is not build/lacuna.

Every run computes with one thread, so that its numbers do not depend on how busy the machine is.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
LACUNA = os.environ.get("LACUNA", str(HERE.parent / "build/lacuna"))
SCREENS = {"collins2007": "Collins and others (2007)", "costanzo2010": "Costanzo and others (2010)"}
FOLDS = 5


def lacuna(*words):
    print("lacuna", *words, flush=True)
    subprocess.run([LACUNA, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def make_screen(data, out, name):
    """OUT/name with its splits."""
    if not (out / name).exists():
        if not (out / "both").exists():
            script = HERE / "import_yeast.sh"
            environment = {**os.environ, "LACUNA": LACUNA}
            subprocess.run([script, data, out / "both", "--duplicates", "mean"], check=True, env=environment)
        lacuna("subset", out / "both", out / name, "--where", f"screen={name}", "--where", "measured=score")
    splits = {path.stem for path in (out / name / "splits").glob("*.npy")}
    if "gene" not in splits:
        lacuna("split", out / name, "--name", "gene", "--by", "gene", "--seed", 1)
    if "random" not in splits:
        lacuna("split", out / name, "--name", "random", "--by", "random", "--seed", 1)
    if "fold-1" not in splits:
        lacuna("split", out / name, "--name", "fold", "--by", "gene", "--folds", FOLDS, "--seed", 1)


def studies(seeds, fold_seeds):
    """By name: what is added to `lacuna compare configs/unseen-SCREEN.yaml`."""
    return {
        "gene": ["--seeds", seeds, "--splits", "gene"],
        "folds": ["--seeds", fold_seeds, "--folds", "fold"],
        "control": ["--seeds", seeds, "--splits", "gene", "--set", "graph=shuffled"],
        "random": ["--seeds", 1, "--splits", "random"],
        "nohide": ["--seeds", seeds, "--splits", "gene", "--set", "train.hide=0"],
    }


BEFORE = ["--set", "train.hide=0", "--set", "model.weights=none", "--set", "model.local=attention"]
OTHERS = {  # by name: the config, and what is added to it
    "wild_type": ("unseen-wild-type", []),
    "dango": ("unseen-dango", []),
    "hetero_gin": ("unseen-hetero-gin", []),
    "hetero_gin_before": ("unseen-hetero-gin", BEFORE),
}


def compare(out, name, study, config, words):
    lacuna("compare", HERE.parent / f"configs/{config}.yaml", "--set", f"screen={out / name}", "--set", "train.compute_threads=1",
           "--out", out / "runs" / f"{name}-{study}", *words)  # fmt: skip


def run_others(out, name):
    for study, (config, words) in OTHERS.items():
        compare(out, name, study, config, ["--seeds", 1, "--splits", "gene", *words])


def run_studies(out, name, seeds, fold_seeds):
    for study, words in studies(seeds, fold_seeds).items():
        compare(out, name, study, f"unseen-{name}", words)
    for split in ["gene", *(f"fold-{i + 1}" for i in range(FOLDS))]:
        runs = sorted((out / "runs" / (f"{name}-gene" if split == "gene" else f"{name}-folds")).glob(f"{split}_seed=*"))
        folder = out / "runs" / f"{name}-ensemble-{split}"
        if not is_ensemble_of(folder, runs):
            shutil.rmtree(folder, ignore_errors=True)
            lacuna("ensemble", *runs, "--baseline", "network", "--weights", "validation", "--out", folder)


def is_ensemble_of(folder, runs):
    """Whether it was made of just these, and to the end."""
    if not (folder / "evaluation.json").exists():
        return False
    members = json.loads((folder / "ensemble.json").read_text())["members"]
    return {member["run"] for member in members if not member.get("baseline")} == {str(run) for run in runs}


# ---- what came out
def evaluation(run):
    """Of the test part's only label."""
    part = json.loads((run / "evaluation.json").read_text())["parts"]["test"]
    return next(iter(part["labels"].values()))


def number(value):
    """Without the sign of what rounds to 0."""
    return f"{round(value, 3) + 0.0:.3f}"


def interval(pair):
    return f"{number(pair[0])} to {number(pair[1])}"


def against_network(found):
    """The difference to `network`, its interval and the verdict."""
    difference = found["baselines"]["network"]["difference"]
    value = difference["pearson"]
    return f"{value['value']:+.3f} ({interval(value['interval'])})", difference["model_is"]


def rows_of(out, name, study):
    """The rows of the test part in a study's summary, by split and predictor."""
    rows = json.loads((out / "runs" / f"{name}-{study}" / "summary.json").read_text())["rows"]
    return {(row["split"], row["predictor"]): row for row in rows if row["part"] == "test"}


def mean_of(row):
    value = row["pearson"]
    spread = f" +- {value['sd']:.3f}" if value["runs"] > 1 and value["sd"] else ""
    return f"{value['mean']:.3f}{spread}"


ROWS = {  # of the table of splits: (study, predictor); a study `split` is that of the column
    "offsets (`ridge`)": ("split", "ridge"),
    "`mlp`, no graph": ("split", "mlp"),
    "`dango`": ("dango", "model"),
    "`hetero_gin`, small, as it was": ("hetero_gin_before", "model"),
    "`hetero_gin`, small, hiding, weights, pair head": ("hetero_gin", "model"),
    "`wild_type`, hiding": ("wild_type", "model"),
    "`network`": ("split", "network"),
    "**`factors`, hiding**": ("split", "model"),
    "`factors` without hiding": ("nohide", "model"),
    "control: `factors` over a shuffled graph": ("control", "model"),
}


def cell(out, name, split, study, predictor):
    study = split if study == "split" else study
    has_run = (out / "runs" / f"{name}-{study}" / "summary.json").exists()
    row = rows_of(out, name, study).get((split, predictor)) if has_run else None
    return mean_of(row) if row else "-"


def split_table(out):
    columns = [(split, name) for split in ("gene", "random") for name in SCREENS]
    lines = ["| test Pearson | " + " | ".join(f"{name}, {split}" for split, name in columns) + " |", "|---" * 5 + "|"]
    for label, (study, predictor) in ROWS.items():
        cells = [cell(out, name, split, study, predictor) for split, name in columns]
        if set(cells) != {"-"}:
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    together = [f"{evaluation(out / 'runs' / f'{name}-ensemble-gene')['model']['pearson']:.3f}" for name in SCREENS]
    return [*lines, "| **seeds of `factors` and `network` together** | " + " | ".join([*together, "-", "-"]) + " |"]


T_OF_FOUR = 2.776  # Student's t, 95%, of five folds


def over_folds(values):
    """Mean and interval of one number a fold."""
    mean, half = statistics.mean(values), T_OF_FOUR * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:+.3f} ({interval((mean - half, mean + half))})"


def fold_table(out, name):
    lines = ["| fold | unseen genes | offsets | `network` | `factors` | minus `network` | | with `network` | minus `network` | |"]
    lines.append("|---" * 10 + "|")
    rows, leads, pearsons = rows_of(out, name, "folds"), [], []
    for i in range(1, FOLDS + 1):
        model, network = rows[f"fold-{i}", "model"], rows[f"fold-{i}", "network"]
        together = evaluation(out / "runs" / f"{name}-ensemble-fold-{i}")
        leads.append(together["baselines"]["network"]["difference"]["pearson"]["value"])
        pearsons.append(together["model"]["pearson"])
        lines.append("| " + " | ".join([
            str(i), str(together["units"]), f"{rows[f'fold-{i}', 'ridge']['pearson']['mean']:.3f}", mean_of(network),
            mean_of(model), *lead_of(network), f"{pearsons[-1]:.3f}", *against_network(together)]) + " |")
    split = next(split for split, _ in rows if "folds" in split)
    network = rows[split, "network"]
    lines.append(
        f"| all | | {rows[split, 'ridge']['pearson']['mean']:.3f} | {network['pearson']['mean']:.3f} "
        f"| **{rows[split, 'model']['pearson']['mean']:.3f}** | {' | '.join(lead_of(network))} "
        f"| **{statistics.mean(pearsons):.3f}** | {statistics.mean(leads):+.3f} | |")
    single = [rows[f"fold-{i}", "network"]["difference"]["pearson"]["mean"] for i in range(1, FOLDS + 1)]
    return [*lines, "", "Intervals of a fold are over its genes, paired; that of all folds together over the same draws. With a fold as "
            f"one observation (Student's t), `factors` minus `network` is {over_folds(single)}, together {over_folds(leads)}."]


def lead_of(row):
    """Of a baseline's row in a summary: by how much the model is ahead, and the verdict."""
    value = row["difference"]["pearson"]
    return f"{value['mean']:+.3f} ({interval(value['interval'])})", row["difference"]["model_is"]


def groups(out, name):
    """Of split `gene`: by how many genes of a sample training never saw, and by how many neighbours they have."""
    lines = ["| samples | how many | `network` | together | minus `network` |", "|---|---|---|---|---|"]
    for group in evaluation(out / "runs" / f"{name}-ensemble-gene")["groups"]:
        if group["model"]["count"] < 100:
            continue  # says nothing
        difference = group["baselines"]["network"]["difference"]["pearson"]
        lines.append(
            f"| {group['by']}: {group['name']} | {group['model']['count']:,} | {group['baselines']['network']['pearson']:.3f} "
            f"| {group['model']['pearson']:.3f} | {difference['value']:+.3f} ({interval(difference['interval'])}) |")
    return lines


def tails(out, name):
    found = evaluation(out / "runs" / f"{name}-ensemble-gene")
    lines = ["| strongest 5% | | `network` | together | by chance |", "|---|---|---|---|---|"]
    for tail in found["tails"]:
        for metric in ("average_precision", "precision_at_k"):
            lines.append(
                f"| {tail['tail']} | {metric.replace('_', ' ')} | {tail['baselines']['network'][metric]['value']:.3f} "
                f"| {tail['model'][metric]['value']:.3f} | {tail['count'] / tail['samples']:.3f} |")
    return lines


def coverage(out, name):
    levels = evaluation(out / "runs" / f"{name}-ensemble-gene")["uncertainty"]["coverage"]
    covered, meant = (", ".join(f"{level[key]:.0%}" for level in levels) for key in ("covered", "level"))
    return f"Intervals from the spread of the members, calibrated on validation: {covered} of the test samples for {meant}."


def seconds_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["seconds"] for line in lines if line["kind"] == "epoch"][-1]


def picture(out, path):
    """Test Pearson by fold: offsets, network, factors, together."""
    colours = {"offsets": "#999999", "network": "#d98c3f", "factors": "#3f78b5", "together": "#2e8b57"}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" font-family="sans-serif" font-size="12">',
             '<rect width="720" height="300" fill="white"/>']
    for number, name in enumerate(SCREENS):
        left = 60 + number * 340
        parts.append(f'<text x="{left}" y="24" font-weight="bold">{name}: each gene held out once</text>')
        for tick in range(0, 6):
            y = 250 - tick * 40
            parts.append(f'<line x1="{left}" x2="{left + 280}" y1="{y}" y2="{y}" stroke="#dddddd"/>')
            parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{tick / 10:.1f}</text>')
        for i in range(1, FOLDS + 1):
            run = sorted((out / "runs" / f"{name}-folds").glob(f"fold-{i}_seed=*"))[0]
            alone, together = evaluation(run), evaluation(out / "runs" / f"{name}-ensemble-fold-{i}")
            values = {"offsets": alone["baselines"]["ridge"], "network": alone["baselines"]["network"],
                      "factors": alone["model"], "together": together["model"]}
            x = left + 28 + (i - 1) * 56
            parts.append(f'<text x="{x}" y="268" text-anchor="middle">fold {i}</text>')
            for place, (what, score) in enumerate(values.items()):
                low, high = score["interval"]["pearson"]
                at = x - 15 + place * 10
                parts.append(f'<line x1="{at}" x2="{at}" y1="{250 - low * 400:.1f}" y2="{250 - high * 400:.1f}" '
                             f'stroke="{colours[what]}" stroke-width="1.5"/>')
                parts.append(f'<circle cx="{at}" cy="{250 - score["pearson"] * 400:.1f}" r="4" fill="{colours[what]}"/>')
    for place, (what, colour) in enumerate(colours.items()):
        x = 150 + place * 120
        parts.append(f'<circle cx="{x}" cy="288" r="4" fill="{colour}"/><text x="{x + 10}" y="292">{what}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def write_tables(out):
    """The part of docs/unseen-genes.md that is measured."""
    lines = ["## Splits by gene and at random", "", *split_table(out), ""]
    for name, authors in SCREENS.items():
        lines += [f"## {name}, each gene held out once", "", f"Double mutants of {authors}.", "", *fold_table(out, name), ""]
        lines += ["The test part of split `gene` apart:", "", *groups(out, name), ""]
        lines += ["Its strongest interactions, found among the others:", "", *tails(out, name), "", coverage(out, name), ""]
    took = {name: seconds_of(sorted((out / "runs" / f"{name}-gene").glob("gene_seed=*"))[0]) for name in SCREENS}
    lines.append("Training one model, one thread: " + ", ".join(f"{name} {value:.0f} s" for name, value in took.items()) + ".")
    (out / "unseen-genes.md").write_text("\n".join(lines) + "\n")
    picture(out, out / "unseen-genes.svg")


BEGIN, END = "<!-- measured: examples/unseen_genes.py writes what follows -->", "<!-- end of what is measured -->"


def fill_page(out, page):
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"{page} has not the lines {BEGIN} and {END}, between which the tables go")
    page.write_text(f"{before}{BEGIN}\n\n{(out / 'unseen-genes.md').read_text()}\n{END}{after}")
    shutil.copy(out / "unseen-genes.svg", page.with_suffix(".svg"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5, help="on split gene")
    parser.add_argument("--fold-seeds", type=int, default=5, help="on each fold")
    parser.add_argument("--others", action="store_true", help="also the other models, one seed on split gene")
    parser.add_argument("--page", type=pathlib.Path, help="a page that gets the tables, and the picture beside it")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    out, begun = arguments.out.resolve(), time.time()
    for name in SCREENS:
        make_screen(arguments.data.resolve(), out, name)
        run_studies(out, name, arguments.seeds, arguments.fold_seeds)
    for name in SCREENS if arguments.others else ():
        run_others(out, name)
    write_tables(out)
    if arguments.page:
        fill_page(out, arguments.page)
    print(f"{out / 'unseen-genes.md'} and its picture, after {time.time() - begun:.0f} s")


if __name__ == "__main__":
    main()
