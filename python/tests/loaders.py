"""What the tests of both loaders look at."""

import os
from pathlib import Path

import lacuna


def said_after_a_fork(loader) -> str:
    """What a forked process is told that goes on with a loader of its parent."""
    next(iter(loader))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(iter(loader))
            said = "worked"
        except lacuna.Error as error:
            said = str(error)
        os.write(writer, said.encode())
        del loader
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    next(iter(loader))  # the parent's still works
    return said


def growth_of_memory(loader, first: int, then: int) -> int:
    """Bytes that this process has grown by over `then` batches, after `first` of them."""

    def take(count):
        while count > 0:
            for _ in loader:
                count -= 1

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    take(first)
    before = resident()
    take(then)
    return resident() - before
