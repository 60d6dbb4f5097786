"""Checkpoints of `lacuna train`: weights by name, and what belongs to them (docs/runs.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .. import _core
from .model import Model

_OPTIMISER = "optimizer."


class Checkpoint:
    """A checkpoint as it lies in its file; make one with :func:`load_checkpoint`.

    Attributes:
        path: of the file.
        weights: the model's parameters by name; ``model.load_state_dict(checkpoint.weights)``.
        optimiser: the moments, by their names in the file.
        settings: of the model: its name, and its own keys.
        label_names, label_mean, label_sd: [L] of the labels that were predicted, and their scale.
        hidden: of a run with `train.hide`: its ``probability``, and the numbers of ``unseen`` genes; else None.
        fingerprint: hashes of the graph it was trained on, by part.
        about: everything that stands beside the weights, as in the file.
    """

    def __init__(self, path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]):
        self.path, self._metadata = path, dict(metadata)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        self.weights = {name: t for name, t in tensors.items() if not name.startswith(_OPTIMISER)}
        self.optimiser = {name: t for name, t in tensors.items() if name.startswith(_OPTIMISER)}
        self.about = json.loads(metadata.get("lacuna", "{}"))
        for member in ("labels", "model", "fingerprint"):
            if member not in self.about:
                raise _core.Error(f"{path}: '{member}' is missing; it is not the checkpoint of a model of a screen")
        self.settings = _settings(self.about["model"])
        labels = self.about["labels"]
        self.label_names, self.label_mean, self.label_sd = labels["names"], labels["mean"], labels["sd"]
        self.fingerprint: dict[str, str] = self.about["fingerprint"]
        self.hidden: dict | None = self.about.get("hidden")

    def load_into(self, model: Model) -> None:
        """Weights, the labels' scale and the genes that stay hidden. Raises lacuna.Error naming a parameter that does
        not fit."""
        if self.hidden is not None:
            model.hide_genes(self.hidden["unseen"], self.hidden["probability"])
        _check_fit(self.path, {name: p.shape for name, p in model.named_parameters()}, self.weights)
        model.load_state_dict(self.weights)
        model.label_names = list(self.label_names)
        model.label_mean.copy_(torch.tensor(self.label_mean, dtype=torch.float64))
        model.label_sd.copy_(torch.tensor(self.label_sd, dtype=torch.float64))

    def check_graph(self, parts: Mapping[str, str], where: str) -> None:
        """Raises lacuna.Error where the graph of these fingerprint parts is not what the model was trained on; what the
        model does not read may differ."""
        trained, here = (self._read_parts(found) for found in (self.fingerprint, parts))
        differing = [name for name in {**trained, **here} if trained.get(name) != here.get(name)]
        if differing:
            raise _core.Error(
                f"{self.path} was trained on another graph: {', '.join(differing)} differ from those of {where}; use the "
                "screen that it was trained on, or train anew"
            )

    def _read_parts(self, parts: Mapping[str, str]) -> dict[str, str]:
        return {name: hash for name, hash in parts.items() if _is_read(name, self.settings)}

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.weights.values())
        return f"Checkpoint({str(self.path)!r}: {self.settings['name']}, {count:,} parameters)"


def load_checkpoint(path: str | os.PathLike) -> Checkpoint:
    """Reads a checkpoint of a screen's model. Raises lacuna.Error where its bytes are not those that were written."""
    return Checkpoint(Path(path), *_core.read_checkpoint(Path(path)))


def save_checkpoint(
    model: nn.Module | Mapping[str, Tensor], path: str | os.PathLike, like: Checkpoint | str | os.PathLike | None = None
) -> Path:
    """Writes weights as a checkpoint that the program reads: `lacuna predict`, `evaluate`, `export`, `train --resume`.

    What belongs to the weights (settings, labels and their scale, fingerprint, progress, the optimiser's moments) is
    that of ``like``. Written whole or not at all.

    Args:
        model: a model with the program's parameter names, or its ``state_dict``.
        path: of the file; in a run, ``checkpoints/last.safetensors`` or one of the others.
        like: a checkpoint of the same model settings; None: the one that lies at ``path``.
    """
    path = Path(path)
    if like is None and not path.exists():
        raise _core.UsageError(f"there is no {path} to take settings and labels from; name another checkpoint as `like`")
    like = like if isinstance(like, Checkpoint) else load_checkpoint(path if like is None else like)
    state = model.state_dict() if isinstance(model, nn.Module) else model
    _check_fit(like.path, {name: tensor.shape for name, tensor in state.items()}, like.weights)
    tensors = {name: tensor.detach().to(like.weights[name].dtype) for name, tensor in state.items()} | like.optimiser
    arrays = {name: tensor.cpu().contiguous().numpy() for name, tensor in tensors.items()}
    metadata = {key: text for key, text in like._metadata.items() if key != "xxh3"}
    _core.write_checkpoint(path, arrays, metadata)
    return path


def _check_fit(path: Path, shapes: Mapping[str, torch.Size], weights: Mapping[str, Tensor]) -> None:
    for name in {**shapes, **weights}:
        if name not in weights:
            raise _core.Error(f"{path} has no '{name}'; was it made with other model settings?")
        if name not in shapes:
            raise _core.Error(f"{path} has '{name}', which the model has not; was it made with other model settings?")
        if shapes[name] != weights[name].shape:
            raise _core.Error(
                f"{path}: '{name}' has shape {list(weights[name].shape)}, the model's has {list(shapes[name])}; was it "
                "made with other settings?"
            )


def _is_read(part: str, settings: Mapping[str, object]) -> bool:
    """Whether a model of these settings reads this part of a graph's fingerprint."""
    features, names = settings.get("features", "none") != "none", settings.get("feature_names", [])
    metabolism = bool(settings.get("metabolism", False))
    if part == "genes" or (part.startswith("edges gene.") and part.endswith(".gene")):
        return True
    if part.startswith("features gene."):
        return features and (not names or part.removeprefix("features gene.") in names)  # type: ignore[operator]
    if part.startswith("values gene.") and ".gene." in part.removeprefix("values gene."):
        return settings.get("weights", "none") != "none"
    is_stoichiometry = part.startswith("values reaction.") and part.endswith(".coefficient")
    return metabolism and (part.startswith(("nodes ", "edges ")) or is_stoichiometry)


def _settings(text: str) -> dict[str, object]:
    """The model's settings: lines ``key: value`` of words, numbers, true, false and lists of words, these as ``[a, b]``
    or as lines ``- a`` behind their key."""
    settings: dict[str, object] = {}
    key = ""
    for line in text.splitlines():
        if line.strip().startswith("- "):
            settings[key] = [*(settings[key] or []), line.strip()[2:].strip("\"' ")]  # type: ignore[misc]
            continue
        key, _, value = line.partition(":")
        key = key.strip()
        settings[key] = _value(value.strip())
    return settings


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("[") and text.endswith("]"):
        return [word.strip("\"' ") for word in text[1:-1].split(",") if word.strip()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text.strip("\"'")
