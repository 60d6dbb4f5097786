"""Windows from Python, against plain loops over the arrays that were written."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from loaders import growth_of_memory, said_after_a_fork
from toy_recording import rows_of, toy_sessions, windows_of

import lacuna
from lacuna._program import call

SESSIONS = toy_sessions(7)
INPUTS = ["behavior:2", "robs:3@1"]
LAGGED = [("behavior", 2, 0), ("robs", 3, 1)]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    recording = lacuna.Recording.write(tmp_path_factory.mktemp("recordings") / "rec", SESSIONS)
    recording.make_split("half", fractions=(0.5, 0.25, 0.25), seed=1, repeats="apart")
    return recording


@pytest.fixture(scope="module")
def chunks(recording):
    store = recording.path.parent / "chunks"
    call("prepare", recording.path, "--rung", "disk:chunks", "--out", store)
    return store


def normal(frames):
    return (frames.astype(np.float32) - np.float32(127)) / np.float32(255)


def numbers(loader):
    return [batch["windows"].tolist() for batch in loader]


def check_batch(loader, batch, lags, rows=1, step=1, dtype=torch.float32):
    """Every value of a batch; returns (session, segment, t) of its windows."""
    sessions, segments, times = loader.where(batch["windows"])
    assert np.array_equal(np.repeat(batch["session"].numpy(), np.diff(batch["ptr"].numpy())), sessions)
    for s, session in enumerate(batch["session"].tolist()):
        for b in range(batch["ptr"][s], batch["ptr"][s + 1]):
            name = list(SESSIONS)[session]
            fields = list(SESSIONS[name]["segments"].values())[segments[b]]
            t, in_session = times[b], b - int(batch["ptr"][s])
            newest = t + step * (rows - 1)
            frames = fields["stim"][rows_of(newest, lags + rows - 1, step)]
            want = torch.from_numpy(frames if dtype == torch.uint8 else normal(frames)).to(dtype)
            assert batch["stimulus"].dtype == dtype and torch.equal(batch["stimulus"][b], want)
            bins = t + np.arange(rows * step).reshape(rows, step)
            counts, valid = fields["robs"][bins].sum(1), fields["dfs"][bins].all(1)
            if rows == 1:
                counts, valid = counts[0], valid[0]
            assert np.array_equal(batch["counts"][s][in_session], counts)
            assert np.array_equal(batch["validity"][s][in_session], valid)
            for words, (field, n, first) in zip(loader._inputs, LAGGED):
                of = rows_of(newest, n + rows - 1, step, first)[:, None] + np.arange(step)
                values = fields[field][of].astype(np.float64)
                values = values.sum(1) if field == "robs" else values.mean(1)
                assert np.array_equal(batch["inputs"][words][s][in_session], values.astype(np.float32))
    return list(zip(sessions.tolist(), segments.tolist(), times.tolist()))


RUNGS = {
    "ram:u8@worker": torch.float32,
    "ram:u8@device": torch.uint8,
    "ram:bf16": torch.bfloat16,
    "ram:f32": torch.float32,
    "disk:u8": torch.float32,
    "disk:u8@device": torch.uint8,
    "disk:chunks@worker": torch.float32,
    "tiered@device": torch.uint8,
}


@pytest.mark.parametrize("rung", RUNGS)
def test_every_window_of_every_rung(recording, chunks, rung):
    options = {"store": chunks} if "chunks" in rung else {"hot": 6000} if "tiered" in rung else {}
    loader = lacuna.Loader(recording, batch=32, rung=rung, lags=6, inputs=INPUTS, **options)
    assert isinstance(loader, lacuna.RecordingLoader) and isinstance(loader, lacuna.Loader)
    seen = [window for batch in loader for window in check_batch(loader, batch, 6, dtype=RUNGS[rung])]
    assert sorted(seen) == windows_of(SESSIONS, 6, inputs=LAGGED) and len(seen) == loader.windows > 100
    assert len(loader) == -(-len(seen) // 32)


@pytest.mark.parametrize(("lags", "rows", "step"), [(1, 1, 1), (4, 3, 1), (3, 1, 2), (2, 2, 3)])
def test_rows_and_step(recording, lags, rows, step):
    loader = lacuna.Loader(recording, batch=16, lags=lags, rows=rows, step=step)
    seen = [window for batch in loader for window in check_batch(loader, batch, lags, rows, step)]
    assert sorted(seen) == windows_of(SESSIONS, lags, rows, step)


def test_bf16_by_the_workers(recording):
    loader = lacuna.Loader(recording, batch=64, lags=3, rung="ram:u8@worker", dtype=torch.bfloat16)
    for batch in loader:
        check_batch(loader, batch, 3, dtype=torch.bfloat16)


def test_parts_sessions_and_units(recording):
    split = recording.split("half")
    for part, number in (("train", 0), ("val", 1), ("test", 2)):
        loader = lacuna.Loader(recording, batch=9, split="half", part=part, lags=4)
        seen = [window for batch in loader for window in check_batch(loader, batch, 4)]
        parts = {place: values == number for place, values in split.parts.items()}
        assert sorted(seen) == windows_of(SESSIONS, 4, parts=parts), part
    in_order = lacuna.Loader(recording, batch=9, split="half", part="test", lags=4, sessions=["s1"])
    assert sum(numbers(in_order), []) == list(range(in_order.windows))
    chosen = lacuna.Loader(recording, batch=9, lags=4, sessions=["s2"], units=["s2/u3", "u0"])
    batch = next(iter(chosen))
    assert chosen.units_of(2) == ["u0", "u3"] and batch["session"].tolist() == [2]
    session, segment, t = (of[0] for of in chosen.where(batch["windows"]))
    assert np.array_equal(batch["counts"][0][0], SESSIONS["s2"]["segments"]["noise"]["robs"][t, [0, 3]])


def drawn(loader):
    """Windows of each session in an epoch."""
    counts = np.zeros(3, int)
    for batch in loader:
        counts[batch["session"].numpy()] += np.diff(batch["ptr"].numpy())
    return counts


def test_orders(recording):
    make = lambda **options: lacuna.Loader(recording, batch=12, lags=4, steps=40, **options)  # noqa: E731
    assert np.ptp(drawn(make(order="balanced"))) <= 1
    twice = drawn(make(order="weights", weights={"s0": 2, "s1": 1}))
    assert twice.tolist() == [320, 160, 0]
    assert drawn(make(order="weights", weights={"b": 1})).tolist() == [0, 480, 0]  # a subject
    for batch in make(order="balanced", mixed=False):
        assert len(batch["session"]) == 1 and len(batch["windows"]) == 12
    with pytest.raises(ValueError, match="weights goes with"):
        make(order="balanced", weights={"s0": 1})
    with pytest.raises(lacuna.Error, match="s9"):
        make(order="weights", weights={"s9": 1})
    with pytest.raises(lacuna.Error, match="blanced"):
        make(order="blanced")


def test_ranks_share_the_batches_of_one(recording):
    alone = numbers(lacuna.Loader(recording, batch=12, lags=4, seed=2))
    for world in (2, 4):
        loaders = [lacuna.Loader(recording, batch=12, lags=4, seed=2, rank=r, world_size=world) for r in range(world)]
        assert [sorted(sum(parts, [])) for parts in zip(*map(numbers, loaders))] == [sorted(b) for b in alone]
        assert all(loader.state_dict() == loaders[0].state_dict() for loader in loaders)


@pytest.mark.parametrize("threads", [0, 2])
def test_state_goes_on_exactly_twice_in_a_row(recording, threads):
    def make(**options):
        return lacuna.Loader(recording, batch=16, lags=4, seed=5, threads=threads, order="balanced", **options)

    one = make()
    epochs = [numbers(one), numbers(one)]
    assert epochs[0] != epochs[1]
    first = make()
    iterator = iter(first)
    begun = [next(iterator)["windows"].tolist() for _ in range(5)]
    second = make()
    second.load_state_dict(first.state_dict())
    second.sampler.set_epoch(second.epoch)  # Lightning does, and the place stays
    iterator = iter(second)
    begun += [next(iterator)["windows"].tolist() for _ in range(4)]
    third = make()
    third.load_state_dict(second.state_dict())
    assert begun + numbers(third) == epochs[0]
    assert numbers(third) == epochs[1]
    with pytest.raises(lacuna.Error):
        lacuna.Loader(recording, batch=16, lags=4, seed=5).load_state_dict(first.state_dict())
    weighted = lacuna.Loader(recording, batch=16, lags=4, order="weights", weights={"s0": 2, "s1": 1})
    other = lacuna.Loader(recording, batch=16, lags=4, order="weights", weights={"s0": 1, "s1": 1})
    with pytest.raises(lacuna.Error):
        other.load_state_dict(weighted.state_dict())


def flat(batch):
    inputs = [one for of_input in batch["inputs"].values() for one in of_input]
    tensors = [batch[name] for name in ("stimulus", "session", "ptr", "windows")]
    return [*tensors, *batch["counts"], *batch["validity"], *inputs]


def test_a_kept_batch_never_changes(recording):
    loader = lacuna.Loader(recording, batch=8, lags=4, inputs=INPUTS, threads=2, prefetch=2)
    kept = list(loader)
    copies = [[tensor.clone() for tensor in flat(batch)] for batch in kept]
    for _ in range(2):
        for _ in loader:
            pass
    del loader
    for batch, copy in zip(kept, copies):
        assert all(torch.equal(one, other) for one, other in zip(flat(batch), copy))


def test_memory_does_not_grow_over_a_thousand_batches(recording):
    loader = lacuna.Loader(recording, batch=8, lags=4, inputs=INPUTS, order="balanced", steps=100)
    assert growth_of_memory(loader, 400, 1000) < 8 << 20


def test_after_a_fork_it_says_what_to_do(recording):
    said = said_after_a_fork(lacuna.Loader(recording, batch=8, lags=4))
    assert "forked" in said and "spawn" in said, said


def test_what_cannot_work_is_named(recording):
    with pytest.raises(lacuna.Error, match="ram:u9"):
        lacuna.Loader(recording, rung="ram:u9", lags=4)
    with pytest.raises(lacuna.Error, match="ram:u8@device"):
        lacuna.Loader(recording, rung="device:resident", lags=4)
    with pytest.raises(lacuna.Error, match="pupil"):
        lacuna.Loader(recording, inputs=["pupil"], lags=4)
    with pytest.raises(lacuna.Error, match="no split|none"):
        lacuna.Loader(recording, split="none", lags=4)
    with pytest.raises(ValueError, match="lags 0"):
        lacuna.Loader(recording, lags=0)
    with pytest.raises(ValueError, match="part 'tset'"):
        lacuna.Loader(recording, split="half", part="tset")
    with pytest.raises(lacuna.Error, match="window 99999"):
        lacuna.Loader(recording, lags=4).where([99999])


def test_a_path_is_opened(recording):
    assert numbers(lacuna.Loader(str(recording.path), batch=32, lags=4)) == numbers(
        lacuna.Loader(recording.path, batch=32, lags=4)
    )


class Heads(torch.nn.Module):
    """A core for all sessions, and a head a session."""

    def __init__(self, units):
        super().__init__()
        self.core = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 35, 16), torch.nn.ELU())
        self.heads = torch.nn.ModuleList(torch.nn.Linear(16, n) for n in units)

    def forward(self, batch):
        states = self.core(batch["stimulus"])
        slices = states.split(batch["ptr"].diff().tolist())
        return [self.heads[s](x) for s, x in zip(batch["session"].tolist(), slices)]


def test_a_model_with_a_head_a_session_trains(recording):
    loader = lacuna.Loader(recording, batch=64, lags=4, split="half", rung="ram:u8")
    model = Heads([len(session.units) for session in recording.sessions])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        total = 0.0
        for batch in loader:
            loss = sum(
                (torch.nn.functional.poisson_nll_loss(rate, counts, reduction="none") * valid).sum()
                for rate, counts, valid in zip(model(batch), batch["counts"], batch["validity"])
            ) / len(batch["windows"])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        losses.append(total / len(loader))
    assert losses[-1] < losses[0] - 0.1, losses


def test_an_older_pass_ends_when_another_begins(recording):
    loader = lacuna.Loader(recording, batch=64, lags=4)
    with pytest.raises(lacuna.Error, match="another pass over this Loader has begun"):
        list(zip(loader, loader))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))], ids=["deepcopy", "pickle"])
def test_a_copy_goes_on_where_the_loader_stands(recording, copied):
    loader = lacuna.Loader(recording, batch=16, lags=4, inputs=INPUTS, split="half", order="balanced", rung="ram:u8", seed=4)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    other = copied(loader)
    assert isinstance(other, lacuna.RecordingLoader) and other.state_dict() == loader.state_dict()
    for ours, theirs in zip(iterator, other, strict=True):
        assert all(torch.equal(one, another) for one, another in zip(flat(ours), flat(theirs), strict=True))
    assert numbers(loader) == numbers(other)


LIGHTNING = '''
import sys
import lightning, torch
from torch.nn.functional import poisson_nll_loss
import lacuna

class Model(lightning.LightningModule):
    """A core for all sessions, and a head a session."""

    def __init__(self, recording):
        super().__init__()
        self.core = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 35, 16), torch.nn.ELU())
        self.heads = torch.nn.ModuleList(torch.nn.Linear(16, len(session.units)) for session in recording.sessions)

    def forward(self, batch):
        states = self.core(batch["stimulus"]).split(batch["ptr"].diff().tolist())
        return [self.heads[s](x) for s, x in zip(batch["session"].tolist(), states)]

    def loss(self, batch):
        losses = [(poisson_nll_loss(rate, counts, reduction="none") * valid).sum()
                  for rate, counts, valid in zip(self(batch), batch["counts"], batch["validity"])]
        nothing = 0 * self.core(batch["stimulus"]).sum()  # a rank's share of the last batch may be empty
        return sum(losses, start=nothing) / max(1, len(batch["windows"]))

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("validation_loss", self.loss(batch), batch_size=len(batch["windows"]), sync_dist=True)

    def test_step(self, batch, _):
        self.log("test_loss", self.loss(batch), batch_size=len(batch["windows"]), sync_dist=True)

    def predict_step(self, batch, _):
        return self(batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


class Data(lightning.LightningDataModule):
    def __init__(self, recording):
        super().__init__()
        self.recording = recording

    def loader(self, part):
        return lacuna.Loader(self.recording, batch=16, split="half", part=part, lags=4, rung="ram:u8")

    def train_dataloader(self):
        return self.loader("train")

    def val_dataloader(self):
        return self.loader("validation")

    def test_dataloader(self):
        return self.loader("test")


def trainer(epochs, folder, **options):
    return lightning.Trainer(accelerator="cpu", max_epochs=epochs, use_distributed_sampler=False, logger=False,
                             default_root_dir=folder, enable_progress_bar=False, enable_model_summary=False, **options)


if __name__ == "__main__":
    recording = lacuna.Recording.open(sys.argv[1])
    ranks = trainer(2, sys.argv[2], devices=2, strategy="ddp_find_unused_parameters_true")
    model = Model(recording)
    ranks.fit(model, Data(recording))
    total = sum(float(values.detach().double().sum()) for values in model.parameters())
    print(f"rank {ranks.global_rank}: {ranks.global_step} steps to {total!r}", flush=True)
'''


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_a_head_a_session(recording, tmp_path):
    pytest.importorskip("lightning", reason="lightning is not installed")
    names = {"__name__": "heads"}
    exec(compile(LIGHTNING, "heads.py", "exec"), names)
    model, data, trainer = names["Model"](recording), names["Data"](recording), names["trainer"](6, tmp_path)
    loss_of = lambda part: trainer.validate(model, data.loader(part), verbose=False)[0]["validation_loss"]  # noqa: E731
    before = loss_of("train")
    trainer.fit(model, data)
    assert torch.isfinite(trainer.callback_metrics["validation_loss"])
    assert loss_of("train") < before - 0.1  # of the validation part nothing can be told: its counts are random
    assert np.isfinite(trainer.test(model, data, verbose=False)[0]["test_loss"])
    predicted = trainer.predict(model, data.loader("test"))
    for rates, batch in zip(predicted, data.loader("test"), strict=True):
        assert [rate.shape for rate in rates] == [counts.shape for counts in batch["counts"]]
        assert all(torch.equal(rate, one) for rate, one in zip(rates, model(batch), strict=True))


@pytest.mark.skipif(not os.environ.get("LACUNA_TEST_ALL"), reason="takes half a minute; make test-all runs it")
def test_lightning_trains_a_head_a_session_on_two_ranks(recording, tmp_path):
    """A batch may lack a session, and a rank's share of one more often: Lightning is told that heads may be unused."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    (tmp_path / "heads.py").write_text(LIGHTNING)
    known = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).resolve().parents[1])}
    command = [sys.executable, tmp_path / "heads.py", recording.path, tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, env=known, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    assert len(lines) == 2 and lines[0].split(": ")[1] == lines[1].split(": ")[1], done.stdout  # the same weights
