"""bench/scaling.py and bench/curves.py: a point is measured for both forms, and a line goes where its numbers are."""

import json
import re
import subprocess
import sys

import pytest
from program import ROOT, has_torch

sys.path.insert(0, str(ROOT / "bench"))
from curves import draw, words  # noqa: E402


def test_equal_ratios_are_equal_distances(tmp_path):
    draw(tmp_path / "a.svg", "title", "edges", "ms", {"lacuna": [(10, 1), (100, 2), (1000, 4)], "other": [(10, 9)]})
    text = (tmp_path / "a.svg").read_text()
    (points,) = [line for line in re.findall(r'points="([^"]*)"', text) if " " in line]
    x, y = zip(*(map(float, point.split(",")) for point in points.split()))
    assert x[2] - x[1] == pytest.approx(x[1] - x[0], abs=0.2) and x[1] > x[0]
    assert y[2] - y[1] == pytest.approx(y[1] - y[0], abs=0.2) and y[1] < y[0]  # up is less in a picture
    assert "lacuna" in text and "other" in text


def test_numbers_in_words():
    assert [words(n) for n in (1, 28, 6607, 2.5e6, 1e9)] == ["1", "28", "6.607k", "2.5M", "1G"]


@pytest.mark.skipif(not has_torch(), reason="needs torch")
def test_an_axis_is_measured_and_drawn(tmp_path):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("nanobind", reason="lacuna._core is built with it")
    out = tmp_path / "scaling"
    command = [sys.executable, ROOT / "bench/scaling.py", "--quick", "--axis", "samples", "--out", out, "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "scaling.json").read_text())["samples"]
    assert [one["at"] for one in found] == [10**5, 10**6]
    assert all(one["a batch"]["ms"] > 0 and one["first batch"]["ms"] > 0 for one in found)
    assert (tmp_path / "scaling-samples.svg").exists()
