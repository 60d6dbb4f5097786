"""An installed lacuna is found by find_package, its headers compile there, and its program runs."""

import os
import shutil
import subprocess
import sys

import pytest
from program import BUILD, ROOT, TORCH_PROGRAM


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"no build in {BUILD}; run `make build`")
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_program_runs(prefix):
    assert "screen" in run(prefix / "bin" / "lacuna", "--help")


def test_a_call_that_needs_torch_finds_it_from_a_link_on_the_path(prefix, tmp_path):
    if not TORCH_PROGRAM.exists():
        pytest.skip("lacuna was built without torch")
    assert "/torch/lib" not in run("readelf", "-d", prefix / "bin" / "lacuna")  # neither needed nor on its run path
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "lacuna").symlink_to(prefix / "bin" / "lacuna")
    options = {"cwd": tmp_path, "env": {**os.environ, "PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"}}
    run("lacuna", "generate", "screen", "my screen", "--size", "tiny", "--samples", 60, **options)
    run("lacuna", "split", "my screen", "--name", "random", "--by", "random", **options)
    (tmp_path / "my config.yaml").write_text(
        "screen: my screen\nmodel: {name: hetero_gin, width: 8, layers: 1}\ntrain: {device: cpu}\n")
    call = ["lacuna", "bench", "step", "my config.yaml", "--batch", 4, "--steps", 1, "--json", "my  steps.json"]
    assert "ms/step" in run(*call, **options)
    assert (tmp_path / "my  steps.json").exists()


def test_configs_and_the_python_package_are_installed(prefix, tmp_path):
    configs = prefix / "share" / "lacuna" / "configs"
    assert {path.name for path in configs.iterdir()} == {path.name for path in (ROOT / "configs").iterdir()}
    packages = list(prefix.rglob("site-packages"))
    if not packages:
        pytest.skip("lacuna was built without torch")
    environment = {key: value for key, value in os.environ.items() if key != "LACUNA_LIBRARY"}
    environment["PYTHONPATH"] = str(packages[0])
    script = ("import lacuna; screen = lacuna.Screen.generate('s', samples=20); "
              "print(lacuna.__file__, len(screen), lacuna.library_path)")
    said = run(sys.executable, "-c", script, cwd=tmp_path, env=environment).split()
    assert said[0].startswith(str(prefix)) and said[1] == "20" and said[2].startswith(str(prefix)), said


def test_the_peers_of_the_benches_are_installed(prefix):
    bench = prefix / "share" / "lacuna" / "bench"
    for name in ("ladder_peers", "plain_models", "plain_predictions", "step", "step_opponents"):
        assert (bench / f"{name}.py").exists(), name


def test_the_program_says_where_its_cmake_package_is(prefix):
    folder = run(prefix / "bin" / "lacuna", "--cmake-dir").strip()
    assert os.path.samefile(folder, prefix / "lib" / "cmake" / "lacuna") and "lacunaConfig.cmake" in os.listdir(folder)
    done = subprocess.run([BUILD / "lacuna", "--cmake-dir"], capture_output=True, text=True)
    assert done.returncode == 1 and "was not installed" in done.stderr and "make install" in done.stderr


def test_consumer_builds_and_runs(prefix, tmp_path):
    run("cmake", "-S", ROOT / "tests" / "consumer", "-B", tmp_path, "-G", "Ninja", f"-Dlacuna_ROOT={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "consumer") == "2 of 3 edges go\ngene 'd' is unknown\n"


def test_every_header_compiles_for_a_consumer(prefix, tmp_path):
    include = prefix / "include"
    headers = sorted(str(path.relative_to(include)) for path in include.rglob("*.h"))
    headers = [h for h in headers if h.split("/")[1] not in ("torch", "nn")]  # those need torch
    assert "lacuna/core/error.h" in headers
    assert not [h for h in headers if "gtest" in (include / h).read_text()], "a header of the tests was installed"
    source = tmp_path / "source"
    shutil.copytree(ROOT / "tests" / "consumer", source)
    (source / "main.cpp").write_text("".join(f'#include "{h}"\n' for h in headers) + "int main() {}\n")
    run("cmake", "-S", source, "-B", tmp_path / "build", "-G", "Ninja", f"-Dlacuna_ROOT={prefix}")
    run("cmake", "--build", tmp_path / "build")


def test_torch_component_is_found_and_runs(prefix, tmp_path):
    if not list(prefix.rglob("lacunaTorchTargets.cmake")):
        pytest.skip("lacuna was built without torch")
    source = tmp_path / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(consumer LANGUAGES CXX)\n"
        "find_package(lacuna 0.1 REQUIRED COMPONENTS torch)\n"
        "add_executable(consumer main.cpp)\ntarget_link_libraries(consumer PRIVATE lacuna::lacuna_torch)\n")
    # The operators and models register themselves when the library is loaded.
    (source / "main.cpp").write_text('#include "lacuna/nn/heads.h"\n#include "lacuna/nn/model.h"\nint main() {}\n')
    run("cmake", "-S", source, "-B", tmp_path / "build", "-G", "Ninja", f"-Dlacuna_ROOT={prefix}",
        f"-DLACUNA_PYTHON={sys.executable}")
    run("cmake", "--build", tmp_path / "build")
    assert "liblacuna_torch" in run("ldd", tmp_path / "build" / "consumer")
    run(tmp_path / "build" / "consumer")
