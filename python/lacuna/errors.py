"""Errors that a GPU found."""

from __future__ import annotations

import torch


def check_errors() -> None:
    """Waits for the GPU and raises RuntimeError if an operator there was given a wrong index or ptr since the last check.

    The operators do not wait for the device, so they cannot raise for such a thing themselves: the kernels skip what is
    wrong, and the next call of any operator raises. Call this where you want to know, after a batch or an epoch. Without
    a GPU it does nothing.
    """
    if torch.ops.lacuna.has_cuda() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.ops.lacuna.check_errors()
