"""Zarr arrays, ours and zarr-python's: each opens what the other writes."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from program import BUILD
from seeds import seed_of

numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr")
codecs = pytest.importorskip("zarr.codecs")


def probe(*words):
    done = subprocess.run([BUILD / "zarr_probe", *map(str, words)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stderr


def movie(rows=211, size=51, dtype="u1", seed=None):
    """Smooth in space and time, so that it packs, with noise, so that every byte counts."""
    rng = np.random.default_rng(seed)
    t, y, x = np.ogrid[:rows, :size, :size]
    frames = 127 + 60 * np.sin(t / 9 + y / 5) + 50 * np.cos(x / 7) + rng.integers(0, 9, (rows, size, size))
    return frames.astype(dtype)


def read(folder, tmp_path, rows=100, how="read"):
    out = tmp_path / "out.npy"
    said = probe(how, folder, out, rows)
    assert said == "", said
    return np.load(out)


@pytest.mark.parametrize("compressor", ["lz4", "zstd"])
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_zarr_python_opens_what_we_write(tmp_path, compressor, dtype):
    frames = movie(dtype=dtype)
    np.save(tmp_path / "in.npy", frames)
    chunk_bytes = frames[:33].nbytes
    assert probe("write", tmp_path / "in.npy", tmp_path / "a.zarr", 33, 3 * chunk_bytes, compressor) == ""
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert array.shards == (99, 51, 51) and array.chunks == (33, 51, 51)
    np.testing.assert_array_equal(array[:], frames)
    assert sorted(str(p.relative_to(tmp_path / "a.zarr")) for p in (tmp_path / "a.zarr").rglob("*") if p.is_file()) == [
        "c/0/0/0", "c/1/0/0", "c/2/0/0", "zarr.json"]
    inner = json.loads((tmp_path / "a.zarr/zarr.json").read_text())["codecs"][0]["configuration"]["codecs"]
    assert [c["name"] for c in inner] == ["bytes", "blosc", "crc32c"]
    assert inner[1]["configuration"]["shuffle"] == "noshuffle" and inner[1]["configuration"]["cname"] == compressor
    for rows in (1, 40, 211):  # and so do we, whatever is asked for at once
        np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, rows, "chunks"), frames)
        np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, rows), frames)


@pytest.mark.parametrize("version", [2, 3])
def test_defaults_of_zarr_python(tmp_path, version):
    frames = movie(1300)  # large enough that it is tiled in space
    array = zarr.create_array(tmp_path / "a.zarr", shape=frames.shape, dtype="u1", zarr_format=version)
    array[:] = frames
    assert array.chunks != array.shape
    for rows in (array.chunks[0], 77):
        np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, rows), frames)


V3 = {
    "bytes": dict(compressors=None),
    "gzip": dict(compressors=[codecs.GzipCodec(level=3)]),
    "zstd": dict(compressors=[codecs.ZstdCodec(level=1)]),
    "zstd-checksum": dict(compressors=[codecs.ZstdCodec(level=1, checksum=True)]),
    **{f"blosc-{name}": dict(compressors=[codecs.BloscCodec(cname=name, clevel=5, shuffle=shuffle)])
       for name, shuffle in [("lz4", "noshuffle"), ("lz4hc", "shuffle"), ("zstd", "bitshuffle"), ("zlib", "shuffle"),
                             ("blosclz", "noshuffle")]},
    "crc32c": dict(compressors=[codecs.Crc32cCodec()]),
    "zstd-crc32c": dict(compressors=[codecs.ZstdCodec(), codecs.Crc32cCodec()]),
    "two": dict(compressors=[codecs.BloscCodec(cname="lz4"), codecs.Crc32cCodec(), codecs.GzipCodec()]),
    "transposed": dict(filters=[codecs.TransposeCodec(order=(2, 0, 1))]),
    "big endian": dict(serializer=codecs.BytesCodec(endian="big"), dtype="f4"),
    "sharded": dict(shards=(80, 52, 52)),
    "sharded, index first": dict(shards={"shape": (80, 52, 52), "index_location": "start"}),
    "sharded in space": dict(shards=(40, 26, 52), compressors=[codecs.BloscCodec(), codecs.Crc32cCodec()]),
    "dots": dict(chunk_key_encoding={"name": "default", "separator": "."}),
    "keys of v2": dict(chunk_key_encoding={"name": "v2", "separator": "/"}),
}


@pytest.mark.parametrize("what", V3)
def test_codecs_of_version_3(tmp_path, what):
    options = dict(V3[what])
    dtype = options.pop("dtype", "u2")
    frames = movie(150, dtype=dtype)
    array = zarr.create_array(tmp_path / "a.zarr", shape=frames.shape, dtype=dtype, chunks=(40, 26, 13), **options)
    array[:] = frames
    for rows in (40, 37):
        np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, rows), frames)


V2 = {
    "none": dict(compressors=None),
    "gzip": dict(compressors=numcodecs.GZip()),
    "zlib": dict(compressors=numcodecs.Zlib()),
    "zstd": dict(compressors=numcodecs.Zstd()),
    "blosc": dict(compressors=numcodecs.Blosc()),  # what zarr-python 2 wrote
    "order F": dict(order="F"),
    "big endian": dict(dtype=">f4"),
    "slashes": dict(chunk_key_encoding={"name": "v2", "separator": "/"}),
}


@pytest.mark.parametrize("what", V2)
def test_codecs_of_version_2(tmp_path, what):
    options = dict(V2[what])
    dtype = options.pop("dtype", "<i4")
    frames = movie(150, dtype=dtype)
    array = zarr.create_array(tmp_path / "a.zarr", shape=frames.shape, dtype=dtype, chunks=(40, 26, 13), zarr_format=2,
                              **options)
    array[:] = frames
    np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path), frames)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype,fill", [("u1", 7), ("f4", np.nan), ("f8", -np.inf), ("f2", 1.5), ("i2", -3), ("bool", True),
                                        ("u8", 2**63 + 1), ("i8", -5)])
def test_missing_chunks_hold_the_fill_value(tmp_path, version, dtype, fill):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(100, 6), chunks=(30, 4), dtype=dtype, fill_value=fill,
                              zarr_format=version)
    array[60:95] = 1
    expected = array[:]
    assert not np.array_equal(expected, np.ones_like(expected)) or dtype == "bool"
    np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, 30), expected)


def test_shards_with_missing_chunks(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(100, 6), chunks=(10, 6), shards=(40, 6), dtype="u1", fill_value=9)
    array[20:30] = 4
    np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, 100), array[:])
    np.testing.assert_array_equal(read(tmp_path / "a.zarr", tmp_path, 100, "chunks"), array[:])


@pytest.mark.parametrize("options,words", [
    (dict(zarr_format=2, compressors=numcodecs.LZ4()), "codec 'lz4'"),
    (dict(zarr_format=2, compressors=numcodecs.BZ2()), "codec 'bz2'"),
    (dict(zarr_format=2, filters=[numcodecs.Delta(dtype="u1")]), "filter 'delta'"),
    (dict(zarr_format=2, dtype="c8"), "dtype '<c8'"),
    (dict(dtype="c8"), "data type 'complex64'"),
])
def test_what_is_not_read_is_refused_by_name(tmp_path, options, words):
    options = {"dtype": "u1", **options}
    zarr.create_array(tmp_path / "a.zarr", shape=(9, 3), chunks=(3, 3), **options)[:] = 1
    assert words in probe("read", tmp_path / "a.zarr", tmp_path / "out.npy", 5)


@pytest.mark.parametrize("name,configuration", [("numcodecs.bz2", {"level": 1}), ("vlen-bytes", {})])
def test_unknown_codecs_of_version_3(tmp_path, name, configuration):
    zarr.create_array(tmp_path / "a.zarr", shape=(9, 3), chunks=(3, 3), dtype="u1")[:] = 1
    path = tmp_path / "a.zarr/zarr.json"
    metadata = json.loads(path.read_text())
    metadata["codecs"].append({"name": name, "configuration": configuration})
    path.write_text(json.dumps(metadata))
    assert f"codec '{name}'" in probe("read", tmp_path / "a.zarr", tmp_path / "out.npy", 5)


def flip(path: pathlib.Path, byte):
    data = bytearray(path.read_bytes())
    data[byte] ^= 4
    path.write_bytes(data)


def test_every_flipped_byte_of_a_shard_is_seen(tmp_path):
    np.save(tmp_path / "in.npy", movie(50, 12))
    probe("write", tmp_path / "in.npy", tmp_path / "a.zarr", 33, 1 << 20, "lz4")
    shard = tmp_path / "a.zarr/c/0/0/0"
    rng = np.random.default_rng(seed_of("flipped bytes of a shard"))
    for byte in rng.integers(0, shard.stat().st_size, 60):
        flip(shard, byte)
        for how in ("read", "chunks"):
            said = probe(how, tmp_path / "a.zarr", tmp_path / "out.npy", 10)
            assert "c/0/0/0" in said and "damaged" in said, (byte, said)
        flip(shard, byte)
    assert probe("read", tmp_path / "a.zarr", tmp_path / "out.npy", 10) == ""


def test_a_shard_that_is_cut_short_is_named(tmp_path):
    np.save(tmp_path / "in.npy", movie(50, 12))
    probe("write", tmp_path / "in.npy", tmp_path / "a.zarr", 33, 1 << 20, "lz4")
    shard = tmp_path / "a.zarr/c/0/0/0"
    whole = shard.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        shard.write_bytes(whole[:size])
        said = probe("chunks", tmp_path / "a.zarr", tmp_path / "out.npy", 10)
        assert "c/0/0/0" in said and "copy it again" in said, said


def test_a_chunk_that_does_not_unpack_is_named(tmp_path):
    frames = movie(60, 12)
    zarr.create_array(tmp_path / "a.zarr", shape=frames.shape, chunks=(30, 12, 12), dtype="u1")[:] = frames
    chunk = tmp_path / "a.zarr/c/1/0/0"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    said = probe("read", tmp_path / "a.zarr", tmp_path / "out.npy", 10)
    assert "c/1/0/0" in said and "rows 30 to 59" in said and "zstd" in said and "copy it again" in said
