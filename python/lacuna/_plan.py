"""A module that holds a plan made on the host, and what a device needs of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PlanModule(nn.Module):
    """Keeps the plan's bytes on the host; on a GPU also copies of it there, which the operators use.

    ``sizes`` is what the operators take beside the buffers; on a GPU it ends with a number by which they find the
    host's plan. Copies and pickles place themselves anew.
    """

    plan: Tensor
    slabs: Tensor | None

    def __init__(self, plan: Tensor, sizes: list[int], slabs: bool):
        super().__init__()
        self._host, self._host_sizes, self._wants_slabs = plan, list(sizes), slabs
        self.sizes = list(sizes)
        self._placed_at: int | None = None
        self.register_buffer("plan", plan, persistent=False)
        self.register_buffer("slabs", None, persistent=False)

    @property
    def device(self) -> torch.device:
        return self.plan.device

    @property
    def buffer_list(self) -> list[Tensor]:
        """What the operators take as ``graph``."""
        return [self.plan] if self.slabs is None else [self.plan, self.slabs]

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self._place()
        return self

    def _place(self) -> None:
        if self.plan.device.type == "cpu":
            self.plan, self.slabs, self._placed_at, self.sizes = self._host, None, None, list(self._host_sizes)
        elif self.plan.device.type == "cuda" and self.plan.data_ptr() != self._placed_at:
            if not torch.ops.lacuna.has_cuda():
                raise RuntimeError("this build of lacuna has no CUDA; build it where nvcc is found, or stay on the cpu")
            self.plan, self.slabs, number = torch.ops.lacuna.place_graph(self._host, self.plan, self._wants_slabs)
            self._placed_at, self.sizes = self.plan.data_ptr(), [*self._host_sizes, number]

    def _arguments(self) -> tuple:
        """What the constructor was given, tensors on the host."""
        raise NotImplementedError

    def __reduce__(self):
        device = torch.empty(0, device=self.device)  # a tensor, so that torch.load's map_location decides
        return _restore, (type(self), self._arguments(), device)


def _restore(kind, arguments, device):
    return kind(*arguments).to(device.device)
