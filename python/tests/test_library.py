"""How `import lacuna` finds its library, and what it says where it cannot."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lacuna
from lacuna._library import check_torch

PACKAGE = Path(lacuna.__file__).parent


def run_python(code, **environment):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm of binutils is not installed")
def test_library_has_no_python_in_it():
    symbols = subprocess.run(["nm", "-D", "--undefined-only", lacuna.library_path], capture_output=True, text=True)
    assert symbols.returncode == 0
    assert not [line for line in symbols.stdout.splitlines() if " Py" in line or " _Py" in line]


def test_the_command_loads_no_torch():
    code = "import sys, lacuna_command; sys.argv = ['lacuna', '--version']; lacuna_command.main()"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() and done.returncode == 0, done.stderr
    assert "lacuna_command" in done.stderr and "torch" not in done.stderr


def test_lacuna_library_names_the_file_or_its_folder():
    for place in (lacuna.library_path, lacuna.library_path.parent):
        run = run_python("import lacuna; print(lacuna.library_path)", LACUNA_LIBRARY=str(place))
        assert run.stdout.strip() == str(lacuna.library_path), run.stderr


def test_missing_library_says_what_to_do(tmp_path):
    run = run_python("import lacuna", LACUNA_LIBRARY=str(tmp_path))
    assert run.returncode != 0
    assert "ImportError" in run.stderr and str(tmp_path) in run.stderr and "LACUNA_LIBRARY" in run.stderr


def test_library_that_does_not_load_is_named(tmp_path):
    broken = tmp_path / "liblacuna_torch.so"
    broken.write_bytes(b"not a library")
    run = run_python("import lacuna", LACUNA_LIBRARY=str(broken))
    assert "ImportError" in run.stderr and str(broken) in run.stderr and "build it against this torch" in run.stderr


def test_no_torch_is_said():
    last = run_python("import sys; sys.modules['torch'] = None; import lacuna").stderr.splitlines()[-1]
    assert last.startswith("ImportError: lacuna needs torch") and "pip install torch" in last


def test_without_cuda_it_loads_beside_either_build_of_torch():
    """A library that names torch's CUDA half does not load beside the CPU build."""
    if lacuna.has_cuda():
        pytest.skip("built with CUDA")
    names = set(re.findall(rb"lib(?:torch|c10)\w*\.so", lacuna.library_path.read_bytes()))
    assert {b"libtorch.so", b"libc10.so"} <= names and not [name for name in names if b"cuda" in name]


def test_another_torch_is_named_and_no_symbol(tmp_path):
    """Before the library is touched: the note beside it says which minor version of torch it was built for."""
    library = tmp_path / "liblacuna_torch.so"
    library.write_bytes(b"whatever was built")
    major, minor = (int(number) for number in torch.__version__.split(".")[:2])
    (tmp_path / "built_for_torch").write_text(f"{major}.{minor}.7+cu130")
    check_torch(library)  # the same minor version will do
    (tmp_path / "built_for_torch").write_text(f"{major}.{minor - 1}.0")
    last = run_python("import lacuna", LACUNA_LIBRARY=str(tmp_path)).stderr.splitlines()[-1]
    assert last.startswith("ImportError: lacuna: ") and "symbol" not in last
    assert f"was built for torch {major}.{minor - 1}" in last and torch.__version__ in last and "install" in last


@pytest.mark.parametrize("version", ["2.6.0", None])
def test_the_command_names_another_torch_and_no_symbol(tmp_path, version):
    """Calls that need no torch work all the same."""
    if version:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").touch()
        (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    hide = "import importlib.util as i; find = i.find_spec; i.find_spec = lambda n: None if n == 'torch' else find(n); "
    code = ("" if version else hide) + "import lacuna_command; lacuna_command.main()"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGE.parent}"}

    def call(*words):
        return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)

    assert call("--version").returncode == 0
    said = call("evaluate", "run").stderr
    needed = ".".join(torch.__version__.split(".")[:2])
    assert said.startswith(f"error: `lacuna evaluate` needs torch {needed}") and "symbol" not in said, said
    assert f"the environment has {'torch 2.6.0' if version else 'no torch'}; `pip install 'torch=={needed}.*'`" in said


def test_found_under_the_prefix_it_is_installed_to(tmp_path):
    packages = tmp_path / "lib" / "python3" / "site-packages"
    shutil.copytree(PACKAGE, packages / "lacuna", ignore=shutil.ignore_patterns("__pycache__", "lib", "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "liblacuna_torch.so").symlink_to(lacuna.library_path)
    run = run_python("import lacuna; print(lacuna.library_path)", PYTHONPATH=str(packages), LACUNA_LIBRARY="")
    assert run.stdout.strip() == str(tmp_path / "lib" / "liblacuna_torch.so"), run.stderr
