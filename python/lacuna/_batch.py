"""The removed nodes of a batch, in the form that the operators take."""

from __future__ import annotations

import torch
from torch import Tensor

_INT32 = torch.iinfo(torch.int32)


def as_int32(name: str, tensor: Tensor) -> Tensor:
    """Any integer tensor as int32. A number that int32 cannot hold stays an impossible one instead of wrapping."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} is {tensor!r}, but a tensor of integers is needed")
    if tensor.dtype == torch.int32:
        return tensor
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        raise TypeError(f"{name} has dtype {tensor.dtype}, but integers are needed")
    if tensor.dtype == torch.int64:
        tensor = tensor.clamp(-1, _INT32.max)
    return tensor.to(torch.int32)


def removed_lists(samples, device=None) -> tuple[Tensor, Tensor]:
    """(removed, ptr) of a batch given as a list of node lists, one per sample: [[3], [1, 4], []]."""
    lists = [list(sample) for sample in samples]
    ptr = [0]
    for nodes in lists:
        ptr.append(ptr[-1] + len(nodes))
    flat = torch.tensor([node for nodes in lists for node in nodes], dtype=torch.int64)
    return as_int32("removed", flat).to(device), torch.tensor(ptr, dtype=torch.int32, device=device)
