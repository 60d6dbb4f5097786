"""How well predictions are, beside the simple baselines."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from . import _core
from ._pandas import load_pandas
from ._program import call
from .screen import Screen


class Evaluation:
    """Metrics of a model and of the simple baselines, by part and label, with intervals (docs/evaluation.md); of a run on
    a recording by part and session (docs/recordings.md).

    Attributes:
        path: the directory that holds it, a run's or one that :func:`evaluate` wrote.
        contents: evaluation.json as it stands, or recording_evaluation.json.
        text: what the program said.
    """

    def __init__(self, path: str | os.PathLike, text: str = ""):
        self.path, self.text = Path(path), text
        files = [self.path / name for name in ("evaluation.json", "recording_evaluation.json")]
        file = next((file for file in files if file.exists()), None)
        if file is None:
            raise _core.Error(f"{self.path} has no evaluation; `lacuna evaluate {self.path}` makes one")
        self.contents = json.loads(file.read_text())

    def to_pandas(self):
        """A row a part, label and predictor, the model first: pearson, spearman, mse and their intervals. Of a recording a
        row a part, session (the last is ``mean of sessions``) and predictor: bits_per_spike, correlation, and lead, the
        bits by which the model is ahead, with their intervals."""
        pd = load_pandas("Evaluation.to_pandas()")
        if self.contents.get("format") == "lacuna.recording_evaluation":
            return pd.DataFrame(_recording_rows(self.contents["parts"]))
        rows = []
        for part, contents in self.contents["parts"].items():
            for label, scores in contents["labels"].items():
                all_scores = {"model": scores["model"], **scores.get("baselines", {})}
                for predictor, found in all_scores.items():
                    rows.append({"part": part, "label": label, "predictor": predictor} | _numbers(found))
        return pd.DataFrame(rows)

    def report(self, out: str | os.PathLike) -> Path:
        """Writes the HTML report and returns its path."""
        call("report", self.path, "--out", out)
        return Path(out)

    def __repr__(self) -> str:
        return self.text or f"Evaluation({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return self.to_pandas().to_html(index=False, float_format=lambda value: f"{value:.4g}")


def evaluate(
    screen: Screen | str | os.PathLike,
    split: str,
    predictions,
    labels: str | Sequence[str] = (),
    out: str | os.PathLike | None = None,
    baselines: bool = True,
) -> Evaluation:
    """Evaluates any model's predictions as `lacuna evaluate` does a run's: the same baselines, metrics, intervals.

    Args:
        screen: the screen, or its path.
        split: name of the split; its test part, and its validation part if you predicted it, are evaluated.
        predictions: [S] or [S, L] over all samples of the screen, NaN where you predicted nothing; or a mapping or
            DataFrame with a column ``sample`` (their numbers) and one a label, or ``prediction``.
        labels: which labels of the screen; none: all.
        out: a new directory for the evaluation, which `lacuna report` reads too; None: one that goes with the process.
        baselines: fit the simple baselines beside it (seconds to minutes).
    """
    screen = screen if isinstance(screen, Screen) else Screen.open(screen)
    labels = [labels] if isinstance(labels, str) else list(labels)
    names = labels or screen.label_names
    values = _over_all_samples(predictions, len(screen), names)
    folder = Path(out) if out is not None else _kept_folder() / "evaluation"
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, values)
        file.flush()
        words = ["evaluate", "--predictions", file.name, "--screen", screen.path, "--split", split, "--out", folder]
        words += [word for name in labels for word in ("--label", name)]
        text = call(*words, *([] if baselines else ["--without-baselines"]))
    return Evaluation(folder, text.partition("\n")[2])


_folders: list[tempfile.TemporaryDirectory] = []


def _kept_folder() -> Path:
    _folders.append(tempfile.TemporaryDirectory(prefix="lacuna-evaluation-"))
    return Path(_folders[-1].name)


def _over_all_samples(predictions, samples: int, names: list[str]) -> np.ndarray:
    if hasattr(predictions, "keys") and "sample" in predictions:
        columns = [name if name in predictions else "prediction" for name in names]
        values = np.full((samples, len(names)), np.nan, dtype=np.float32)
        numbers = _sample_numbers(_array(predictions["sample"]), samples)
        for l, column in enumerate(columns):
            if column not in predictions:
                raise _core.UsageError(f"predictions has no column {names[l]!r}, and no column 'prediction'")
            given = _floats(_array(predictions[column]), f"column {column!r}")
            if given.shape != numbers.shape:
                raise _core.UsageError(
                    f"predictions: column {column!r} has shape {list(given.shape)}, but there are {len(numbers)} sample "
                    "numbers; give one number a sample"
                )
            values[numbers, l] = given
        return values
    if isinstance(predictions, Mapping):
        there = ", ".join(map(repr, predictions)) or "nothing"
        raise _core.UsageError(f"predictions has no column 'sample', the numbers of the samples; it has {there}")
    values = _floats(_array(predictions), "what is given")
    if values.ndim:
        values = values.reshape(len(values), -1)
    if values.shape != (samples, len(names)):
        raise _core.UsageError(
            f"predictions have shape {list(values.shape)}, but the screen has {samples} samples and "
            f"{len(names)} predicted labels ({', '.join(names)})"
        )
    return np.ascontiguousarray(values)


def _array(values) -> np.ndarray:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _floats(values: np.ndarray, what: str) -> np.ndarray:
    try:
        return values.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise _core.UsageError(f"predictions: {what} is not made of numbers: {error}") from None


def _sample_numbers(numbers: np.ndarray, samples: int) -> np.ndarray:
    """Checked: whole numbers of samples that the screen has, none twice."""
    if numbers.ndim != 1:
        raise _core.UsageError(f"predictions: column 'sample' has shape {list(numbers.shape)}, but [S] is needed")
    is_whole = numbers.dtype.kind in "iu" or not len(numbers)
    if numbers.dtype.kind == "O":  # as pandas gives integers that may be missing
        is_whole = all(isinstance(number, (int, np.integer)) for number in numbers)
    if not is_whole:
        raise _core.UsageError(
            f"predictions: column 'sample' is of {numbers.dtype}, but the numbers of samples are whole; "
            "`.astype(int)` makes them so where none is missing"
        )
    outside = np.flatnonzero((numbers < 0) | (numbers >= samples))
    if len(outside):
        raise _core.UsageError(
            f"predictions: row {outside[0]} is of sample {numbers[outside[0]]}, but the screen has {samples} samples "
            f"(0 to {samples - 1}); were they made for another screen?"
        )
    numbers = numbers.astype(np.int64)
    found, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        raise _core.UsageError(f"predictions: sample {found[counts > 1][0]} stands there twice; give one row a sample")
    return numbers


def _recording_rows(parts: list[dict]) -> list[dict]:
    rows = []
    for part in parts:
        sessions = [session["all"] for session in part["sessions"]]
        for session in [*sessions, {"name": "mean of sessions", "scores": part["scores"]}]:
            for score in session["scores"]:
                row = {"part": part["part"], "session": session["name"], "predictor": score["predictor"]}
                row |= {count: session.get(count) for count in ("trials", "spikes")}
                for metric in ("bits_per_spike", "correlation", "lead"):
                    row[metric], row[f"{metric}_low"], row[f"{metric}_high"] = score[metric]
                rows.append(row)
    return rows


def _numbers(scores: dict) -> dict:
    row = {"count": scores["count"]}
    for metric in ("pearson", "spearman", "mse"):
        row[metric] = scores[metric]
        if metric in scores.get("interval", {}):
            row[f"{metric}_low"], row[f"{metric}_high"] = scores["interval"][metric]
    return row
