"""Progress of long calls: a tqdm bar in a terminal or a notebook, nothing elsewhere."""

from __future__ import annotations

import sys


class Progress:
    """Shown only while a call lasts longer than a moment, and only where somebody looks."""

    def __init__(self):
        self._bar = self._task = None

    def __enter__(self) -> Progress | None:
        return self if _somebody_looks() else None

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, task: str, done: int, total: int, unit: str) -> None:
        """Called ten times a second by the library."""
        if task != self._task:
            if self._bar is not None:
                self._bar.close()
            from tqdm.auto import tqdm

            self._task = task
            self._bar = tqdm(desc=task, total=total or None, unit=f" {unit}", leave=False, delay=0.3)
        self._bar.update(done - self._bar.n)

    def say(self, words: str) -> None:
        """A line that stays, above the bar."""
        from tqdm.auto import tqdm

        tqdm.write(words, file=sys.stderr)


def _somebody_looks() -> bool:
    if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
        return True
    return sys.stderr is not None and sys.stderr.isatty()
