"""The program's trainer around a torch module of one's own."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from . import _core
from ._progress import Progress
from ._ranks import together
from .run import Run
from .screen import Screen


def train(
    model: nn.Module,
    screen: Screen | str | os.PathLike,
    config: Mapping | str | os.PathLike | None = None,
    out: str | os.PathLike = "run",
    resume: bool = False,
    show: bool = True,
    **settings: object,
) -> Run:
    """Trains any module as `lacuna train` trains the program's models, and returns the run: the same order of samples,
    schedule, validation, checkpoints, evaluation beside the baselines, and report.

        run = lacuna.train(MyModel(), screen, {"split": "random", "train": {"epochs": 20, "lr": 1e-3}}, out="run")

    ``model(removed, ptr)`` gives standardised labels, [B, L] (or [B] of one label), as the models of :mod:`lacuna.nn`;
    parameters are trained in place, where they lie. Afterwards the module has the weights that were evaluated, those of
    the best epoch. It is called from another thread than yours.

    Started by torchrun or srun, or where torch.distributed is connected, all ranks call it alike and train one run
    together, each with its share of every batch (docs/cluster.md): parameters start from rank 0's, and gradients are
    summed. Dropout then draws other numbers than in one process, and running statistics are those of rank 0's samples.
    Rank 0 alone writes and speaks. On GPUs, call :func:`join_ranks` before the module is made: from then on ``cuda`` is
    the rank's own.

    Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP end it behind the step, with a checkpoint that ``resume`` goes on from; the last
    three, and a stop that another rank was asked for, raise ``SystemExit(75)``.

    Screens alone are trained so; a module of your own for a recording takes a loop over :class:`Loader`, or Lightning.

    Args:
        model: parameters that need no gradient stay as they are. Buffers, such as running statistics, are kept in
            checkpoints as ``state_dict`` keeps them.
        screen: the screen, or its path.
        config: what a config has beside ``screen`` and ``model`` (docs/runs.md), as a mapping or a YAML file.
        out: the run's directory.
        resume: go on with the run that lies there, from its last checkpoint; the module needs the same parameters.
        show: what the trainer says, and a line an epoch, go to stderr.
        settings: keys over the config, ``__`` for ``.``: ``train__lr=1e-3``.
    """
    parameters = dict(model.named_parameters())
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise _core.UsageError("the module has no parameters to train")
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in model.state_dict()}
    if other := [name for name in model.state_dict() if name not in parameters and name not in buffers]:
        raise _core.UsageError(f"the module's state has {', '.join(other[:3])}, which a checkpoint cannot keep")
    devices = {parameter.device.type for parameter in parameters.values()}
    if len(devices) > 1:
        raise _core.UsageError(f"the module's parameters lie on {' and '.join(sorted(devices))}; move them to one device")
    path = screen.path if isinstance(screen, Screen) else Path(screen)
    given = {"screen": path, "model.name": "module", "model.module": type(model).__qualname__, "train.device": devices.pop()}
    given |= {key.replace("__", "."): value for key, value in settings.items()}
    words = [f"{key}={value}" for key, value in given.items()]
    with tempfile.TemporaryDirectory(prefix="lacuna-train-") as folder, together() as ranks:
        _check_device(next(iter(parameters.values())).device, *ranks[2:])
        if not isinstance(config, (str, os.PathLike)):
            file = Path(folder) / "config.yaml"
            file.write_text(json.dumps({"screen": str(path), "model": {"name": "module"}, **(config or {})}))
            config = file
        end = _Training(model, buffers, show).run(
            str(config), words, str(out), resume, *_names_and_tensors(parameters), *_names_and_tensors(buffers),
            *ranks,
        )  # fmt: skip
        if end.startswith("error: "):
            raise _core.Error(end.removeprefix("error: "))
    if end == "stopped":
        raise SystemExit(75)
    return Run.open(out)


def _check_device(device: torch.device, world: int, local_rank: int) -> None:
    if world > 1 and device.type == "cuda" and device.index != local_rank:
        raise _core.UsageError(
            f"the module lies on {device}, and this rank has cuda:{local_rank}; call lacuna.join_ranks() before you make it"
        )


def _names_and_tensors(named: Mapping[str, Tensor]) -> tuple[list[str], list[Tensor]]:
    return list(named), list(named.values())


class _Training:
    """A training on a thread of its own, while this one waits for it or for Ctrl-C."""

    def __init__(self, model: nn.Module, buffers: Mapping[str, Tensor], show: bool):
        self.model, self.buffers, self.show = model, buffers, show
        self.was_training = model.training
        self.end = ""
        self.bar: Progress | None = None
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def run(self, *arguments) -> str:
        global _now
        if _now is not None:
            raise _core.Error("another module is being trained in this process; wait for its end")
        _implement()
        _now = self
        thread = threading.Thread(target=self._work, args=arguments, name="lacuna.train", daemon=True)
        handlers = _stop_at_signals()
        try:
            thread.start()
            while not self.ended.wait(0.1):  # join() takes a thread for dead that Ctrl-C came upon (bpo-45274)
                pass
        except KeyboardInterrupt:
            _core.ask_to_stop()  # a checkpoint is written, and the run can go on
            self.ended.wait()
            _core.take_back_stop()
            raise
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            if handlers:
                _core.take_back_stop()
            _now = None
            self.model.train(self.was_training)
        if self.error is not None:
            raise self.error
        return self.end

    def _work(self, *arguments) -> None:
        try:
            with Progress() as self.bar:
                self.end = torch.ops.lacuna.train_module(*arguments)
        except BaseException as error:  # of the module: raised again where train() was called
            self.error = error
        finally:
            self.ended.set()

    def forward(self, removed: Tensor, ptr: Tensor, training: bool) -> Tensor:
        if self.model.training != training:
            self.model.train(training)
        out = self.model(removed, ptr)
        self._keep_buffers()
        return out

    def _keep_buffers(self) -> None:
        """Checkpoints have the tensors that were there at the start: a module that puts another one in a buffer's place
        means its numbers."""
        for name, kept in self.buffers.items():
            now = self.model.get_buffer(name)
            if now is not kept:
                kept.copy_(now.detach())
                owner, _, own = name.rpartition(".")
                setattr(self.model.get_submodule(owner), own, kept)

    def said(self, words: str) -> None:
        if self.show and self.bar:
            self.bar.say(words)
        elif self.show:
            print(words, file=sys.stderr, flush=True)

    def progressed(self, task: str, done: int, total: int, unit: str) -> None:
        if self.show and self.bar:
            self.bar.show(task, done, total, unit)


def _stop_at_signals() -> dict:
    """From here on the signals that would kill the process end the training; gives what they did before."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # Python hears signals there alone
    numbers = [n for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    return {number: signal.signal(number, lambda *_: _core.ask_to_stop()) for number in numbers}


_now: _Training | None = None
_implemented: torch.library.Library | None = None  # lives as long as the process: operators go with it


def _implement() -> None:
    """The operators by which the trainer calls back."""
    global _implemented
    if _implemented is None:
        _implemented = torch.library.Library("lacuna", "IMPL")
        functions = {"module_forward": _forward, "module_said": _said, "module_progress": _progressed}
        for name, function in functions.items():
            _implemented.impl(name, function, "CompositeImplicitAutograd")


def _forward(removed: Tensor, ptr: Tensor, training: bool) -> Tensor:
    assert _now is not None
    return _now.forward(removed, ptr, training)


def _said(words: str) -> None:
    if _now is not None:
        _now.said(words)


def _progressed(task: str, done: int, total: int, unit: str) -> None:
    if _now is not None:
        _now.progressed(task, done, total, unit)
