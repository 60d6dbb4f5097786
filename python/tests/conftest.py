"""Small random cases. A failure prints its seed; LACUNA_TEST_SEED=n repeats it, LACUNA_TEST_SEED=fresh draws new ones."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import zlib
from pathlib import Path

import pytest
import torch

spec = importlib.util.find_spec("lacuna")
if spec is None or spec.origin is None:  # not installed, not on the path: the package of this checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import lacuna  # noqa: E402


@pytest.fixture(autouse=True)
def seed(request):
    asked = os.environ.get("LACUNA_TEST_SEED", "")
    fresh = random.SystemRandom().randrange(2**31)
    value = fresh if asked == "fresh" else int(asked or zlib.crc32(request.node.name.encode()))
    print(f"LACUNA_TEST_SEED={value}")  # pytest shows it with a failure
    torch.manual_seed(value)
    return value


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no GPU is visible to torch")
        if not lacuna.has_cuda():
            pytest.skip("liblacuna_torch was built without CUDA")
    return torch.device(request.param)


class Case:
    """A random graph of a few types (self loops, repeats, a hub, an empty type) and a batch that removes nodes."""

    def __init__(self, nodes=40, edges=(160, 90, 0), samples=((3,), (0, 7, 7), (), (5, 1, 2)), width=5,
                 dtype=torch.float64, device="cpu"):
        self.nodes, self.width, self.samples = nodes, width, samples
        self.edges = {}
        for t, count in enumerate(edges):
            index = torch.randint(nodes, (2, count))
            index[1, : count // 4] = nodes - 1  # a hub of in-edges
            index[0, count // 4 : count // 3] = nodes - 2  # and one of out-edges
            index[:, -1:] = 3  # a self loop: this node sends and receives in every type that has edges
            self.edges[f"type{t}"] = index
        self.graph = lacuna.Graph.from_edges(nodes, self.edges).to(device)
        self.removed, self.ptr = lacuna.removed_lists(samples, device=device)
        self.x = torch.randn(nodes, len(samples), width, dtype=dtype, device=device)
        self.values = torch.randn(sum(edges), dtype=dtype if dtype == torch.float64 else torch.float32, device=device)
        self.eps = torch.randn(len(edges), dtype=self.values.dtype, device=device)

    @property
    def batch(self):
        return len(self.samples)

    def keep(self, sample):
        """[N] bool"""
        keep = torch.ones(self.nodes, dtype=torch.bool)
        keep[list(self.samples[sample])] = False
        return keep


@pytest.fixture
def case():
    return Case
