"""Batches from Python, against the arrays of the screen."""

import copy
import inspect
import pickle
import pydoc
import re
import subprocess
import threading
import time

import numpy as np
import pytest
import torch
from loaders import growth_of_memory, said_after_a_fork

import lacuna
from lacuna.__main__ import program

pytest.importorskip("pandas")
PROGRAM = program()


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    path = tmp_path_factory.mktemp("loader") / "tiny"
    subprocess.run([PROGRAM, "generate", "screen", path, "--size", "tiny"], check=True, capture_output=True)
    screen = lacuna.Screen.open(path)
    screen.make_split("half", fractions=(0.5, 0.25, 0.25), seed=1)
    return screen


def numbers(batches):
    return [batch["sample"].tolist() for batch in batches]


def test_a_batch_is_its_samples(screen):
    loader = lacuna.Loader(screen, batch=16, columns=["truth_gene", "query_pair"])
    seen = []
    for batch in loader:
        for b, s in enumerate(batch["sample"].tolist()):
            genes = batch["removed"][batch["ptr"][b] : batch["ptr"][b + 1]]
            assert np.array_equal(genes, screen.removed[screen.ptr[s] : screen.ptr[s + 1]])
            assert np.array_equal(batch["label"][b], screen.labels[s], equal_nan=True)
            assert batch["truth_gene"][b] == screen.columns["truth_gene"].values[s]
            assert batch["query_pair"][b] == screen.columns["query_pair"].values[s]
        seen += batch["sample"].tolist()
    assert sorted(seen) == list(range(len(screen)))
    assert len(loader) == -(-len(screen) // 16)


def test_parts_and_chosen_samples(screen):
    split = screen.split("half")
    for part in ("train", "validation", "test"):
        loader = lacuna.Loader(screen, batch=7, split="half", part=part)
        assert sorted(sum(numbers(loader), [])) == split.samples(part).tolist()
    in_order = lacuna.Loader(screen, batch=3, samples=[5, 2, 9, 2], shuffle=False)
    assert numbers(in_order) == [[5, 2, 9], [2]]
    assert numbers(lacuna.Loader(screen, batch=3, samples=[5, 2, 9, 2], shuffle=False, drop_last=True)) == [[5, 2, 9]]


def test_epochs_differ_and_repeat(screen):
    loader = lacuna.Loader(screen, batch=16, seed=5)
    epochs = [numbers(loader) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    loader.set_epoch(1)
    assert numbers(loader) == epochs[1]
    loader.sampler.set_epoch(0)  # as Lightning calls it
    assert numbers(loader) == epochs[0]
    assert numbers(lacuna.Loader(screen, batch=16, seed=6)) != epochs[0]


def test_a_pass_left_early_is_not_resumed(screen):
    loader = lacuna.Loader(screen, batch=16, seed=5)
    epochs = [numbers(loader) for _ in range(2)]
    loader.set_epoch(0)
    next(iter(loader))
    assert numbers(loader) == epochs[1]


@pytest.mark.parametrize("threads", [0, 2])
def test_state_goes_on_exactly_twice_in_a_row(screen, threads):
    make = lambda: lacuna.Loader(screen, batch=8, seed=5, threads=threads)  # noqa: E731
    whole = sum((numbers(epoch) for epoch in [make()]), [])
    first = make()
    iterator = iter(first)
    begun = [next(iterator)["sample"].tolist() for _ in range(5)]
    second = make()
    second.load_state_dict(first.state_dict())
    second.set_epoch(second.epoch)  # Lightning does, and the place stays
    iterator = iter(second)
    begun += [next(iterator)["sample"].tolist() for _ in range(4)]
    third = make()
    third.load_state_dict(second.state_dict())
    assert begun + numbers(third) == whole
    with pytest.raises(lacuna.Error, match="global batch"):
        lacuna.Loader(screen, batch=9).load_state_dict(first.state_dict())


def test_ranks_share_the_batches_of_one(screen):
    alone = numbers(lacuna.Loader(screen, batch=12, seed=2))
    for world in (2, 3):
        loaders = [lacuna.Loader(screen, batch=12, seed=2, rank=r, world_size=world) for r in range(world)]
        assert [sorted(sum(parts, [])) for parts in zip(*map(numbers, loaders))] == [sorted(b) for b in alone]
        assert len({len(loader) for loader in loaders}) == 1
        assert all(loader.state_dict() == loaders[0].state_dict() for loader in loaders)


def test_a_kept_batch_never_changes(screen):
    loader = lacuna.Loader(screen, batch=4, threads=2, prefetch=2)
    kept = list(loader) + list(loader)
    copies = [{name: tensor.clone() for name, tensor in batch.items()} for batch in kept]
    for _ in range(3):
        for _ in loader:
            pass
    del loader
    for batch, copy in zip(kept, copies):
        assert all(torch.equal(batch[name], copy[name]) for name in ("sample", "removed", "ptr"))


@pytest.mark.parametrize("rung", ["worker", "ram:u8", "ram:bits", "device"])
def test_masks_of_every_rung_are_those_of_numpy(screen, rung, others={}):  # noqa: B006
    edges = {".".join(key): index for key, index in screen.edges().items() if key[0] == key[2] == "gene"}
    for batch in lacuna.Loader(screen, batch=16, samples=range(40), shuffle=False, rung=rung):
        kept = np.ones((len(batch["sample"]), len(screen.genes)), dtype=bool)
        for b, s in enumerate(batch["sample"].tolist()):
            kept[b, screen.removed[screen.ptr[s] : screen.ptr[s + 1]]] = False
        assert np.array_equal(batch["masks"]["gene"], kept)
        for key, (source, target) in edges.items():
            assert np.array_equal(batch["masks"][key], kept[:, source] & kept[:, target]), key
        others[rung] = batch["masks"]
    for key, mask in others["worker"].items():  # those of metabolism too
        assert torch.equal(mask, others[rung][key])


def test_what_cannot_work_is_named(screen):
    with pytest.raises(lacuna.Error, match="'rownig'|rownig"):
        lacuna.Loader(screen, rung="rownig")
    with pytest.raises(lacuna.Error, match="no split"):
        lacuna.Loader(screen, split="none")
    with pytest.raises(lacuna.Error, match="colour"):
        lacuna.Loader(screen, columns=["colour"])
    with pytest.raises(lacuna.UsageError, match="rank and world_size"):
        lacuna.Loader(screen, rank=1)
    with pytest.raises(lacuna.UsageError, match="part 'tset'"):
        lacuna.Loader(screen, split="half", part="tset")
    for samples, words in (
        ([0, -1], r"samples\[1\] is -1, but the screen has 200 samples \(0 to 199\)"),
        ([200], r"samples\[0\] is 200, but"),
        ([2**40], r"samples\[0\] is 1099511627776, but"),
        ([1.5], r"samples\[0\] is 1.5, of float64; sample numbers are integers"),
        ([[1, 2]], r"the shape \[1, 2\]"),
        (np.ones(200, bool), r"np.flatnonzero\(samples\)"),
    ):
        with pytest.raises(lacuna.UsageError, match=words):
            lacuna.Loader(screen, samples=samples)


def test_after_a_fork_it_says_what_to_do(screen):
    said = said_after_a_fork(lacuna.Loader(screen, batch=4))
    assert "forked" in said and "spawn" in said, said


def test_threads_have_a_loader_each(screen):
    """Of one screen, at the same time: each sees the order of its own seed."""
    alone = [numbers(lacuna.Loader(screen, batch=8, seed=seed)) for seed in range(4)]
    seen = [None] * 4

    def work(seed):
        seen[seed] = numbers(lacuna.Loader(screen, batch=8, seed=seed))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == alone


def test_two_threads_at_one_loader_are_told(screen):
    """Which also shows that Python's lock is free while a batch is made: else the second could not come meanwhile."""
    loader = lacuna.Loader(screen, batch=200, rung="worker", threads=0)
    said, deadline = [], time.monotonic() + 60

    def work():
        while not said and time.monotonic() < deadline:
            try:
                next(iter(loader))
            except lacuna.Error as error:
                said.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said and "a Loader of its own" in said[0], said
    loader.set_epoch(0)
    assert sorted(sum(numbers(loader), [])) == list(range(len(screen)))  # it goes on


def test_memory_does_not_grow_over_ten_thousand_batches(screen):
    assert growth_of_memory(lacuna.Loader(screen, batch=4), 2000, 10_000) < 8 << 20


def test_an_older_pass_ends_when_another_begins(screen):
    loader = lacuna.Loader(screen, batch=50)
    with pytest.raises(lacuna.Error, match="another pass over this Loader has begun.*a Loader of its own"):
        list(zip(loader, loader))
    older = iter(loader)
    next(older)
    iter(loader)  # nobody asks it for a batch: the older one goes on
    assert len(list(older)) == len(loader) - 1
    loader.set_epoch(0)
    assert numbers(loader) == numbers(lacuna.Loader(screen, batch=50))  # the latest one has everything


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))], ids=["deepcopy", "pickle"])
def test_a_copy_goes_on_where_the_loader_stands(screen, copied):
    options = {"split": "half", "columns": ["query_pair"], "rung": "ram:bits", "rank": 1, "world_size": 2}
    loader = lacuna.Loader(screen, 8, seed=4, **options)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    other = copied(loader)
    assert isinstance(other, lacuna.ScreenLoader) and other.state_dict() == loader.state_dict()
    for ours, theirs in zip(iterator, other, strict=True):
        assert torch.equal(ours["sample"], theirs["sample"]) and torch.equal(ours["query_pair"], theirs["query_pair"])
        assert all(torch.equal(mask, theirs["masks"][name]) for name, mask in ours["masks"].items())
    assert numbers(loader) == numbers(other)  # and the epoch after it


def test_columns_of_categories_index_an_embedding(tmp_path):
    """As they are stored they are bytes, in which 255 is unknown."""
    table = {"removed": [[0]] * 4, "label": [1.0] * 4, "plate": ["b", None, "a", "b"], "day": np.arange(4, dtype=np.uint16)}
    screen = lacuna.Screen.write(tmp_path / "s", {"p": np.zeros((2, 0), int)}, table, genes=["a"])
    assert screen.columns["plate"].values.dtype == np.uint8
    batch = next(iter(lacuna.Loader(screen, batch=4, columns=["plate", "day"], shuffle=False)))
    assert batch["plate"].dtype == torch.int64 and batch["plate"].tolist() == [1, -1, 0, 1]
    assert torch.nn.Embedding(2, 3)(batch["plate"].clamp(min=0)).shape == (4, 3)
    assert batch["day"].max() == 3  # torch has no max of uint16


@pytest.mark.filterwarnings("ignore")
def test_lightning_validates_tests_and_predicts(screen, tmp_path):
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Model(lightning.LightningModule):
        def __init__(self, screen):
            super().__init__()
            self.save_hyperparameters()  # the screen goes into the checkpoint
            self.effects = torch.nn.EmbeddingBag(len(screen.genes), 1, mode="sum", include_last_offset=True)
            self.seen = {"train": [], "validation": [], "test": []}

        def forward(self, batch):
            return self.effects(batch["removed"], batch["ptr"])

        def loss(self, batch, part):
            self.seen[part] += [] if self.trainer.sanity_checking else batch["sample"].tolist()
            return (self(batch) - batch["label"]).square().mean()

        def training_step(self, batch, _):
            return self.loss(batch, "train")

        def validation_step(self, batch, _):
            self.log("validation_loss", self.loss(batch, "validation"), batch_size=len(batch["label"]))

        def test_step(self, batch, _):
            self.loss(batch, "test")

        def predict_step(self, batch, _):
            return self(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def loader(part):
        return lacuna.Loader(screen, 24, split="half", part=part)

    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=2, use_distributed_sampler=False, logger=False, default_root_dir=tmp_path,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    model, split = Model(screen), screen.split("half")
    trainer.fit(model, loader("train"), loader("validation"))
    assert torch.isfinite(trainer.callback_metrics["validation_loss"])
    trainer.test(model, loader("test"), verbose=False)
    assert sorted(model.seen["train"]) == sorted([*split.train] * 2)
    assert model.seen["validation"] == [*split.validation] * 2 and model.seen["test"] == [*split.test]
    predicted = torch.cat(trainer.predict(model, loader("test")))
    assert torch.equal(predicted, torch.cat([model(batch) for batch in loader("test")]))
    again = Model.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    assert again.hparams["screen"].fingerprint == screen.fingerprint
    assert torch.equal(again.effects.weight, model.effects.weight)


def test_help_names_the_arguments():
    shown = inspect.signature(lacuna.Loader).parameters
    text = inspect.cleandoc(lacuna.Loader.__doc__)  # from Python 3.13 on it is so already
    for name in ("batch", "split", "part", "rung", "device", "seed", "rank", "world_size"):
        assert name in shown and re.search(rf"^    .*\b{name}\b.*: ", text, re.M), name
        for loader in (lacuna.ScreenLoader, lacuna.RecordingLoader):
            default = inspect.signature(loader).parameters[name].default
            assert default == shown[name].default, (loader, name)
    for value in (lacuna.Loader, lacuna.ScreenLoader, lacuna.RecordingLoader, lacuna.Dataset, lacuna.collate):
        assert not re.search(r":\w+:`", pydoc.render_doc(value)), value  # a role of Sphinx, which help() would show as it is


def test_two_loaders_of_a_path(screen):
    assert numbers(lacuna.Loader(screen.path, batch=8)) == numbers(lacuna.Loader(str(screen.path), batch=8))
