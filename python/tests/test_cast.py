"""lacuna.cast against the same formula in double."""

import pytest
import torch
from torch.library import opcheck

import lacuna


@pytest.mark.parametrize("shape", [(256,), (0,), (3, 5, 7, 11), ()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cast_is_rounded_once(device, shape, dtype):
    x = torch.arange(256, dtype=torch.uint8) if shape == (256,) else torch.randint(256, shape, dtype=torch.uint8)
    scale, shift = (torch.randn(2) / 100).tolist()  # f32 numbers: x * scale + shift is exact in f64
    out = lacuna.cast(x.to(device), scale, shift, dtype)
    expected = (x.double() * scale + shift).float().to(dtype)
    assert out.dtype == dtype and out.shape == x.shape
    assert torch.equal(out.cpu(), expected)


def test_strided_input_gives_the_same(device):
    x = torch.randint(256, (6, 8), dtype=torch.uint8, device=device)
    assert torch.equal(lacuna.cast(x.T, 0.5, 1), lacuna.cast(x, 0.5, 1).T)


def test_operator(device):
    x = torch.randint(256, (6, 8), dtype=torch.uint8, device=device)
    for dtype in (torch.float32, torch.bfloat16):
        opcheck(torch.ops.lacuna.cast, (x, 0.5, -1.0, dtype))


def test_bad_input():
    with pytest.raises(RuntimeError, match="x has dtype Float, but Byte is needed"):
        lacuna.cast(torch.zeros(3))
    with pytest.raises(RuntimeError, match="dtype is Half, but Float or BFloat16 is needed"):
        lacuna.cast(torch.zeros(3, dtype=torch.uint8), dtype=torch.float16)
