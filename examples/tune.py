"""Tunes a config of `lacuna train` with Optuna: trials are runs, bad ones are ended early, a study goes on where it ended.

    python examples/tune.py CONFIG OUT --trials 20 --set screen=out/collins2007
    python examples/tune.py CONFIG OUT --trials 20          # twenty more

A trial is one run, OUT/trial-0007, with settings drawn by Optuna; what is searched stands in `suggest()`: change that. After
every epoch its best validation Pearson so far is told to Optuna, and a trial that lies behind the others is stopped (the
run can be resumed by hand). The study is OUT/study.db: stopped by Ctrl-C or SIGTERM (exit code 75) or killed at any moment,
the same command goes on, and takes up the trial that was cut off where its last checkpoint is. OUT/tuned.svg shows every
trial, OUT/best.yaml is the config of the best one.

Only the validation part is looked at: trials evaluate no test part. Tuning overfits that part as well, more so with every
trial, so say how many trials there were beside a number that comes from it, and look at the test part once, at the end:

    lacuna train OUT/best.yaml --out OUT/final
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SEED = 1  # of the search, and the trials that are there; a trial's own train.seed is the config's


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


def end_with_parent():
    """In the child: SIGTERM when this script dies, also of kill -9, so that no training is left behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def wait_until_free(run):
    """A training whose parent was killed is still writing its checkpoint: its lock is free when it has ended."""
    if (lock := run / "lock").exists():
        with lock.open("r+") as file, contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)


def run_of(trial, out):
    """The folder of a trial's run; of one that was taken up, that of the trial that was cut off."""
    return out / trial.user_attrs.get("run", f"trial-{trial.number:04d}")


def run_trial(trial, arguments, out):
    """Trains a run and gives its best validation score; raises TrialPruned where Optuna wants it ended, and
    KeyboardInterrupt where the training was stopped."""
    import optuna

    settings = {**dict(word.split("=", 1) for word in arguments.set), **suggest(trial), "evaluate.parts": "[validation]",
                "evaluate.baselines": "false", "evaluate.bootstrap": 0}
    run = run_of(trial, out)
    wait_until_free(run)
    command = [arguments.lacuna, "train", arguments.config, "--out", run, "--resume"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    with (out / f"{run.name}.log").open("a") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, preexec_fn=end_with_parent)
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
    if process.returncode == 75:  # stopped from outside: no score yet
        raise KeyboardInterrupt
    if process.returncode != 0 or not scores:
        raise RuntimeError(f"{run} failed; {run}.log says why")
    return max(scores)


def take_up(study, out):
    """Trials that were running when the last call ended are queued once more, with their settings and their folder."""
    from optuna.trial import TrialState

    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.enqueue_trial(trial.params, user_attrs={"goes_on": trial.number, "run": run_of(trial, out).name})
        study.tell(trial.number, state=TrialState.FAIL)


def search(study, arguments):
    """The trials, one after another. One that is stopped stays as it is, so that the next call takes it up."""
    import optuna
    from optuna.trial import TrialState

    for _ in range(arguments.trials):
        trial = study.ask()
        try:
            score = run_trial(trial, arguments, arguments.out)
        except optuna.TrialPruned as pruned:
            study.tell(trial, state=TrialState.PRUNED)
            print(f"trial {trial.number}: {pruned}", flush=True)
        except RuntimeError as error:
            study.tell(trial, state=TrialState.FAIL)
            print(f"trial {trial.number}: {error}", flush=True)
        else:
            study.tell(trial, score)
            print(f"trial {trial.number}: validation Pearson {score:.4f}, {trial.params}", flush=True)


def stop(*_):
    for number in (signal.SIGTERM, signal.SIGHUP):  # once is enough: the run is writing its checkpoint
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


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
        direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2),
    )
    take_up(study, arguments.out)
    # Another seed a call: the same one would draw the first trials once more.
    study.sampler = optuna.samplers.TPESampler(seed=SEED + len(study.trials))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        search(study, arguments)
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        sys.exit(75)
    finished = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    if not finished:
        sys.exit(f"no trial has finished; {arguments.out}/trial-*.log say why")
    best = study.best_trial
    gone_on = {t.user_attrs.get("goes_on") for t in study.trials}
    count = sum(t.number not in gone_on for t in study.trials)  # one that was cut off and taken up is one trial
    draw(study, arguments.out / "tuned.svg")
    config = (run_of(best, arguments.out) / "config.yaml").read_text().split("\n")
    config = [line for line in config if not line.startswith("#")]  # its checksum: this is another file
    at = config.index("evaluate:")
    settings = ["evaluate:", "  parts: [validation, test]", "  baselines: true", "  bootstrap: 1000"]
    rest = [line for line in config[at + 1 :]]
    while rest and rest[0].startswith(" "):
        rest.pop(0)
    head = [f"# The best of {count} trials ({len(finished)} finished), validation Pearson {best.value:.4f}."]
    (arguments.out / "best.yaml").write_text("\n".join([*head, *config[:at], *settings, *rest]) + "\n")
    print(f"{count} trials, {len(finished)} finished; the best is trial {best.number}, "
          f"validation Pearson {best.value:.4f}: {best.params}")
    print(f"{arguments.out}/best.yaml, {arguments.out}/tuned.svg")


if __name__ == "__main__":
    main()
