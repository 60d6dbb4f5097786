"""Runs of `lacuna train`, read back: settings, metrics, evaluation, predictions."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import _core
from ._pandas import load_pandas
from ._program import call
from .evaluation import Evaluation
from .recording import Recording
from .screen import Screen

if TYPE_CHECKING:
    import torch

    from .nn import Model


class Run:
    """The directory of a run. Make one with :meth:`open` or :meth:`train`.

    Attributes:
        path: where it lies.
        info: run.json as it stands: status, versions, counts.
    """

    def __init__(self, path: Path, info: dict, core: _core.Run):
        self.path, self.info, self._core = path, info, core

    @classmethod
    def open(cls, path: str | os.PathLike) -> Run:
        """Opens a run, whole or not; files that are damaged are named."""
        file = Path(path) / "run.json"
        if not file.exists():
            raise _core.Error(f"{path} is not a run (it has no run.json); `lacuna train CONFIG --out {path}` makes one")
        return cls(Path(path), json.loads(file.read_text()), _core.Run.open(Path(path)))

    @classmethod
    def train(
        cls,
        config: Mapping | str | os.PathLike,
        out: str | os.PathLike,
        resume: bool = False,
        show: bool = True,
        **settings: object,
    ) -> Run:
        """`lacuna train` from Python: trains, evaluates, and opens the run.

        Args:
            config: a YAML file, or a mapping of what stands there: ``{"screen": screen, "train": {"epochs": 20}}``.
            out: the run's directory.
            resume: go on with the run that lies there.
            show: a line an epoch while it trains, and the table of its evaluation.
            settings: keys over the config, ``__`` for ``.``: ``train__lr=1e-3``.
        """
        words = ["--out", out, *(["--resume"] if resume else [])]
        for key, value in settings.items():
            words += ["--set", f"{key.replace('__', '.')}={value}"]
        with tempfile.TemporaryDirectory(prefix="lacuna-train-") as folder:
            if isinstance(config, Mapping):
                file = Path(folder) / "config.yaml"  # JSON is YAML
                file.write_text(json.dumps(dict(config), default=_plain))
                config = file
            call("train", config, *words, show=show, live=True)
        return cls.open(out)

    @property
    def status(self) -> str:
        """running, finished, stopped or failed."""
        return self.info["status"]

    @property
    def config(self) -> str:
        """config.yaml: every setting, resolved."""
        return self._core.config

    @property
    def settings(self) -> dict[str, str]:
        """The same by name: ``{"train.lr": "1e-3", ...}``."""
        return self._core.settings

    def metrics(self):
        """A DataFrame with a row an epoch: step, train_loss, and ``LABEL:METRIC`` of the validation part
        (``SESSION:METRIC`` of a recording)."""
        pd = load_pandas("Run.metrics()")
        rows = []
        for entry in self._core.epochs:
            row = {key: entry[key] for key in ("epoch", "step", "train_loss", "seconds")}
            for label, metrics in (entry.get("validation") or {}).items():
                if isinstance(metrics, dict):
                    row |= {f"{label}:{metric}": value for metric, value in metrics.items() if metric != "count"}
            rows.append(row)
        return pd.DataFrame(rows)

    @property
    def evaluation(self) -> Evaluation:
        """Of its model beside the simple baselines; raises lacuna.Error where it was not evaluated."""
        return Evaluation(self.path)

    def predictions(self, part: str = "test") -> dict[str, np.ndarray]:
        """What the evaluation predicted of a part: sample [S], predicted and measured [S, L]."""
        self._refuse_recording("keeps no predictions of samples")
        folder = self.path / "predictions"
        if not (folder / f"{part}.predicted.npy").exists():
            raise _core.Error(f"{self.path} has no predictions of the {part} part; `lacuna evaluate` makes them")
        return {name: np.load(folder / f"{part}.{name}.npy") for name in ("sample", "predicted", "measured")}

    def predict(self, samples: Iterable[Sequence[str]], checkpoint: str | None = None):
        """What the run's model predicts for gene sets: a DataFrame with a row each.

        Args:
            samples: lists of gene names, one a sample to predict; a name alone is a sample that removes this gene.
            checkpoint: last, best_pearson or best_mse; None: best_pearson where there is one.
        """
        pd = load_pandas("Run.predict()")
        self._refuse_recording("predicts no gene sets")
        lists = gene_lists(samples)
        with tempfile.TemporaryDirectory() as folder:
            listed, out = Path(folder) / "samples.txt", Path(folder) / "predicted.csv"
            listed.write_text("".join((" ".join(map(_quoted, genes)) or "-") + "\n" for genes in lists))
            words = ["predict", self.path, "--samples", listed, "--out", out]
            try:
                call(*words, *([] if checkpoint is None else ["--checkpoint", checkpoint]))
            except _core.Error as error:  # in terms of what was given: nobody can open the file
                said = re.sub(rf"{re.escape(str(listed))}:(\d+)", lambda line: f"samples[{int(line[1]) - 1}]", str(error))
                raise type(error)(said.replace(str(listed), "samples")) from None
            return pd.read_csv(out)

    def checkpoint(self, name: str | None = None) -> Path:
        """The file of a checkpoint: last, best_pearson or best_mse; of a recording last, best_bits_per_spike or
        best_correlation. None: best_pearson or best_bits_per_spike where there is one, else last."""
        folder = self.path / "checkpoints"
        for wanted in [name] if name else ["best_pearson", "best_bits_per_spike", "last"]:
            if (file := folder / f"{wanted}.safetensors").exists():
                return file
        there = ", ".join(sorted(file.stem for file in folder.glob("*.safetensors"))) or "none"
        raise _core.Error(f"{self.path} has no checkpoint {name or 'yet'!r}; it has: {there}")

    def model(
        self,
        checkpoint: str | None = None,
        screen: Screen | str | os.PathLike | None = None,
        device: torch.device | str | None = None,
    ) -> Model:
        """The run's model as a torch module with its trained weights, set to ``eval()``.

        ``model.predict(removed, ptr)`` gives what `lacuna predict` gives, in the labels' units, and passes gradients;
        ``model(removed, ptr)`` is standardised. It computes in f32, also where the run was trained in bf16.

        Args:
            checkpoint: last, best_pearson or best_mse; None: best_pearson where there is one.
            screen: where the screen has moved to; None: the run's.
            device: where to put it; None: the CPU.
        """
        import torch

        from . import nn

        self._refuse_recording("has a model that lacuna.nn has not")
        found = nn.load_checkpoint(self.checkpoint(checkpoint))
        screen = self.info["screen"]["path"] if screen is None else screen
        screen = screen if isinstance(screen, Screen) else Screen.open(screen)
        networks, parts = None, _core.graph_fingerprint(screen._core)
        if self.settings["graph"] == "shuffled":
            edges, parts = _core.shuffled_graph(screen._core, int(self.settings["train.seed"]))
            networks = dict(edges)
        found.check_graph(parts, str(screen.path))
        with torch.random.fork_rng(devices=[]):  # first weights are drawn, and then replaced
            model = nn.make_model(found.settings, nn.GeneGraph.of(screen, networks), len(found.label_names))
        found.load_into(model)
        return model.eval().to(device)

    def _refuse_recording(self, what: str) -> None:
        if self.info.get("recording"):
            raise _core.UsageError(
                f"{self.path} is the run of a recording, which {what}; `lacuna predict {self.path} --out FOLDER` writes "
                "its rates, run.evaluation has its scores"
            )

    def report(self, out: str | os.PathLike) -> Path:
        """Writes the HTML report and returns its path."""
        call("report", self.path, "--out", out)
        return Path(out)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.status})"


def gene_lists(samples: Iterable[Sequence[str]]) -> list[list[str]]:
    """Samples as lists of names. A name alone is a list of one: letter by letter it would mean nothing."""
    if isinstance(samples, str):
        raise _core.UsageError(
            f"samples is {samples!r}, but a list of samples is needed, a list of gene names each: [[{samples!r}]]"
        )
    lists = [[sample] if isinstance(sample, str) else list(sample) for sample in samples]
    for number, sample in enumerate(lists):
        for name in sample:
            if not isinstance(name, str):
                raise _core.UsageError(
                    f"samples[{number}] has {name!r}, but genes are given by their names; screen.genes has them"
                )
    return lists


def _quoted(name: str) -> str:
    """A name as a word of a list of samples, whatever is in it; a line's end would begin another sample."""
    return '"' + name.replace('"', '""').replace("\n", " ") + '"'


def _plain(value: object) -> object:
    """What JSON has no words for, as a config has it."""
    if isinstance(value, (Screen, Recording)):
        return str(value.path)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise _core.UsageError(f"config has {value!r}, which no config can have; give words, numbers, lists or mappings")
