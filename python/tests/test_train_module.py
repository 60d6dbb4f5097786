"""lacuna.train: the program's trainer around modules of Python."""

import _thread
import json
import signal
import threading

import numpy as np
import pytest
import torch

import lacuna
from lacuna import _core, _progress
from lacuna._program import call

pytest.importorskip("pandas")
CONFIG = {
    "split": "random",
    "train": {"epochs": 3, "batch": 20, "lr": 1e-2},
    "evaluate": {"baselines": False, "bootstrap": 0},
}


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    screen = lacuna.Screen.generate(tmp_path_factory.mktemp("train") / "tiny", seed=4)
    screen.make_split("random", fractions=(0.6, 0.2, 0.2), seed=1)
    return screen


class Additive(torch.nn.Module):
    """A weight a removed gene, through a layer with dropout: nothing of lacuna's in it."""

    def __init__(self, genes, dropout=0.0):
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.EmbeddingBag(genes, 8, mode="sum", include_last_offset=True)
        self.head = torch.nn.Sequential(torch.nn.ELU(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 1))

    def forward(self, removed, ptr):
        return self.head(self.table(removed, ptr))


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_module_of_python_becomes_a_run(screen, tmp_path, capsys):
    model = Additive(len(screen.genes)).eval()
    before = weights(model)
    run = lacuna.train(model, screen, CONFIG, out=tmp_path / "run")
    assert run.status == "finished" and not model.training
    metrics = run.metrics()
    assert len(metrics) == 3 and metrics["train_loss"].iloc[-1] < metrics["train_loss"].iloc[0]
    said = capsys.readouterr().err
    assert said.count("epoch ") == 3 and "epoch 1/3 " in said and "epoch 3/3 " in said
    assert not same(before, weights(model))
    # What it has now is what was evaluated.
    found = run.predictions("test")
    samples = [screen.removed[screen.ptr[s] : screen.ptr[s + 1]].tolist() for s in found["sample"]]
    labels = screen.labels[screen.split("random").train]
    with torch.no_grad():
        here = model(*lacuna.removed_lists(samples)).numpy() * labels.std(0) + labels.mean(0)
    np.testing.assert_allclose(found["predicted"], here, rtol=0, atol=1e-5)
    assert run.evaluation.to_pandas()["predictor"].tolist()[0] == "model"
    assert run.report(tmp_path / "report.html").stat().st_size > 10_000
    info = json.loads(call("info", run.path, "--json"))
    assert not info.get("damaged")


def test_the_steps_are_those_of_the_program(screen, tmp_path):
    """A model of lacuna.nn, which starts from the program's weights, goes where the program takes it."""
    config = tmp_path / "config.yaml"
    settings = {"name": "hetero_gin", "width": 8, "layers": 1, "dropout": 0}
    config.write_text(json.dumps({"screen": str(screen.path), "model": settings, **CONFIG}))
    theirs = lacuna.Run.train(config, tmp_path / "program", train__device="cpu")
    ours = lacuna.nn.make_model(settings, lacuna.nn.GeneGraph.of(screen), 1, seed=1)
    run = lacuna.train(ours, screen, CONFIG, out=tmp_path / "python", show=False)
    seed = int(theirs.settings["train.seed"])
    assert seed == 1
    np.testing.assert_allclose(run.metrics()["train_loss"], theirs.metrics()["train_loss"], rtol=0, atol=1e-4)
    for name, value in weights(theirs.model()).items():
        torch.testing.assert_close(dict(ours.named_parameters())[name].detach(), value, rtol=0, atol=1e-3)


class Stops(Additive):
    """Presses Ctrl-C in some training step, and waits until the trainer knows of it."""

    at, known = None, None

    def forward(self, removed, ptr):
        if self.training and self.at is not None:
            self.at -= 1
            if self.at == 0:
                _thread.interrupt_main()
                assert self.known.wait(60)
        return super().forward(removed, ptr)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, which it does not in a job in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Sums(Stops):
    """Calls an operator of ours behind it, which ends with an error where a stop was asked for."""

    graph = None

    def forward(self, removed, ptr):
        out = super().forward(removed, ptr)
        return out + 0 * lacuna.aggregate(self.graph, torch.ones(self.graph.num_nodes, len(ptr) - 1, 4), removed, ptr).mean()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind", [Stops, Sums])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(screen, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(Sums, "graph", screen.graph)
    whole = kind(len(screen.genes), dropout=0.3)
    lacuna.train(whole, screen, CONFIG, out=tmp_path / "whole", show=False)
    stopped = kind(len(screen.genes), dropout=0.3)
    stopped.at, stopped.known = 8, threading.Event()  # of 18 steps
    ask = _core.ask_to_stop
    monkeypatch.setattr(_core, "ask_to_stop", lambda: (ask(), stopped.known.set()))
    with pytest.raises(KeyboardInterrupt):
        lacuna.train(stopped, screen, CONFIG, out=tmp_path / "run", show=False)
    assert lacuna.Run.open(tmp_path / "run").status == "stopped"
    other = kind(len(screen.genes), dropout=0.3)
    with torch.no_grad():
        other.head[2].weight.fill_(7)  # the checkpoint's come in their place
    run = lacuna.train(other, screen, CONFIG, out=tmp_path / "run", resume=True, show=False)
    assert run.status == "finished" and same(weights(other), weights(whole))


def test_progress_is_shown_where_somebody_looks(screen, tmp_path, monkeypatch):
    shown, said = [], []
    monkeypatch.setattr(_progress, "_somebody_looks", lambda: True)
    monkeypatch.setattr(_progress.Progress, "show", lambda self, *words: shown.append(words))
    monkeypatch.setattr(_progress.Progress, "say", lambda self, words: said.append(words))
    run = lacuna.train(Additive(len(screen.genes)), screen, CONFIG, out=tmp_path / "run", train__log_every=1)
    epochs = CONFIG["train"]["epochs"]
    assert {task for task, *_ in shown} >= {f"epoch {i + 1}/{epochs}" for i in range(epochs)}
    assert all(0 <= done <= total for _, done, total, _ in shown) and said[-1].startswith(f"epoch {epochs}/{epochs}")
    assert run.info["lacuna"] == lacuna.__version__ == call("--version").strip()


class Normed(Stops):
    """With running statistics, and a buffer that is replaced and not changed."""

    def __init__(self, genes):
        super().__init__(genes, dropout=0.3)
        self.norm = torch.nn.BatchNorm1d(8)
        self.register_buffer("batches", torch.zeros(()))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, removed, ptr):
        out = super().forward(removed, ptr)
        if self.training:
            self.batches = self.batches + 1
        return out + self.norm(self.table(removed, ptr)).sum(1, keepdim=True)


class Extra(Additive):
    def get_extra_state(self):
        return 3

    def set_extra_state(self, state):
        pass


@pytest.mark.usefixtures("interruptible")
def test_running_statistics_are_in_the_checkpoints(screen, tmp_path, monkeypatch):
    whole = Normed(len(screen.genes))
    run = lacuna.train(whole, screen, CONFIG, out=tmp_path / "whole", show=False)
    assert int(whole.norm.num_batches_tracked) > 0 and float(whole.batches) == int(whole.norm.num_batches_tracked)
    arrays, _ = _core.read_checkpoint(run.checkpoint("last"))
    assert float(arrays["batches"]) == 18 and "norm.running_var" in arrays and "scratch" not in arrays
    # What was evaluated is what the module computes now, with the statistics of the best epoch.
    found = run.predictions("test")
    samples = [screen.removed[screen.ptr[s] : screen.ptr[s + 1]].tolist() for s in found["sample"]]
    labels = screen.labels[screen.split("random").train]
    with torch.no_grad():
        here = whole.eval()(*lacuna.removed_lists(samples)).numpy() * labels.std(0) + labels.mean(0)
    np.testing.assert_allclose(found["predicted"], here, rtol=0, atol=1e-5)

    stopped = Normed(len(screen.genes))
    stopped.at, stopped.known = 8, threading.Event()
    ask = _core.ask_to_stop
    monkeypatch.setattr(_core, "ask_to_stop", lambda: (ask(), stopped.known.set()))
    with pytest.raises(KeyboardInterrupt):
        lacuna.train(stopped, screen, CONFIG, out=tmp_path / "run", show=False)
    other = Normed(len(screen.genes))
    lacuna.train(other, screen, CONFIG, out=tmp_path / "run", resume=True, show=False)
    assert same(dict(other.state_dict()), dict(whole.state_dict()))


def test_what_the_module_raises_is_raised(screen, tmp_path):
    before = threading.active_count()

    class Fails(Additive):
        def forward(self, removed, ptr):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        lacuna.train(Fails(len(screen.genes)), screen, CONFIG, out=tmp_path / "fails", show=False)

    class Wide(Additive):
        def forward(self, removed, ptr):
            return super().forward(removed, ptr).repeat(1, 3)

    with pytest.raises(lacuna.Error, match=r"\[20, 3\] for 20 samples and 1 labels"):
        lacuna.train(Wide(len(screen.genes)), screen, CONFIG, out=tmp_path / "wide", show=False)
    assert threading.active_count() <= before


def test_what_cannot_work_is_named(screen, tmp_path):
    genes = len(screen.genes)
    with pytest.raises(lacuna.UsageError, match="no parameters"):
        lacuna.train(torch.nn.ReLU(), screen, CONFIG, out=tmp_path / "none")
    with pytest.raises(lacuna.UsageError, match="_extra_state"):
        lacuna.train(Extra(genes), screen, CONFIG, out=tmp_path / "none")
    with pytest.raises(lacuna.Error, match="epocs"):
        lacuna.train(Additive(genes), screen, {"train": {"epocs": 3}}, out=tmp_path / "none")
    with pytest.raises(lacuna.Error, match="split"):
        lacuna.train(Additive(genes), screen, CONFIG, out=tmp_path / "none", split="nowhere")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("samples", [200, 17])
def test_a_module_that_needs_two_samples_finds_its_batch(screen, tmp_path, samples):
    """Batch norm has no spread of a single sample: no step of `auto` is that small, and trials leave no trace."""
    if samples < len(screen):  # batches of 8 would leave one of these
        screen = lacuna.Screen.generate(tmp_path / "screen", samples=2 * samples, seed=4)
        screen.make_split("random", fractions=(0.5, 0.25, 0.25), seed=1)
        assert len(screen.split("random").train) == samples
    config = {**CONFIG, "train": {"epochs": 1, "batch": "auto", "compute_threads": 1}}
    auto = Normed(len(screen.genes))
    run = lacuna.train(auto, screen, config, out=tmp_path / "auto", show=False)
    told = Normed(len(screen.genes))
    batch = int(run.settings["train.batch"])
    assert batch > 1
    config["train"]["batch"] = batch
    lacuna.train(told, screen, config, out=tmp_path / "told", show=False)
    torch.testing.assert_close(auto.state_dict(), told.state_dict(), rtol=0, atol=0)
