"""Tunes a config of `lacuna train` with Optuna: trials are runs, bad ones are ended early, a study goes on where it ended.

    python examples/tune.py CONFIG OUT --trials 20 --set screen=out/collins2007
    python examples/tune.py CONFIG OUT --trials 20          # twenty more

A trial is one run, OUT/trial-0007, with settings drawn by Optuna; what is searched stands in `suggest()`: change that. After
every epoch its best validation Pearson so far is told to Optuna, and a trial that lies behind the others is stopped (the
run can be resumed by hand). The study is OUT/study.db: killed at any moment, the same command goes on, and takes up the
trial that was cut off. OUT/tuned.svg shows every trial, OUT/best.yaml is the config of the best one.

Only the validation part is looked at: trials evaluate no test part. Tuning overfits that part as well, more so with every
trial, so say how many trials there were beside a number that comes from it, and look at the test part once, at the end:

    lacuna train OUT/best.yaml --out OUT/final
"""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SEED = 1  # of the search; a trial's own train.seed is the config's


def suggest(trial):
    """The settings of a trial: the search space, of the model `factors`."""
    return {
        "train.lr": trial.suggest_float("train.lr", 5e-3, 5e-2, log=True),
        "train.hide": trial.suggest_float("train.hide", 0.1, 0.6),
        "model.shrink": trial.suggest_float("model.shrink", 1, 100, log=True),
        "model.similar": trial.suggest_categorical("model.similar", [0, 32]),
        "model.width": trial.suggest_categorical("model.width", [64, 128, 256]),
    }


def validation_scores(run):
    """Mean Pearson over the labels, an epoch each. A line that is being written is left for the next look."""
    metrics = run / "metrics.jsonl"
    if not metrics.exists():
        return []
    lines = [json.loads(line) for line in metrics.read_text().split("\n")[:-1]]
    scores = []
    for line in lines:
        if line["kind"] == "epoch":
            found = [label["pearson"] for label in line["validation"].values() if label.get("pearson") is not None]
            scores.append(sum(found) / len(found) if found else 0.0)
    return scores


def run_trial(trial, arguments, out):
    """Trains a run and gives its best validation score; raises TrialPruned where Optuna wants it ended."""
    import optuna

    settings = {**dict(word.split("=", 1) for word in arguments.set), **suggest(trial), "evaluate.parts": "[validation]",
                "evaluate.baselines": "false", "evaluate.bootstrap": 0}
    run = out / f"trial-{trial.number:04d}"
    command = [arguments.lacuna, "train", arguments.config, "--out", run, "--resume"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    with (out / f"{run.name}.log").open("a") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
    told = 0
    try:
        while True:
            is_over = process.poll() is not None
            scores = validation_scores(run)
            for epoch in range(told, len(scores)):
                trial.report(max(scores[: epoch + 1]), epoch)
            told = len(scores)
            if is_over:
                break
            if told and trial.should_prune():
                raise optuna.TrialPruned(f"behind the others after {told} epochs")
            time.sleep(arguments.look_every)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # it writes a checkpoint
            process.wait()
    if process.returncode == 75:  # stopped from outside: not a score
        raise KeyboardInterrupt
    if process.returncode != 0 or not scores:
        raise RuntimeError(f"{run} failed; {run}.log says why")
    return max(scores)


def draw(study, file):
    """Every trial's best validation score in the order of the trials, and the best so far."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    states = {"COMPLETE": ("finished", "tab:blue"), "PRUNED": ("ended early", "tab:gray")}
    for state, (name, colour) in states.items():
        found = [t for t in study.trials if t.state.name == state and (t.value is not None or t.intermediate_values)]
        heights = [t.value if t.value is not None else max(t.intermediate_values.values()) for t in found]
        axes.scatter([t.number for t in found], heights, color=colour, label=f"{name} ({len(found)})", zorder=2)
    best, so_far = float("-inf"), []
    for t in (t for t in study.trials if t.state.name == "COMPLETE"):
        best = max(best, t.value)
        so_far.append((t.number, best))
    axes.step(*zip(*so_far), where="post", color="tab:orange", label="best so far", zorder=1)
    axes.set_xlabel("trial")
    axes.set_ylabel("best validation Pearson")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a config of `lacuna train`")
    parser.add_argument("out", type=pathlib.Path, help="a folder for the study and its runs")
    parser.add_argument("--trials", type=int, default=20, help="how many more trials [20]")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every trial")
    parser.add_argument("--look-every", type=float, default=2, metavar="SECONDS", help="how often to look at a run [2]")
    parser.add_argument("--lacuna", default=shutil.which("lacuna") or "build/lacuna", help="the program")
    arguments = parser.parse_args()
    try:
        import optuna
    except ImportError:
        sys.exit("tune.py needs Optuna, which is not here: pip install optuna matplotlib")

    arguments.out.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="tune", storage=f"sqlite:///{arguments.out.resolve()}/study.db", load_if_exists=True,
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=SEED),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2),
    )
    for trial in study.trials:  # cut off with the last call: the same settings once more, in a run of its own
        if trial.state == optuna.trial.TrialState.RUNNING:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial(trial.params)
    study.optimize(lambda trial: run_trial(trial, arguments, arguments.out), n_trials=arguments.trials,
                   catch=(RuntimeError,))
    finished = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    if not finished:
        sys.exit(f"no trial has finished; {arguments.out}/trial-*.log say why")
    best = study.best_trial
    draw(study, arguments.out / "tuned.svg")
    config = (arguments.out / f"trial-{best.number:04d}" / "config.yaml").read_text().split("\n")
    config = [line for line in config if not line.startswith("#")]  # its checksum: this is another file
    at = config.index("evaluate:")
    settings = ["evaluate:", "  parts: [validation, test]", "  baselines: true", "  bootstrap: 1000"]
    rest = [line for line in config[at + 1 :]]
    while rest and rest[0].startswith(" "):
        rest.pop(0)
    head = [f"# The best of {len(study.trials)} trials ({len(finished)} finished), validation Pearson {best.value:.4f}."]
    (arguments.out / "best.yaml").write_text("\n".join([*head, *config[:at], *settings, *rest]) + "\n")
    print(f"{len(study.trials)} trials, {len(finished)} finished; the best is trial {best.number}, "
          f"validation Pearson {best.value:.4f}: {best.params}")
    print(f"{arguments.out}/best.yaml, {arguments.out}/tuned.svg")


if __name__ == "__main__":
    main()
