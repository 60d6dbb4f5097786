""".npz files, read back by NumPy."""

import os
import subprocess
import zipfile

import numpy
import pytest

from program import BUILD


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """What Npz.WritesTheSameBytesAgainAndNothingBeside of store_test writes."""
    tests = BUILD / "store_test"
    if not tests.exists():
        pytest.skip(f"no {tests}; `make test` builds it")
    folder = tmp_path_factory.mktemp("npz")
    subprocess.run(
        [tests, "--gtest_filter=Npz.WritesTheSameBytesAgainAndNothingBeside"],
        env={**os.environ, "LACUNA_NPZ_FOLDER": str(folder)},
        check=True,
        capture_output=True,
    )
    return folder / "a.npz"


def test_arrays(path):
    rows = numpy.arange(700_001)
    with numpy.load(path) as arrays:
        assert arrays.files == ["names", "pairs", "numbers", "scalar", "nothing", "no_names"]
        assert arrays["names"].tolist() == ["YAL001C", "", "α-🧬", "x"]
        assert arrays["pairs"].dtype == numpy.uint16
        assert (arrays["pairs"] == numpy.stack([rows, rows >> 3], axis=1).astype("u2")).all()
        numbers = (rows.astype("f4") / numpy.float32(3)).astype("f4")
        numbers[-1] = -1
        assert (arrays["numbers"] == numbers).all()
        assert arrays["scalar"].shape == () and arrays["scalar"] == 2.5
        assert arrays["nothing"].shape == (0, 3) and arrays["nothing"].dtype == numpy.uint8
        assert arrays["no_names"].shape == (0,)


def test_zip(path):
    """Checksums hold, nothing is compressed, elements are aligned: a member can be mapped in place."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for member in archive.infolist():
            assert member.compress_type == zipfile.ZIP_STORED
            with open(path, "rb") as file:
                file.seek(member.header_offset + 26)
                name, extra = numpy.frombuffer(file.read(4), "<u2")
                start = member.header_offset + 30 + int(name) + int(extra)
                assert start % 64 == 0
                file.seek(start)
                assert file.read(6) == b"\x93NUMPY"
