"""An ordinary Lightning + PyG model over copies of a graph with masked edges, and the same on Lacuna.

python examples/port_pyg.py [--size small] [--steps 8]

Prints the largest difference of their predictions from the same weights, and the ratio of their step times. The
difference between the classes Before and After is all that the port takes; Copies and copies_of_the_graph are no longer
needed then. docs/pyg.md shows it.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch_geometric.nn import GINConv

import lacuna

BATCH = 28


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


class Copies(Dataset):
    """A sample at a time: which edges of each type it keeps, and its label."""

    def __init__(self, screen: lacuna.Screen, part: str):
        self.screen, self.samples = screen, screen.split("random").samples(part)
        self.edges = {name: torch.from_numpy(e.astype("int64")) for (s, name, t), e in screen.edges().items() if s == t == "gene"}

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> dict:
        sample, screen = self.samples[i], self.screen
        keep = torch.ones(len(screen.genes), dtype=torch.bool)
        keep[screen.removed[screen.ptr[sample] : screen.ptr[sample + 1]].astype("int64")] = False
        edges = {name: edge[:, keep[edge[0]] & keep[edge[1]]] for name, edge in self.edges.items()}
        return {"edges": edges, "genes": len(keep), "label": torch.from_numpy(screen.labels[sample].copy())}


def copies_of_the_graph(samples: list[dict]) -> dict:
    """The kept edges of all copies, one graph beside the other."""
    shifted = {
        name: torch.cat([one["edges"][name] + b * one["genes"] for b, one in enumerate(samples)], dim=1)
        for name in samples[0]["edges"]
    }
    return {"edges": shifted, "label": torch.stack([one["label"] for one in samples])}


class Before(lightning.LightningModule):
    def __init__(self, screen: lacuna.Screen, width: int = 32, layers: int = 2):
        super().__init__()
        self.screen, self.num_genes = screen, len(screen.genes)
        names = screen.graph.types
        self.table = nn.Parameter(torch.randn(self.num_genes, width))
        self.layers = nn.ModuleList(nn.ModuleDict({name: GINConv(mlp(width)) for name in names}) for _ in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, batch):
        x = self.table.repeat(len(batch["label"]), 1)  # [B * N, H]
        for layer in self.layers:
            x = sum(conv(x, batch["edges"][name]) for name, conv in layer.items()).relu()
        return self.head(x.view(-1, self.num_genes, x.shape[-1]).mean(1))

    def training_step(self, batch, _):
        return nn.functional.mse_loss(self(batch), batch["label"])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def batches(self, part):
        copies = Copies(self.screen, part)
        return DataLoader(copies, BATCH, shuffle=part == "train", collate_fn=copies_of_the_graph)


class After(lightning.LightningModule):
    def __init__(self, screen: lacuna.Screen, width: int = 32, layers: int = 2):
        super().__init__()
        self.screen, self.num_genes = screen, len(screen.genes)
        names = screen.graph.types
        self.table = nn.Parameter(torch.randn(self.num_genes, width))
        self.layers = nn.ModuleList(nn.ModuleDict({name: GINConv(mlp(width)) for name in names}) for _ in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, batch):
        x = self.table.unsqueeze(1).repeat(1, len(batch["label"]), 1)  # [N, B, H]
        for layer in self.layers:
            sums = lacuna.aggregate(self.screen.graph, x, batch["removed"], batch["ptr"])  # [types, N, B, H]
            x = sum(conv.nn(x + s) for conv, s in zip(layer.values(), sums)).relu()
        return self.head(x.mean(0))

    def training_step(self, batch, _):
        return nn.functional.mse_loss(self(batch), batch["label"])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def batches(self, part):
        return lacuna.Loader(self.screen, BATCH, split="random", part=part)


class StepTimes(lightning.Callback):
    """Seconds from the end of a step to the end of the next, its batch included."""

    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, *_):
        self.ends.append(time.perf_counter())

    def median(self) -> float:
        steps = [after - before for before, after in zip(self.ends, self.ends[1:])]
        return statistics.median(steps[1:] or steps)


def step_time(model: lightning.LightningModule, steps: int) -> float:
    times = StepTimes()
    trainer = lightning.Trainer(
        max_steps=steps, max_epochs=-1, accelerator="cpu", callbacks=[times], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
    )
    trainer.fit(model, model.batches("train"))
    return times.median()


@torch.no_grad()
def predictions(model: lightning.LightningModule) -> torch.Tensor:
    return torch.cat([model(batch) for batch in model.batches("test")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", help="of the synthetic screen: tiny, mini, small, yeast")
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        screen = lacuna.Screen.generate(Path(folder) / "screen", size=options.size, samples=400, seed=1)
        screen.make_split("random", fractions=(0.8, 0.1, 0.1))
        torch.manual_seed(1)
        before, after = Before(screen), After(screen)
        after.load_state_dict(before.state_dict())
        difference = (predictions(before) - predictions(after)).abs().max().item()
        print(f"largest difference of predictions: {difference:.2g}")
        seconds = step_time(before, options.steps), step_time(after, options.steps)
        print(f"a step of {BATCH} samples: {seconds[0] * 1e3:.1f} ms before, {seconds[1] * 1e3:.1f} ms after: "
              f"{seconds[0] / seconds[1]:.1f} times as fast")


if __name__ == "__main__":
    main()
