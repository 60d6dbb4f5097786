"""A screen one sample at a time, for those who look at samples or have a DataLoader to feed.

For training take ``lacuna.Loader``, which is far faster and makes no masks.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import _core
from .screen import Screen


class Dataset(torch.utils.data.Dataset):
    """``dataset[i]`` is a dict of everything about one sample:

    - ``sample``: its number in the screen
    - ``removed``: names of the removed genes; ``removed_genes`` [k] int64, their indices
    - ``label`` [L] float32, NaN = not measured
    - ``masks``: by node type ("gene") and edge type ("gene.physical.gene"), [elements] bool, True where kept
    - ``columns``: by name, a number or the name of a category (None: unknown)

    Args:
        screen: a ``lacuna.Screen``, or its path.
        split: name of a split; None: all samples.
        part: train, validation or test, of the split.
        masks: False leaves them out.
    """

    def __init__(
        self, screen: Screen | str | os.PathLike, split: str | None = None, part: str | None = None, masks: bool = True
    ):
        self.screen = screen if isinstance(screen, Screen) else Screen.open(screen)
        if part is not None and split is None:
            raise _core.UsageError(f"part {part!r} of which split? Give split, too")
        if split is None:
            self.samples = np.arange(len(self.screen))
        else:
            self.samples = self.screen.split(split).samples(part or "train")
        self._sections = _core.mask_sections(self.screen._core) if masks else []
        self._table: list[Tensor] | None = None

    def __len__(self) -> int:
        """Samples of the split's part, or of the screen."""
        return len(self.samples)

    def __getitem__(self, i: int) -> dict:
        """Everything about the i-th of its samples; negative i count from the end."""
        place = operator.index(i)
        if not -len(self) <= place < len(self):
            raise IndexError(f"sample {place} of {len(self)}")
        sample = int(self.samples[place])
        screen = self.screen
        removed = screen.removed[screen.ptr[sample] : screen.ptr[sample + 1]].astype(np.int64)
        return {
            "sample": sample,
            "removed": [screen.genes[gene] for gene in removed],
            "removed_genes": removed,
            "label": np.array(screen.labels[sample]),
            "masks": self._masks(removed),
            "columns": {name: _entry(column, sample) for name, column in screen.columns.items()},
        }

    def _masks(self, removed: np.ndarray) -> dict[str, np.ndarray]:
        if not self._sections:
            return {}
        if self._table is None:
            table = _core.mask_table(self.screen._core)
            self._table = [torch.from_numpy(part.view(np.int32).copy()) for part in table]
        counts = [count for _, count, _ in self._sections]
        genes = torch.from_numpy(removed.astype(np.int32))
        ptr = torch.tensor([0, len(removed)], dtype=torch.int32)
        record = torch.ops.lacuna.masks(self._table, counts, genes, ptr)[0].numpy()
        return {name: record[begin : begin + count].view(bool) for name, count, begin in self._sections}

    def __getstate__(self) -> dict:
        """For workers of a DataLoader: the screen is opened again where it arrives, and the table made there."""
        return {**self.__dict__, "_table": None}

    def __repr__(self) -> str:
        return f"Dataset({str(self.screen.path)!r}: {len(self):,} samples)"


def collate(samples: Sequence[dict]) -> dict:
    """A batch of samples as ``lacuna.Loader`` gives it: ``sample`` [B], ``removed``, ``ptr`` [B + 1], ``label``
    [B, L], ``masks`` ([B, elements] by name, if the dataset makes them); and ``columns``, a list [B] by name.

        torch.utils.data.DataLoader(lacuna.Dataset(screen), batch_size=28, collate_fn=lacuna.collate)
    """
    counts = [len(one["removed_genes"]) for one in samples]
    batch = {
        "sample": torch.tensor([one["sample"] for one in samples]),
        "removed": torch.from_numpy(np.concatenate([one["removed_genes"] for one in samples]).astype(np.int32)),
        "ptr": torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32),
        "label": torch.from_numpy(np.stack([one["label"] for one in samples])),
        "columns": {name: [one["columns"][name] for one in samples] for name in samples[0]["columns"]},
    }
    if names := list(samples[0]["masks"]):
        batch["masks"] = {name: torch.from_numpy(np.stack([one["masks"][name] for one in samples])) for name in names}
    return batch


def _entry(column, sample: int) -> float | int | str | None:
    value = column.values[sample].item()
    if not column.categories:
        return value
    return column.categories[value] if value < len(column.categories) else None
