"""The program as one rank of several: ``torchrun --nproc-per-node N -m lacuna train ...``, and the same under srun.

torch.distributed starts and connects the ranks (NCCL between GPUs, gloo between CPUs); the program then runs inside this
process and reduces through that process group. docs/cluster.md says how to start them.
"""

from __future__ import annotations

import atexit
import ctypes
import datetime
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

_GRACE = 8.0  # seconds that a rank has for its checkpoint once another one has gone
_FOREVER = datetime.timedelta(days=365)


@dataclass(frozen=True)
class Place:
    """Which rank this process is, and where the ranks meet."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    address: str
    port: int
    attempt: str  # another word for every start of the same ranks
    has_host: bool  # whether somebody else (torchrun) serves the store that they meet at

    @staticmethod
    def of(environment: Mapping[str, str]) -> Place | None:
        """What torchrun or srun have said; None: this process is alone."""
        if int(environment.get("WORLD_SIZE", 1)) > 1:
            return _of_torchrun(environment)
        if int(environment.get("SLURM_STEP_NUM_TASKS", 1)) > 1 and "SLURM_PROCID" in environment:
            return _of_srun(environment)
        return None


def _of_torchrun(known: Mapping[str, str]) -> Place:
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in known]
    if missing:
        raise SystemExit(f"error: WORLD_SIZE is {known['WORLD_SIZE']}, but {', '.join(missing)} is not set; start with torchrun")
    return Place(
        rank=int(known["RANK"]),
        world=int(known["WORLD_SIZE"]),
        local_rank=int(known.get("LOCAL_RANK", known["RANK"])),
        local_world=int(known.get("LOCAL_WORLD_SIZE", known["WORLD_SIZE"])),
        address=known["MASTER_ADDR"],
        port=int(known["MASTER_PORT"]),
        attempt=known.get("TORCHELASTIC_RESTART_COUNT", "0"),
        has_host=known.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )


def _of_srun(known: Mapping[str, str]) -> Place:
    """Every step of a job meets at a port of its own, which follows from the job's number."""
    job, step = int(known.get("SLURM_JOB_ID", 0)), int(known.get("SLURM_STEP_ID", 0))
    tasks = known.get("SLURM_STEP_TASKS_PER_NODE", known["SLURM_STEP_NUM_TASKS"])  # "2(x3),1": of each host
    return Place(
        rank=int(known["SLURM_PROCID"]),
        world=int(known["SLURM_STEP_NUM_TASKS"]),
        local_rank=int(known.get("SLURM_LOCALID", 0)),
        local_world=max(int(word) for word in re.findall(r"(\d+)(?:\(x\d+\))?", tasks)),
        address=known.get("MASTER_ADDR") or first_host(known.get("SLURM_STEP_NODELIST", "localhost")),
        port=int(known.get("MASTER_PORT") or 20000 + (job * 16 + step % 16) % 30000),
        attempt=known.get("SLURM_RESTART_COUNT", "0"),
        has_host=False,
    )


def first_host(nodes: str) -> str:
    """Of a list as SLURM writes it: ``gpu[03-05,9],login1`` -> ``gpu03``."""
    try:
        told = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True)
        if told.returncode == 0 and told.stdout.split():
            return told.stdout.split()[0]
    except OSError:
        pass  # not installed here: what follows reads the list
    name = re.match(r"([^\[,]*)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", nodes)
    assert name is not None  # the pattern matches everything
    return "".join(part or "" for part in name.groups())


def _join(place: Place, has_cuda: bool) -> bool:
    """torch.distributed's group of all ranks: NCCL where each has a GPU of its host to itself, gloo otherwise.

    Whether it is NCCL."""
    import torch
    import torch.distributed as distributed

    has_gpus = has_cuda and distributed.is_nccl_available() and torch.cuda.device_count() >= place.local_world
    if has_gpus:
        torch.cuda.set_device(place.local_rank)
    # A store of its own for every attempt: the addresses of dead ranks must not be found again.
    server = distributed.TCPStore(place.address, place.port, place.world, is_master=place.rank == 0 and not place.has_host)
    store = distributed.PrefixStore(f"lacuna_{place.attempt}", server)
    backend = "cpu:gloo,cuda:nccl" if has_gpus else "gloo"
    distributed.init_process_group(backend, store=store, rank=place.rank, world_size=place.world)
    atexit.register(_leave)
    return has_gpus


def _leave() -> None:
    """A script may end without a word to torch, whose gloo then aborts the process now and then: a thread of it still waits.

    Not after an exception: others may wait in a collective, and NCCL would wait for them before this process could end.
    """
    import torch.distributed as distributed

    if distributed.is_initialized() and not hasattr(sys, "last_value"):
        distributed.destroy_process_group()


def join_ranks() -> None:
    """For a training of your own under torchrun or srun, Lightning's too: call it before the ``Trainer`` is made.

    Connects the ranks through ``torch.distributed`` so that ``torchrun --max-restarts`` can restart them; torch's own
    connection finds the addresses of ranks that are dead, and hangs. Does nothing in a process that is alone, in
    one that is connected already, and in those that Lightning starts itself.
    """
    import torch
    import torch.distributed as distributed

    is_lightnings = "WORLD_SIZE" in os.environ and "RANK" not in os.environ
    if distributed.is_initialized() or is_lightnings:
        return
    if place := Place.of(os.environ):
        _join(place, torch.cuda.is_available())


def _connect(place: Place):
    """Makes the process groups: that of the program, whether it is NCCL's, and one whose connections only say who lives."""
    import torch.distributed as distributed
    import torch.distributed._functional_collectives  # noqa: F401  registers what the program calls

    from . import has_cuda

    is_nccl = _join(place, has_cuda())
    watch = distributed.new_group(backend="gloo", timeout=_FOREVER)
    return distributed.group.WORLD, is_nccl, watch


@contextmanager
def together() -> Iterator[tuple[str, int, int, int]]:
    """The ranks of a training inside this process: (name of their process group, rank, how many, rank on this host).

    They are those of torch.distributed where it is connected, else those that torchrun or srun have started; a process
    that is alone is ``("", 0, 1, 0)``. While it lasts, another rank that dies ends the training here.
    """
    import torch.distributed as distributed

    join_ranks()
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        yield "", 0, 1, 0
        return
    import torch.distributed._functional_collectives  # noqa: F401  registers what the trainer calls

    group = distributed.group.WORLD
    assert group is not None  # it is initialised
    rank, world = distributed.get_rank(), distributed.get_world_size()
    local_rank = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", rank)))
    watch = _Watch(rank, world, distributed.new_group(backend="gloo", timeout=_FOREVER), _library())
    try:
        yield group.group_name, rank, world, local_rank
    except KeyboardInterrupt:  # all have stopped
        watch.leave()
        raise
    except BaseException:
        watch.leave(failed=True)
        raise
    watch.leave()


class _Watch:
    """Knows when a rank has gone, also where this rank computes and asks nobody.

    The ranks watch each other in a ring: the next one's connection closes when it dies, and whoever sees that tells the one
    before, and so on, so that all know at once who it was. The word that goes around is 0 from a rank that has ended well,
    else one more than the number of the lost one.
    """

    def __init__(self, rank: int, world: int, group, library: ctypes.CDLL) -> None:
        self.rank, self.group, self.library = rank, group, library
        self.other, self.before = (rank + 1) % world, (rank - 1) % world
        self.ended, self.speaking, self.has_spoken = threading.Event(), threading.Lock(), world == 1
        self.thread = threading.Thread(target=self._wait, daemon=True)
        if world > 1:
            self.thread.start()

    def _wait(self) -> None:
        import torch
        import torch.distributed as distributed

        word = torch.full([1], self.other + 1.0)
        try:
            distributed.recv(word, src=self.other, group=self.group)
        except Exception:
            pass  # it is the one that has gone
        if not word:
            return  # it has said farewell
        lost = int(word) - 1
        self._say(lost + 1)
        if self.ended.is_set():
            return  # so has the training
        words = f"rank {lost} has gone (killed, or failed with a message of its own)"
        self.library.lacuna_lose_rank(words.encode())
        if self.ended.wait(_GRACE):
            return
        sys.stderr.write(f"error: {words}; rank {self.rank} ends\n")
        sys.stderr.flush()
        os._exit(1)

    def _say(self, word: int) -> None:
        """To the rank before, once."""
        import torch
        import torch.distributed as distributed

        with self.speaking:
            if self.has_spoken:
                return
            self.has_spoken = True
            try:
                distributed.send(torch.full([1], float(word)), dst=self.before, group=self.group)
            except Exception:
                pass  # it has gone already, and needs to know nothing

    def say_farewell(self, failed: bool = False) -> None:
        self.ended.set()
        self._say(self.rank + 1 if failed else 0)

    def leave(self, failed: bool = False) -> None:
        """Where the process goes on: waits until the next rank has left or gone, for a thread that still waits in torch when
        Python ends would abort. One that failed keeps nobody waiting."""
        self.say_farewell(failed)
        if self.thread.is_alive():
            self.thread.join(1.0 if failed else None)


def _library() -> ctypes.CDLL:
    """The program, as a library beside that of the operators."""
    from . import library_path

    library = ctypes.CDLL(str(Path(library_path).with_name("liblacuna_ranks.so")))
    library.lacuna_main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p, *[ctypes.c_int] * 3, ctypes.c_bool]
    library.lacuna_lose_rank.argtypes = [ctypes.c_char_p]
    return library


def run(place: Place, words: list[str]) -> int:
    """The program with these words, as one rank; gives its exit code."""
    library = _library()
    group, is_nccl, watch_group = _connect(place)
    if place.rank > 0:  # rank 0 alone speaks; errors are everybody's
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    watch = _Watch(place.rank, place.world, watch_group, library)
    given = [os.fsencode(word) for word in ["lacuna", *words]]
    code = library.lacuna_main(len(given), (ctypes.c_char_p * (len(given) + 1))(*given, None), group.group_name.encode(),
                               place.rank, place.world, place.local_rank, is_nccl)  # fmt: skip
    if code in (0, 75):
        watch.say_farewell()
    watch.ended.set()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the destructors of a group whose other ranks may be gone
