"""An ordinary LightningModule on a screen, on several ranks, killed in the middle of an epoch and resumed.

python examples/lightning_screen.py --devices 2

trains once without a break and once with two (kill -9 of every rank), and compares which samples every rank saw in every
step. What makes it exact is the loader's state, which Lightning saves and restores by itself; nothing here does.

    torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/lightning_screen.py --train SCREEN FOLDER --devices 2

is one training, which torchrun starts again where a rank dies.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import lacuna

EPOCHS, BATCH = 3, 24


class Model(lightning.LightningModule):
    """The effects of removed genes, added up."""

    def __init__(self, screen: lacuna.Screen):
        super().__init__()
        self.screen = screen
        self.effects = torch.nn.EmbeddingBag(len(screen.genes), 1, mode="sum", include_last_offset=True)

    def train_dataloader(self):  # called once the ranks have found each other
        return lacuna.Loader(self.screen, BATCH, split="random", seed=3)

    def val_dataloader(self):  # in the order of the samples
        return lacuna.Loader(self.screen, BATCH, split="random", part="validation")

    def loss(self, batch):
        return torch.nn.functional.mse_loss(self.effects(batch["removed"], batch["ptr"]), batch["label"])

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("validation_loss", self.loss(batch), batch_size=len(batch["label"]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Log(lightning.Callback):
    """Which samples this rank sees: a line a step. Kills the process behind step `die_at`."""

    def __init__(self, folder: Path, die_at: int | None):
        self.folder, self.die_at = folder, die_at

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        with open(self.folder / f"rank{trainer.global_rank}.log", "a") as file:
            file.write(f"{trainer.global_step} {' '.join(map(str, batch['sample'].tolist()))}\n")
        if trainer.global_step == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


class CountEpochs(lightning.Callback):
    """Going on from a checkpoint behind the last batch of an epoch, Lightning 2.6 counts the epoch as ended but not the next
    one as begun, takes the next checkpoint for one between epochs, and does not restore the loader from it."""

    def on_train_start(self, trainer, module):
        loop = trainer.fit_loop
        if loop.restarted_mid_epoch and loop.epoch_progress.current.ready == loop.epoch_progress.current.processed:
            loop.epoch_progress.increment_ready()
            loop.epoch_progress.increment_started()


def train(screen: lacuna.Screen, folder: Path, devices: int = 1, die_at: int | None = None) -> None:
    """Goes on from the last checkpoint in the folder, where there is one; checkpoints are written every other step."""
    lacuna.join_ranks()  # under torchrun: so that it can restart them
    keep = ModelCheckpoint(folder, every_n_train_steps=2, save_last=True, save_top_k=1)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", max_epochs=EPOCHS,
        use_distributed_sampler=False,  # the loader shares out every batch itself
        callbacks=[keep, Log(folder, die_at), CountEpochs()], logger=False, enable_progress_bar=False, enable_model_summary=False,
    )
    last = folder / "last.ckpt"
    trainer.fit(Model(screen), ckpt_path=last if last.exists() else None)


def seen(folder: Path) -> dict[tuple[int, int], str]:
    """The samples of every (rank, step); a step that was taken twice has to have the same."""
    found: dict[tuple[int, int], str] = {}
    for file in sorted(folder.glob("rank*.log")):
        for line in file.read_text().splitlines():
            step, _, samples = line.partition(" ")
            key = int(file.stem[4:]), int(step)
            if found.setdefault(key, samples) != samples:
                raise SystemExit(f"rank {key[0]} saw other samples in step {key[1]} than before it was killed")
    return found


def compare(screen: lacuna.Screen, folder: Path, devices: int) -> None:
    runs = {}
    plans: dict[str, list[int | None]] = {"whole": [None], "broken": [5, 11, None]}  # 7 steps an epoch
    for name, deaths in plans.items():
        (folder / name).mkdir()
        for death in deaths:
            words = [sys.executable, __file__, "--train", str(screen.path), str(folder / name), "--devices", str(devices)]
            done = subprocess.run([*words, *(["--die-at", str(death)] if death else [])])
            if (done.returncode != 0) != (death is not None):
                raise SystemExit(f"the training that is to die at {death} ended with {done.returncode}")
        runs[name] = seen(folder / name)
    if runs["whole"] != runs["broken"]:
        raise SystemExit("the broken run saw other samples than the whole one")
    samples = sum(len(line.split()) for line in runs["whole"].values())
    print(f"{devices} ranks, killed twice and resumed: the same {samples} samples in {len(runs['whole'])} batches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--train", nargs=2, type=Path, metavar=("SCREEN", "FOLDER"), help="one training only")
    parser.add_argument("--die-at", type=int, help="with --train: kill every rank behind this step")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    if options.train:
        train(lacuna.Screen.open(options.train[0]), options.train[1], options.devices, options.die_at)
        return
    with tempfile.TemporaryDirectory() as folder:
        screen = lacuna.Screen.generate(Path(folder) / "screen", size="tiny", seed=1)
        screen.make_split("random", fractions=(0.8, 0.1, 0.1))
        compare(screen, Path(folder), options.devices)


if __name__ == "__main__":
    main()
