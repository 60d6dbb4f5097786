"""lacuna report: run directories of every kind become a page that a browser opens without a complaint."""

import html
import itertools
import json
import re

import numpy as np
import pytest

import browser
from program import fail, succeed
from run_files import make_run, metrics

HOSTILE = "</title><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">&amp;'\"`"


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "screen"
    succeed("generate", "screen", path, "--size", "small", "--samples", "3000", "--seed", "1")
    succeed("split", path, "--name", "random", "--by", "random", "--seed", "1")
    return path


def report(out, *runs, **options):
    succeed("report", *runs, "--out", out, **options)
    return out.read_text()


def text_of(page):
    """The words of a page, as one line."""
    body = re.sub(r"<(style|script).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))


def sections(page):
    return re.findall(r'<section id="(\w+)">', page)


def expect_quiet(out, tmp_path, script=""):
    """The document after loading; the console stayed empty."""
    document, console = browser.opened(out, tmp_path / "profile", script)
    assert console == []
    return document


# What words of a drawing stick out of it; the browser knows how wide they are.
STICKING_OUT = """
var out = [];
document.querySelectorAll('svg.plot text').forEach(function (text) {
  var box = text.getBBox(), all = text.ownerSVGElement.viewBox.baseVal;
  if (box.width && (box.x < 0 || box.x + box.width > all.width || box.y + box.height > all.height)) out.push(text.textContent);
});
document.body.setAttribute('data-out', out.join('; ') || 'none');
"""


def test_no_words_of_a_drawing_are_cut(screen, tmp_path):
    grid = [make_run(tmp_path / f"split={split},graph={graph},train.seed={seed}", screen, split=split, graph=graph, seed=seed,
                     epochs=3, steps_per_epoch=5, profile=True, ladder=True)
            for split, graph, seed in itertools.product(["random", "pair"], ["kept", "shuffled"], [1, 2])]  # fmt: skip
    for run in grid:  # learning rates whose ticks need many digits
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if line["kind"] == "step":
                line["lr"] = 0.0028 + 0.000015 * line["step"]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = report(tmp_path / "report.html", *grid)
    document = expect_quiet(tmp_path / "report.html", tmp_path, STICKING_OUT)
    assert html.unescape(re.search('data-out="([^"]*)"', document)[1]) == "none"
    for curve in re.findall(r'<svg class="plot"[^>]*data-label="(?:step|epochs done)".*?</svg>', page, re.DOTALL):
        ticks = re.findall(r'y="263" class="tm">([^<]*)<', curve)
        assert len(ticks) >= 2 and all(tick.isdigit() for tick in ticks), ticks


def test_one_run_has_every_section(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, profile=True, ladder=True)
    page = report(tmp_path / "report.html", run)
    assert sections(page) == ["summary", "data", "training", "baselines", "groups", "predictions", "errors", "networks",
                              "profile", "ladder", "config"]
    words = text_of(page)
    evaluation = json.loads((run / "evaluation.json").read_text())["parts"]["test"]["labels"]["label"]
    assert f"{evaluation['model']['pearson']:.3f}" in words
    for name, values in evaluation["baselines"].items():
        assert name in words and ("not defined" if values["pearson"] is None else f"{values['pearson']:.3f}") in words
    assert "lacuna train configs/demo.yaml --set train.seed=1" in words  # how to run it again
    assert "width: 64" in words  # the resolved config
    assert "Backward takes the most" in words and "disk:u8" in words and "copies of the graph" in words
    assert "stopped" not in words and "not evaluated" not in words


def test_commands_can_be_copied_into_a_shell(screen, tmp_path):
    run = make_run(tmp_path / "my run", screen)
    words = text_of(report(tmp_path / "report.html", run))
    assert f"lacuna train '{run}/config.yaml' --out '{run}-again'" in words
    (run / "evaluation.json").unlink()
    assert f"lacuna evaluate '{run}'" in text_of(report(tmp_path / "report.html", run))


def test_nothing_is_fetched_from_outside(screen, tmp_path):
    page = report(tmp_path / "report.html", make_run(tmp_path / "run", screen))
    assert "Content-Security-Policy" in page and "default-src 'none'" in page
    for word in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe"]:
        assert word not in page.replace("http://www.w3.org/2000/svg", ""), word


def part_of(page, start, end="</figure>"):
    page = page[page.index(start):]
    return page[:page.index(end)]


def first_row(figure):
    return [text_of(cell).strip() for cell in re.findall(r"<td.*?</td>", figure[:figure.index("</tr>\n", figure.index("<td"))],
                                                         re.DOTALL)]


def groups_of(run, screen, size):
    """(predicted, measured) of every gene or pair, by name, from the files alone."""
    load = lambda name: np.load(run / "predictions" / f"test.{name}.npy")
    removed, ptr = np.load(screen / "samples" / "removed.npy"), np.load(screen / "samples" / "ptr.npy")
    names = (screen / "nodes" / "gene.txt").read_text().splitlines()
    groups = {}
    for sample, guess, truth in zip(load("sample"), load("predicted")[:, 0].astype(float), load("measured")[:, 0]):
        for genes in itertools.combinations(sorted(set(removed[ptr[sample]:ptr[sample + 1]])), size):
            groups.setdefault(" + ".join(names[gene] for gene in genes), []).append((guess, truth))
    least = {1: 5, 2: 3}[size]
    kept = {name: np.array(values).T for name, values in groups.items() if len(values) >= least}
    return kept or {name: np.array(values).T for name, values in groups.items()}


def test_errors_by_gene_are_relative_to_its_spread(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    page = report(tmp_path / "report.html", run)
    relative = {name: np.sqrt(np.mean((x - y) ** 2)) / y.std() for name, (x, y) in groups_of(run, screen, 1).items()}
    worst = max(relative, key=relative.get)
    x, y = groups_of(run, screen, 1)[worst]
    name, *numbers, count = first_row(part_of(page, "Largest errors by gene"))
    assert (name, count) == (worst, str(len(x)))
    expected = [relative[worst], y.std(), np.mean(np.abs(x - y)), np.mean(x - y)]
    assert [float(number) for number in numbers] == pytest.approx(expected, rel=6e-3, abs=1e-6)


def test_worst_pairs_have_measured_and_predicted_values(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    page = report(tmp_path / "report.html", run)
    errors = {name: np.mean(np.abs(x - y)) for name, (x, y) in groups_of(run, screen, 2).items()}
    worst = max(errors, key=errors.get)
    x, y = groups_of(run, screen, 2)[worst]
    name, *numbers, count = first_row(part_of(page, "Largest errors by pair"))
    assert (name, count) == (worst, str(len(x)))
    assert [float(number) for number in numbers] == pytest.approx([errors[worst], y.mean(), x.mean()], rel=6e-3, abs=1e-6)


def test_size_of_predictions_is_told(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    words = text_of(part_of(report(tmp_path / "report.html", run), "test part</figcaption>"))
    x, y = (np.load(run / "predictions" / f"test.{name}.npy")[:, 0].astype(float) for name in ("predicted", "measured"))
    assert f"is {x.std() / y.std():.3g} of that of the measurements" in words
    assert f"Slope of measured on predicted: {np.polyfit(x, y, 1)[0]:.3g} " in words


def test_strong_samples_at_a_stated_threshold(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    x, y = (np.load(run / "predictions" / f"test.{name}.npy")[:, 0].astype(float) for name in ("predicted", "measured"))
    threshold = 0.05
    succeed("report", run, "--threshold", str(threshold), "--out", tmp_path / "report.html")
    figure = part_of((tmp_path / "report.html").read_text(), "Strong negative and strong positive")
    rows = [[text_of(cell).strip() for cell in re.findall(r"<td.*?</td>", row)] for row in re.findall(r"<tr>.*?</tr>", figure)][1:]
    for row, score, strong in [(rows[0], -x, y <= -threshold), (rows[1], x, y >= threshold)]:
        assert int(row[1]) == strong.sum() > 3
        auroc = np.mean(score[strong][:, None] > score[~strong])
        order = strong[np.argsort(-score)]
        precision = np.cumsum(order) / np.arange(1, len(order) + 1)
        assert [float(cell) for cell in row[2:]] == pytest.approx(
            [auroc, precision[order].mean(), strong.mean(), *precision[[9, 49, 99]]], abs=6e-4)
    words = text_of(report(tmp_path / "default.html", run))
    assert f"at most {np.sort(y)[int(np.ceil(0.05 * len(y))) - 1]:.4g}" in words
    fail("report", run, "--threshold", "-1", code=2)


def test_equal_baselines_are_one_row(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    evaluation = json.loads((run / "evaluation.json").read_text())
    for part in evaluation["parts"].values():
        baselines = part["labels"]["label"]["baselines"]
        baselines["pair"] = baselines["gene"]
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    words = text_of(report(tmp_path / "report.html", run))
    assert "gene = pair the same scores: no sample of this part removes a pair that recurs" in words
    assert "ridge = " not in words


def test_summary_says_how_it_was_made(screen, tmp_path):
    words = text_of(report(tmp_path / "report.html", make_run(tmp_path / "run", screen)))
    assert "model hetero_gin: width 64" in words
    assert "split 'random', drawn by random with seed 1 (80% training, 10% validation, 10% test asked for)" in words
    assert "held out are samples; those that remove the same genes are in one part" in words


def test_summary_says_what_the_import_left_out(tmp_path):
    (tmp_path / "genes.tsv").write_text("gene\nYAL001C\nYAL002W\nG3\n")
    (tmp_path / "net.tsv").write_text("a\tb\nYAL001C\tYAL002W\nYAL002W\tG3\n")
    rows = [f"{pair}\t{i * 0.1 - 0.5}\n" for i, pair in enumerate(["YAL001C\tYAL002W", "YAL002W\tG3", "YAL001C\tG3"] * 4)]
    (tmp_path / "pairs.tsv").write_text("x\ty\tscore\n" + "".join(rows) + "YAL001C\tNOPE\t1\n")
    succeed("import", "screen", tmp_path / "screen", "--genes", tmp_path / "genes.tsv", "--network",
            f"net={tmp_path / 'net.tsv'},source=a,target=b", "--samples", f"s={tmp_path / 'pairs.tsv'},removed=x+y,label=score",
            "--unknown", "drop")
    succeed("split", tmp_path / "screen", "--name", "random", "--by", "random", "--fractions", "0.5,0.25,0.25", "--seed", "1")
    page = report(tmp_path / "report.html", make_run(tmp_path / "run", tmp_path / "screen", labels=("score",)))
    assert "pairs.tsv: 1 rows left out: an unknown gene" in text_of(page)
    assert 'href="https://www.yeastgenome.org/locus/YAL002W"' in page and "locus/G3" not in page


def test_a_page_about_a_gene(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, labels=("gene_interaction",))
    names = (screen / "nodes" / "gene.txt").read_text().splitlines()
    removed, ptr = np.load(screen / "samples" / "removed.npy"), np.load(screen / "samples" / "ptr.npy")
    gene = int(np.bincount(removed).argmax())
    samples = [s for s in range(len(ptr) - 1) if gene in removed[ptr[s]:ptr[s + 1]]]
    measured = np.load(screen / "samples" / "label.npy").ravel()[samples].astype(float)
    succeed("report", run, "--gene", names[gene], "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "gene0" in sections(page)
    section = part_of(page, '<section id="gene0">', "</section>")
    words = text_of(section)
    assert f"{len(samples)} measured samples remove it" in words
    assert f"is {measured.mean():.4g} on average with a standard deviation of {measured.std():.4g}" in words
    predicted = set(np.load(run / "predictions/test.sample.npy")) | set(np.load(run / "predictions/validation.sample.npy"))
    assert f"{len(predicted & set(samples))} of them were predicted" in words
    assert f"lacuna explain {run} --gene {names[gene]}" in words
    assert "did you mean" in fail("report", run, "--gene", "G00000000", "--out", tmp_path / "no.html")


def test_a_model_that_is_not_ahead_of_network_is_told_so(screen, tmp_path):
    """Also where another baseline is the best."""
    for low, high in ((-0.1, 0.1), (-0.2, -0.1), (0.1, 0.2)):
        run = make_run(tmp_path / f"run{low}", screen)
        path = run / "evaluation.json"
        evaluation = json.loads(path.read_text())
        (label,) = evaluation["parts"]["test"]["labels"].values()
        difference = {metric: {"value": (low + high) / 2, "interval": [low, high]} for metric in ("pearson", "spearman", "mse")}
        label["baselines"]["network"] = {**label["model"], "pearson": -0.5, "difference": difference}
        path.write_text(json.dumps(evaluation))
        summary = part_of(report(tmp_path / "report.html", run), '<section id="summary">', "</section>")
        assert ("The model is not ahead of network, a ridge that reads the gene networks" in summary) == (low < 0)


# ---- grids

def make_grid(folder, screen, seeds=3):
    """What `lacuna compare` leaves: runs, and a summary of them."""
    rows = []
    half = lambda values: 4.303 * np.std(values, ddof=1) / np.sqrt(len(values))
    interval = lambda values: [float(np.mean(values) - half(values)), float(np.mean(values) + half(values))]
    spread = lambda values: {"runs": len(values), "mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1)),
                             "min": min(values), "max": max(values), "interval": interval(values)}
    for graph in ["kept", "shuffled"]:
        for seed in range(1, seeds + 1):
            make_run(folder / f"random_graph={graph}_seed={seed}", screen, graph=graph, seed=seed, epochs=3, steps_per_epoch=5)
        for predictor, value in [("model", 0.8 if graph == "kept" else 0.4), ("ridge", 0.5)]:
            values = [value + 0.01 * i for i in range(seeds)] if predictor == "model" else [value] * seeds
            row = {"split": "random", "settings": {"graph": graph}, "part": "test", "label": "label", "predictor": predictor,
                   **{metric: spread(values) for metric in ["pearson", "spearman", "mse"]}}
            if predictor != "model":
                difference = {metric: {**spread(values), "interval": [0.1, 0.2]} for metric in ["pearson", "spearman", "mse"]}
                row["difference"] = {**difference, "judged_by": "pearson", "model_is": "ahead" if graph == "kept" else "behind"}
            rows.append(row)
    (folder / "summary.json").write_text(json.dumps({"format": "lacuna.summary", "version": 1, "failures": [],
                                                     "runs": {"total": 2 * seeds, "finished": 2 * seeds}, "rows": rows}))
    return folder


def test_a_grid_has_its_own_page(screen, tmp_path):
    page = report(tmp_path / "grid.html", make_grid(tmp_path / "grid", screen))
    assert sections(page) == ["grid", "summary", "data", "training", "runs"]
    grid = part_of(page, '<section id="grid">', "</section>")
    words = text_of(grid)
    assert "6 of 6 runs are finished" in words
    half = 4.303 * 0.01 / np.sqrt(3)
    assert f"0.810 ± 0.010 [{0.81 - half:.3f}, {0.81 + half:.3f}]" in words
    assert "ahead Pearson 0.500 [0.100, 0.200]" in words and "behind" in words
    assert "model, graph=shuffled" in grid and "…" not in grid  # nothing is cut
    training = part_of(page, '<section id="training">', "</section>")
    assert training.count('class="legend"') == 1 and training.count("<figure>") >= 3
    (tmp_path / "grid" / "summary.json").write_text("{")
    assert "summary.json" in fail("report", tmp_path / "grid", "--out", tmp_path / "no.html")


def test_a_grid_fits_its_width_and_paper(screen, tmp_path):
    out = tmp_path / "grid.html"
    report(out, make_grid(tmp_path / "grid", screen))
    wide = """
      var most = document.documentElement.clientWidth;
      document.body.setAttribute('data-wide', document.documentElement.scrollWidth <= most ? 'fits' : 'sticks out');
    """
    document = expect_quiet(out, tmp_path, wide)
    assert 'data-wide="fits"' in document
    browser.run(out, f"--print-to-pdf={tmp_path / 'grid.pdf'}", profile=tmp_path / "profile")
    assert (tmp_path / "grid.pdf").read_bytes().startswith(b"%PDF")


def test_density_agrees_with_numpy(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    page = report(tmp_path / "report.html", run)
    figure = part_of(page, "test part</figcaption>")
    number = r"(-?[\d.e+-]+)"
    cells = np.array([[float(group.replace(",", "")) for group in cell] for cell in re.findall(
        rf"<title>measured {number} to {number}, predicted {number} to {number}: ([\d,]+) samples</title>", figure)])
    count = cells[:, 4]
    outside = re.search(r"(\d+) of them outside", figure)
    load = lambda name: np.load(run / "predictions" / f"test.{name}.npy")[:, 0]
    assert count.sum() + (int(outside[1]) if outside else 0) == len(load("measured"))
    for name, low in [("measured", 0), ("predicted", 2)]:  # within a bin, which is far less than they differ by
        middle, width = cells[:, low:low + 2].mean(axis=1), np.median(cells[:, low + 1] - cells[:, low])
        mean = np.average(middle, weights=count)
        assert mean == pytest.approx(load(name).mean(), abs=width / 4)
        spread = np.sqrt(np.average((middle - mean) ** 2, weights=count))
        assert spread == pytest.approx(load(name).std(), rel=0.1)
    assert load("predicted").std() < 0.8 * load("measured").std()


def test_histogram_and_curves_agree_with_the_files(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    page = report(tmp_path / "report.html", run)
    label = np.load(screen / "samples" / "label.npy").ravel()
    figure = part_of(page, "Label &#39;")
    counts = [int(n.replace(",", "")) for n in re.findall(r": ([\d,]+) samples</title>", figure)]
    beyond = re.search(r"([\d,]+) samples lie beyond", figure)
    assert sum(counts) + (int(beyond[1].replace(",", "")) if beyond else 0) == len(label)

    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    expected = {"Training loss": [(l["step"], l["train_loss"]) for l in lines if l["kind"] == "epoch"],
                "Learning rate": [(l["step"], l["lr"]) for l in lines if l["kind"] == "step"],
                "Validation Pearson": [(l["epoch"] + 1, l["validation"]["label"]["pearson"])
                                       for l in lines if l["kind"] == "epoch"],
                "Validation MSE": [(l["epoch"] + 1, l["validation"]["label"]["mse"])
                                   for l in lines if l["kind"] == "epoch"]}
    for title, points in expected.items():
        figure = part_of(page, f"<figcaption>{title}")
        xs, ys = re.findall(r'data-n="[^"]*" data-x="([^"]*)" data-y="([^"]*)"', figure)[-1]
        assert [float(x) for x in xs.split()] == [x for x, _ in points]
        assert [float(y) for y in ys.split()] == pytest.approx([y for _, y in points], rel=1e-4)


def test_several_runs_side_by_side(screen, tmp_path):
    runs = [make_run(tmp_path / f"seed-{i}", screen, seed=i, quality=0.4 + 0.05 * i) for i in range(9)]
    stopped = make_run(tmp_path / "stopped", screen, status="stopped", evaluated=False, epochs=2)
    page = report(tmp_path / "report.html", *runs, stopped)
    assert sections(page) == ["summary", "data", "training", "runs"]
    assert page.count('class="run"') == 10
    loss = page[page.index("<figcaption>Training loss"):]
    loss = loss[:loss.index("</figure>")]
    assert [html.unescape(n) for n in re.findall(r'data-n="(.*?)"', loss)] == [f"seed-{i}" for i in range(9)] + ["stopped"]
    words = text_of(page)
    assert "Run 'stopped' was stopped" in words and "not evaluated yet" in words
    assert words.count("Label 'gene_interaction'") == 1  # one screen, shown once


def test_a_run_without_validation(screen, tmp_path):
    page = report(tmp_path / "report.html", make_run(tmp_path / "run", screen, validation=False))
    words = text_of(page)
    assert "has no validation part" in words and "Validation Pearson" not in words
    assert "Training loss" in words and "test part" in words


def test_a_stopped_run_says_so_first(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, status="stopped", message="SIGTERM", evaluated=False, epochs=3)
    page = report(tmp_path / "report.html", run)
    banner = page.index('class="banner warn"')
    assert banner < page.index("<section")
    words = text_of(page)
    assert "was stopped at step 120 of epoch 3" in words and "SIGTERM" in words
    assert "was not evaluated yet" in words and "predictions" not in sections(page)


@pytest.mark.parametrize("status, words", [("failed", "failed at step 40 of epoch 1. It said: the loss is NaN"),
                                           ("running", "had not ended"), ("odd", "has status 'odd'")])
def test_a_run_that_did_not_finish(screen, tmp_path, status, words):
    run = make_run(tmp_path / "run", screen, status=status, message="the loss is NaN", evaluated=False, epochs=1)
    assert words in text_of(report(tmp_path / "report.html", run))


def test_a_run_that_has_logged_nothing(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, status="failed", evaluated=False, epochs=0)
    (run / "metrics.jsonl").unlink()
    (run / "config.yaml").unlink()
    words = text_of(report(tmp_path / "report.html", run))
    assert "has logged no step yet" in words and "no config.yaml" in words


def test_a_torn_last_line_is_told(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, epochs=2)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"kind":"step","epoch":2,"st')
    assert "metrics.jsonl (line 83) is torn" in text_of(report(tmp_path / "report.html", run))


def test_metrics_that_are_not_defined(screen, tmp_path):
    run = make_run(tmp_path / "run", screen)
    evaluation = json.loads((run / "evaluation.json").read_text())
    evaluation["parts"]["test"]["labels"]["label"]["model"] = metrics(np.full(5, np.nan), np.full(5, np.nan))
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    np.save(run / "predictions" / "test.measured.npy",
            np.full_like(np.load(run / "predictions" / "test.measured.npy"), np.nan))
    page = report(tmp_path / "report.html", run)
    assert "not defined" in text_of(page)
    assert not re.search(r"\b(nan|inf)\b", text_of(page), re.IGNORECASE)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, about such labels
def test_labels_that_are_infinite_or_all_the_same(tmp_path):
    """Odd screens: the page shows no NaN and no infinity."""
    for kind, label in [("infinite", [np.inf, -np.inf, 1.0]), ("same", [0.1]), ("missing", [np.nan])]:
        screen = tmp_path / kind
        succeed("generate", "screen", screen, "--size", "tiny", "--seed", "1")
        path = screen / "samples" / "label.npy"
        old = np.load(path)
        np.save(path, np.resize(np.array(label, np.float32), old.shape))
        page = report(tmp_path / "report.html", make_run(tmp_path / f"run-{kind}", screen, labels=("gene_interaction",)))
        assert not re.search(r"[\s\"](nan|-?inf)\b", page, re.IGNORECASE), kind


def test_several_labels(screen, tmp_path):
    labels = ("fitness", "growth", "a<b>")
    page = report(tmp_path / "report.html", make_run(tmp_path / "run", screen, labels=labels))
    pearson = page[page.index("<figcaption>Validation Pearson"):]
    assert tuple(html.unescape(n) for n in re.findall(r'data-n="(.*?)"', pearson[:pearson.index("</figure>")])) == labels
    for label in labels:
        assert f"'{label}' on the test part" in text_of(page)
        assert f"'{label}', test part" in text_of(page)


def test_a_screen_that_is_gone_and_one_that_has_changed(screen, tmp_path):
    gone = make_run(tmp_path / "gone", screen, screen_name="moved/away")
    page = report(tmp_path / "gone.html", gone)
    words = text_of(page)
    assert "'moved/away' is not there any more" in words and "3,000" in words
    assert "Left out" in words and "Predicted against measured" in words

    changed = make_run(tmp_path / "changed", screen)
    contents = json.loads((changed / "run.json").read_text())
    contents["screen"]["fingerprint"]["genes"] = "0" * 16
    (changed / "run.json").write_text(json.dumps(contents))
    words = text_of(report(tmp_path / "changed.html", changed))
    assert "has changed since this run (its genes)" in words and "Left out" in words


def test_samples_that_mean_something_else_are_noticed(screen, tmp_path):
    """run.json knows the graph, not the samples: measurements that differ give a changed screen away."""
    run = make_run(tmp_path / "run", screen, labels=("gene_interaction",))
    assert "Left out" not in text_of(report(tmp_path / "report.html", run))
    samples = np.load(run / "predictions" / "test.sample.npy")
    for other in [samples[::-1], samples + 10**6]:
        np.save(run / "predictions" / "test.sample.npy", other)
        words = text_of(report(tmp_path / "report.html", run))
        assert "its samples of the test part" in words and "Left out" in words


def test_a_shuffled_graph_is_told_and_is_no_changed_screen(screen, tmp_path):
    shuffled = make_run(tmp_path / "shuffled", screen, graph="shuffled")
    words = text_of(report(tmp_path / "one.html", shuffled))
    assert "This run: trained on a shuffled graph" in words and "has changed" not in words
    assert "Largest errors by gene" in words
    words = text_of(report(tmp_path / "two.html", shuffled, make_run(tmp_path / "kept", screen)))
    assert "random, shuffled graph" in words and words.count("a shuffled graph, a control") == 1


def test_a_screen_is_found_from_the_folders_above_the_run(screen, tmp_path):
    run = make_run(screen.parent / "runs" / "deep" / tmp_path.name, screen, screen_name=screen.name)
    assert "Largest errors by gene" in report(tmp_path / "report.html", run, cwd=tmp_path)


def test_wrong_calls_are_told(screen, tmp_path):
    assert "is not a directory" in fail("report", tmp_path / "nothing")
    assert "has no run.json" in fail("report", screen)
    assert "RUN" in fail("report", code=2)
    run = make_run(tmp_path / "run", screen)
    assert "no-such-folder" in fail("report", run, "--out", tmp_path / "no-such-folder" / "report.html")
    (run / "evaluation.json").write_text("{")
    assert "evaluation.json" in fail("report", run, "--out", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_long_run_stays_small(screen, tmp_path):
    run = make_run(tmp_path / "run", screen, epochs=30, steps_per_epoch=1000)
    page = report(tmp_path / "report.html", run)
    longest = max(len(xs.split()) for xs in re.findall(r'data-x="([^"]*)" data-y', page))
    assert 500 < longest <= 1000
    assert len(page) < 600_000


# ---- in a browser

def test_the_console_is_heard(tmp_path):
    """What the tests below rely on: an error and a refused resource reach us."""
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><html><body><script>noSuchFunction()</script></body></html>")
    _, console = browser.opened(page, tmp_path / "profile")
    assert any("noSuchFunction" in line for line in console)


@pytest.mark.parametrize("kind", ["one", "many", "no validation", "stopped", "several labels"])
def test_opens_without_a_console_error(screen, tmp_path, kind):
    options = {"one": {"profile": True, "ladder": True}, "no validation": {"validation": False},
               "stopped": {"status": "stopped", "evaluated": False, "epochs": 2},
               "several labels": {"labels": ("a", "b", "c")}}.get(kind, {})
    runs = [make_run(tmp_path / f"run-{i}", screen, seed=i, **options) for i in range(3 if kind == "many" else 1)]
    out = tmp_path / "report.html"
    report(out, *runs)
    document = expect_quiet(out, tmp_path)
    plots = document.count('<svg class="plot')
    assert plots >= 4 and document.count("<figcaption") >= plots
    assert ('class="banner' in document) == (kind == "stopped")


def test_values_show_on_hover_and_the_theme_changes(screen, tmp_path):
    out = tmp_path / "report.html"
    report(out, make_run(tmp_path / "run", screen, profile=True))
    script = """
      var said = [];
      function hover(mark) {
        var box = mark.getBoundingClientRect();
        mark.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: box.left + box.width / 2,
                                                            clientY: box.top + box.height / 2}));
        var tip = document.getElementById('tip');
        said.push(tip.hidden ? 'hidden' : tip.textContent);
      }
      hover(document.querySelector('#data svg.plot rect.bar'));
      hover(document.querySelector('#training svg.plot'));
      hover(document.querySelector('#baselines svg.plot circle'));
      hover(document.querySelector('#predictions svg.plot rect'));
      hover(document.querySelector('h2'));
      var colour = function () { return getComputedStyle(document.body).color; };
      var before = colour();
      document.getElementById('theme').click();
      var after = colour();
      document.getElementById('theme').click();
      said.push(before !== after && before === colour() ? 'changes' : 'stays');
      document.body.setAttribute('data-said', JSON.stringify(said));
    """
    document = expect_quiet(out, tmp_path, script)
    said = json.loads(html.unescape(re.search(r'data-said="([^"]*)"', document)[1]))
    assert re.search(r" to .*: \d+ samples", said[0])
    assert re.search(r"^step \d+.*logged steps: 0\.\d+.*mean of the epoch: 0\.\d+", said[1])
    assert re.search(r"^model: Pearson 0\.\d+ \(interval", said[2])
    assert re.search(r"^measured .*, predicted .*: \d+ samples", said[3])
    assert said[4:] == ["hidden", "changes"]


def test_tables_are_sorted_and_searched(screen, tmp_path):
    out = tmp_path / "report.html"
    report(out, make_run(tmp_path / "run", screen, labels=tuple(f"label {i}" for i in range(12))))
    script = """
      var box = document.querySelector('#summary input[type=search]'), table = box.parentNode.querySelector('table');
      function column(place) {
        return Array.prototype.map.call(table.tBodies[0].rows, function (row) { return row.cells[place].textContent; });
      }
      var said = [];
      table.tHead.rows[0].cells[1].click();
      said.push(column(1));
      table.tHead.rows[0].cells[1].click();
      said.push(column(1));
      box.value = 'LABEL 1';
      box.dispatchEvent(new Event('input', {bubbles: true}));
      said.push(Array.prototype.filter.call(table.tBodies[0].rows, function (row) { return row.offsetHeight > 0; }).length);
      document.body.setAttribute('data-said', JSON.stringify(said));
    """
    document = expect_quiet(out, tmp_path, script)
    down, up, shown = json.loads(html.unescape(re.search(r'data-said="([^"]*)"', document)[1]))
    numbers = [float(text.split()[0]) for text in down]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == 12
    assert [float(text.split()[0]) for text in up] == sorted(numbers)
    assert shown == 3  # label 1, label 10, label 11


def test_hostile_names_are_only_text(screen, tmp_path):
    """Names of the run, of labels, of baselines, and a message and a config that try to be HTML."""
    run = make_run(tmp_path / "x<img src=x onerror=alert(1)>", screen, labels=(HOSTILE,), status="failed",
                   message=HOSTILE, profile=True, ladder=True)
    for name, old in [("evaluation.json", "ridge_pairs"), ("profile.json", "optimiser"), ("ladder.json", "worker")]:
        contents = (run / name).read_text()
        assert old in contents
        (run / name).write_text(contents.replace(old, json.dumps(HOSTILE)[1:-1]))
    out = tmp_path / "report.html"
    plain = make_run(tmp_path / "plain", screen)
    for runs in [[run], [run, plain]]:
        page = report(out, *runs)
        assert "<img" not in page and page.count("<script") == 1
        document = expect_quiet(out, tmp_path)
        assert "<title>broken" not in document and HOSTILE in text_of(document)
