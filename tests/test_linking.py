"""torch's libraries export copies of parts of the C++ library; ours must not meet them (they may crash)."""

import os
import subprocess

import pytest
from program import TORCH_PROGRAM, succeed


def test_the_file_system_is_that_of_the_system_library(tmp_path):
    if not TORCH_PROGRAM.exists():
        pytest.skip("this build has no torch")
    succeed("generate", "screen", tmp_path / "screen", "--size", "tiny", "--samples", 50)
    told = subprocess.run([TORCH_PROGRAM, "plan", tmp_path / "screen"], env={**os.environ, "LD_DEBUG": "bindings"},
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True).stderr
    bound = [line for line in told.splitlines() if "std::filesystem" in line or "St10filesystem" in line]
    ours = [line for line in bound if "liblacuna" in line.split(" to ")[0]]
    assert any("remove_all" in line for line in ours)
    assert not [line for line in ours if "/libtorch" in line.split(" to ")[1]]
