"""How well predictions are, beside the simple baselines."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import _core
from ._program import call
from .screen import Screen


class Evaluation:
    """Metrics of a model and of the simple baselines, by part and label, with intervals (docs/evaluation.md).

    Attributes:
        path: the directory that holds it, a run's or one that :func:`evaluate` wrote.
        contents: evaluation.json as it stands.
        text: what the program said.
    """

    def __init__(self, path: str | os.PathLike, text: str = ""):
        self.path, self.text = Path(path), text
        file = self.path / "evaluation.json"
        if not file.exists():
            raise _core.Error(f"{self.path} has no evaluation; `lacuna evaluate {self.path}` makes one")
        self.contents = json.loads(file.read_text())

    def to_pandas(self):
        """A row a part, label and predictor, the model first: pearson, spearman, mse and their intervals."""
        import pandas as pd

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
        numbers = np.asarray(predictions["sample"])
        if len(np.unique(numbers)) != len(numbers):
            raise _core.UsageError("predictions: a sample stands there twice")
        for l, column in enumerate(columns):
            if column not in predictions:
                raise _core.UsageError(f"predictions has no column {names[l]!r}, and no column 'prediction'")
            values[numbers, l] = np.asarray(predictions[column], dtype=np.float32)
        return values
    values = predictions.detach().cpu().numpy() if hasattr(predictions, "detach") else np.asarray(predictions)
    values = values.astype(np.float32).reshape(len(values), -1)
    if values.shape != (samples, len(names)):
        raise _core.UsageError(
            f"predictions have shape {list(values.shape)}, but the screen has {samples} samples and "
            f"{len(names)} predicted labels ({', '.join(names)})"
        )
    return np.ascontiguousarray(values)


def _numbers(scores: dict) -> dict:
    row = {"count": scores["count"]}
    for metric in ("pearson", "spearman", "mse"):
        row[metric] = scores[metric]
        if metric in scores.get("interval", {}):
            row[f"{metric}_low"], row[f"{metric}_high"] = scores["interval"][metric]
    return row
