"""Bytes to numbers, as late as possible."""

from __future__ import annotations

import torch
from torch import Tensor


def cast(x: Tensor, scale: float = 1.0, shift: float = 0.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """x * scale + shift of a u8 tensor of any shape, in f32 or bf16, in one pass.

    The product and the sum are rounded once to f32, then to bf16 where that is asked for. Frames of a recording, for
    example: ``lacuna.cast(frames, 1 / 255, -127 / 255, torch.bfloat16)``.
    """
    return torch.ops.lacuna.cast(x, scale, shift, dtype)
