"""`lacuna import recording`: files made by numpy, torch.save, h5py and zarr-python with their defaults, read back with
NumPy from what was written."""

import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from program import PROGRAM, fail, lacuna, succeed
from recording_files import fields, manifest, on_a_small_disk, read

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
torch = pytest.importorskip("torch")
PYTHON = ("--python", sys.executable)
NO_PYTHON = ("--python", "/no/such/python")
T, UNITS = 700, 13


def session(seed=0, rows=T, units=UNITS):
    """Fields as a lab has them."""
    rng = np.random.default_rng(seed)
    return {
        "stim": rng.integers(0, 256, (rows, 51, 51), dtype=np.uint8),
        "robs": rng.poisson(0.3, (rows, units)).astype(np.float32),
        "behavior": rng.normal(size=(rows, 5)).astype(np.float32),
        "dfs": (rng.random((rows, units)) < 0.9).astype(np.float32),
        "trial_inds": np.repeat(np.arange(rows // 100 + 1), 100)[:rows].astype(np.int64),
        "psth_inds": np.repeat(np.arange(rows // 50), 50)[:rows].astype(np.int32),
        "t_bins": np.arange(rows) / 240.0,
    }


ROLES = {"stim": "stimulus", "robs": "counts", "behavior": "behaviour", "dfs": "validity", "trial_inds": "trial",
         "psth_inds": "stimulus_id", "t_bins": "time"}


def check_equal(recording, expected, session="s", segment="main", dtypes=None):
    described = fields(recording, session, segment)
    assert set(described) == set(expected)
    for name, values in expected.items():
        found = read(recording, name, session, segment)
        np.testing.assert_array_equal(found, values, err_msg=name)
        assert found.dtype == np.dtype((dtypes or {}).get(name, values.dtype)), name


def write_npy_folder(folder, data):
    folder.mkdir(parents=True)
    for name, values in data.items():
        np.save(folder / f"{name}.npy", values)
    return folder


# ---- each kind of file, as its maker writes it by default
def test_npy_folder(tmp_path):
    data = session()
    write_npy_folder(tmp_path / "s", data)
    said = succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 240)
    check_equal(tmp_path / "rec", data)
    assert {name: field["role"] for name, field in fields(tmp_path / "rec").items()} == ROLES
    assert "s/main/stim" in said
    entry = manifest(tmp_path / "rec")["sessions"][0]
    assert entry["rate"] == 240 and entry["units"] == [str(u) for u in range(UNITS)]


def test_npy_of_other_types_and_orders(tmp_path):
    data = {"a": np.asfortranarray(np.arange(700 * 6, dtype=">f4").reshape(700, 2, 3)),
            "b": np.arange(-350, 350, dtype=np.int16), "c": np.linspace(-2, 2, 700).astype(np.float16),
            "d": np.arange(700) % 3 == 0, "e": np.arange(700, dtype=np.int8)}
    write_npy_folder(tmp_path / "s", data)
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 1)
    check_equal(tmp_path / "rec", data, dtypes={"a": "f4", "b": "i4", "c": "f4", "d": "u1", "e": "i4"})
    assert fields(tmp_path / "rec")["c"]["recorded_as"] == "f16"


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_raw_maps(tmp_path, dtype, save):
    values = (np.random.default_rng(3).random((321, 7, 5)) * 200).astype(dtype)
    folder = tmp_path / "s"
    folder.mkdir()
    mapped = np.memmap(folder / "stim.dat", dtype=dtype, mode="w+", shape=values.shape)
    mapped[:] = values
    mapped.flush()
    save(folder / "stim_meta.npz", shape=values.shape, dtype=str(values.dtype))
    succeed("import", "recording", tmp_path / "rec", folder, "--rate", 120)
    check_equal(tmp_path / "rec", {"stim": values}, dtypes={"stim": "f4" if dtype == "float16" else dtype})


def torch_data(data):
    return {name: torch.from_numpy(values) for name, values in data.items()}


@pytest.mark.parametrize("suffix", [".dset", ".pt"])
def test_torch_files(tmp_path, suffix):
    data = session()
    path = tmp_path / f"s{suffix}"
    torch.save({"covariates": torch_data(data),
                "metadata": {"rate": 240, "subject": "mouse", "cids": np.arange(100, 100 + UNITS), "note": float("nan")}}, path)
    succeed("import", "recording", tmp_path / "rec", path, *PYTHON)
    check_equal(tmp_path / "rec", data)
    entry = manifest(tmp_path / "rec")["sessions"][0]
    assert entry["rate"] == 240 and entry["subject"] == "mouse" and entry["units"][0] == "100"


def test_strided_tensors(tmp_path):
    base = torch.from_numpy(np.random.default_rng(1).integers(0, 255, (900, 60, 64), dtype=np.uint8))
    table = torch.arange(900 * 10, dtype=torch.float32).reshape(10, 900)
    views = {"stim": base[100:800, 3:54, ::2], "robs": table.T[100:800, 2:7], "x": table[3].expand(5, 900).T[100:800],
             "half": table.half().T[::3][:233].repeat_interleave(1, 0), "brain": table.bfloat16().T[100:800],
             "turned": base.permute(1, 2, 0)[:, :40, 0].T.contiguous().T}
    views = {name: view[:40] if name == "turned" else view[:233] for name, view in views.items()}
    rows = min(len(view) for view in views.values())
    views = {name: view[:rows] for name, view in views.items()}
    torch.save(views, tmp_path / "s.pt")
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s.pt", "--rate", 1, *PYTHON)
    for name, view in views.items():
        found = read(tmp_path / "rec", name)
        if name == "brain":
            found = (found.astype("u4") << 16).view("f4")
        np.testing.assert_array_equal(found, view.float().numpy(), err_msg=name)


def test_torch_file_is_not_trusted(tmp_path):
    class Bad:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"covariates": torch_data(session()), "metadata": {"x": Bad()}}, tmp_path / "s.pt")
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "s.pt", "--rate", 1, *PYTHON)
    assert "posix.mkdir" in said and "weights_only" in said and not (tmp_path / "made").exists()


def test_torch_files_without_a_python_that_has_torch(tmp_path):
    torch.save(torch_data(session()), tmp_path / "s.pt")
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "s.pt", "--rate", 1, *NO_PYTHON)
    assert "/no/such/python" in said and "--python" in said
    bare = tmp_path / "bare"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")  # no packages
    bare.chmod(0o755)
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "s.pt", "--rate", 1, "--python", bare)
    assert "no torch" in said and "--python" in said


def write_hdf5(path, data, group="", attributes=None, **options):
    with h5py.File(path, "a", libver=options.pop("libver", None)) as file:
        at = file.require_group(group) if group else file
        for name, values in data.items():
            at.create_dataset(name, data=values, **options)
        at.attrs.update(attributes or {})


HDF5 = {
    "default": {},
    "chunked": dict(chunks=True),
    "gzip": dict(compression="gzip"),
    "gzip, shuffle, fletcher32": dict(compression="gzip", shuffle=True, fletcher32=True),
    "fletcher32": dict(fletcher32=True),
    "lzf": dict(compression="lzf"),
    "newest": dict(libver="latest"),
    "newest, chunked": dict(libver="latest", chunks=True, compression="gzip"),
}


@pytest.mark.parametrize("what", HDF5)
def test_hdf5(tmp_path, what):
    data = session()
    write_hdf5(tmp_path / "s.h5", data, attributes={"rate": 240, "subject": "m1"}, **HDF5[what])
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s.h5", *PYTHON)
    check_equal(tmp_path / "rec", data)
    entry = manifest(tmp_path / "rec")["sessions"][0]
    assert entry["rate"] == 240 and entry["subject"] == "m1"


def test_hdf5_without_python(tmp_path):
    """What libhdf5 reads needs no Python; what it does not is refused by the filter's name."""
    data = session()
    write_hdf5(tmp_path / "s.h5", data, compression="gzip", shuffle=True, fletcher32=True)
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s.h5", "--rate", 240, *NO_PYTHON)
    check_equal(tmp_path / "rec", data)
    write_hdf5(tmp_path / "lzf.h5", data, compression="lzf")
    said = fail("import", "recording", tmp_path / "rec2", tmp_path / "lzf.h5", "--rate", 240, *NO_PYTHON)
    assert "filter 'lzf'" in said and "lzf.h5" in said and "--python" in said


def test_hdf5_filter_that_nobody_has(tmp_path):
    data = session()
    write_hdf5(tmp_path / "s.h5", {"robs": data["robs"]})
    with h5py.File(tmp_path / "s.h5", "a") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((100, 51, 51))
        properties.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
        h5py.h5d.create(file.id, b"stim", h5py.h5t.NATIVE_UINT8, h5py.h5s.create_simple((T, 51, 51)), properties)
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "s.h5", "--rate", 1, *PYTHON)
    assert "/stim" in said and "filter 'zstd'" in said and "hdf5plugin" in said
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s.h5", "--rate", 1, "--skip", "stim", *PYTHON)
    check_equal(tmp_path / "rec", {"robs": data["robs"]})


def test_hdf5_types_and_what_is_no_array(tmp_path):
    data = {"flag": np.arange(90) % 2 == 0, "half": np.arange(90).astype("f2"), "big": np.arange(90, dtype=">i2"),
            "f8": np.arange(90.0)}
    write_hdf5(tmp_path / "s.h5", data, chunks=True)
    with h5py.File(tmp_path / "s.h5", "a") as file:
        file["words"] = ["a", "b"]
        file["one"] = 5
    said = succeed("import", "recording", tmp_path / "rec", tmp_path / "s.h5", "--rate", 1, *NO_PYTHON)
    check_equal(tmp_path / "rec", data, dtypes={"flag": "u1", "half": "f4", "big": "i4"})
    assert "left out words" in said and "left out one" in said


def test_hdf5_groups_are_sessions_and_segments(tmp_path):
    for s in ("m1", "m2"):
        for segment in ("gratings", "images"):
            write_hdf5(tmp_path / "all.h5", session(hash((s, segment)) % 99), f"{s}/{segment}")
    succeed("import", "recording", tmp_path / "rec", tmp_path / "all.h5", "--rate", 240)
    assert [entry["name"] for entry in manifest(tmp_path / "rec")["sessions"]] == ["m1", "m2"]
    for s in ("m1", "m2"):
        for segment in ("gratings", "images"):
            check_equal(tmp_path / "rec", session(hash((s, segment)) % 99), s, segment)
    succeed("import", "recording", tmp_path / "one", f"x={tmp_path / 'all.h5'},group=m2,subject=kim", "--rate", 240)
    check_equal(tmp_path / "one", session(hash(("m2", "images")) % 99), "x", "images")
    assert manifest(tmp_path / "one")["sessions"][0]["subject"] == "kim"


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_groups(tmp_path, version):
    data = session(rows=1300)  # the movie is tiled in space
    group = zarr.create_group(tmp_path / "s.zarr", zarr_format=version, attributes={"rate": 120})
    for name, values in data.items():
        group.create_array(name, data=values)
    group.create_array("one", data=np.array(5))
    assert group["stim"].chunks[1] < 51
    said = succeed("import", "recording", tmp_path / "rec", tmp_path / "s.zarr")
    check_equal(tmp_path / "rec", data)
    assert "left out one" in said


def test_zarr_shards_and_a_damaged_chunk(tmp_path):
    frames = session()["stim"]
    zarr.create_array(tmp_path / "stim.zarr", shape=frames.shape, dtype="u1", chunks=(50, 26, 26), shards=(200, 52, 52),
                      )[:] = frames
    succeed("import", "recording", tmp_path / "rec", f"s={tmp_path / 'stim.zarr'}", "--rate", 120)
    check_equal(tmp_path / "rec", {"stim": frames})
    shard = tmp_path / "stim.zarr/c/1/0/0"
    data = bytearray(shard.read_bytes())
    data[:20] = bytes(20)
    shard.write_bytes(data)
    said = fail("import", "recording", tmp_path / "rec2", f"s={tmp_path / 'stim.zarr'}", "--rate", 120)
    assert "stim.zarr/c/1/0/0" in said and "rows 200 to 249" in said and "copy it again" in said


def test_zarr_codec_that_is_not_read(tmp_path):
    import numcodecs

    zarr.create_array(tmp_path / "stim.zarr", shape=(50, 4, 4), dtype="u1", zarr_format=2, compressors=numcodecs.LZMA())[:] = 1
    said = fail("import", "recording", tmp_path / "rec", f"s={tmp_path / 'stim.zarr'}", "--rate", 120)
    assert "codec 'lzma'" in said and "zstd" in said and "write it again" in said


# ---- in place
def test_in_place_writes_a_manifest_only(tmp_path):
    data = session()
    folder = write_npy_folder(tmp_path / "s", data)
    write_hdf5(tmp_path / "h.h5", {name: data[name] for name in ("t_bins", "stim", "robs")})  # the others lie unaligned
    torch.save(torch_data(data), tmp_path / "t.pt")
    np.arange(T * 4, dtype="<f4").tofile(tmp_path / "raw.dat")
    np.savez(tmp_path / "raw_meta.npz", shape=(T, 4), dtype="float32")
    succeed("import", "recording", tmp_path / "rec", folder, tmp_path / "h.h5", tmp_path / "t.pt", f"r={tmp_path / 'raw.dat'}",
            "--rate", 240, "--in-place", *PYTHON)
    sizes = sum(path.stat().st_size for path in (tmp_path / "rec").rglob("*") if path.is_file())
    assert sizes < 0.02 * sum(values.nbytes for values in data.values()) * 3 + 20000
    for name in ("s", "h", "t"):
        for field, described in fields(tmp_path / "rec", name).items():
            values = data[field]
            found = np.memmap(described["in_place"], values.dtype, "r", described["offset"], values.shape)
            np.testing.assert_array_equal(found, values)
    succeed("verify", tmp_path / "rec")


@pytest.mark.parametrize("what,words", [("chunks", "chunks of HDF5"), ("zarr", "chunks of a Zarr array"),
                                        ("strided", "strided view"), ("f16", "held as f32"), ("big", "big endian")])
def test_in_place_refuses_what_is_not_contiguous(tmp_path, what, words):
    frames = session()["stim"]
    path = tmp_path / "s"
    if what == "chunks":
        path = tmp_path / "s.h5"
        write_hdf5(path, {"stim": frames}, chunks=True)
    elif what == "zarr":
        path = tmp_path / "stim.zarr"
        zarr.create_array(path, data=frames)
    elif what == "strided":
        path = tmp_path / "s.pt"
        torch.save({"stim": torch.from_numpy(frames)[:, ::2]}, path)
    else:
        write_npy_folder(path, {"stim": frames.astype({"f16": "f2", "big": ">i4"}[what])})
    said = fail("import", "recording", tmp_path / "rec", path, "--rate", 240, "--in-place", *PYTHON)
    assert words in said and "without --in-place" in said
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_refused_import_leaves_nothing(tmp_path, in_place):
    words = ["--rate", 240, *PYTHON, *(["--in-place"] if in_place else [])]
    good = write_npy_folder(tmp_path / "a", session())
    bad = write_npy_folder(tmp_path / "b", session() | {"trial_inds": np.zeros(T - 1, np.int64)})
    rec = tmp_path / "rec"
    assert "differ in length" in fail("import", "recording", rec, good, bad, *words)
    assert not rec.exists()
    succeed("import", "recording", rec, good, *words)
    before = sorted(rec.rglob("*"))
    assert "differ in length" in fail("import", "recording", rec, bad, "--add", *words)
    assert sorted(rec.rglob("*")) == before
    succeed("verify", rec)


# ---- narrow
def normalised(frames, dtype):
    return (frames.astype(dtype) - dtype(127)) / dtype(255)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("form", ["whole", "normalised"])
def test_narrow(tmp_path, dtype, form):
    data = session()
    stored = dict(data)
    stored["stim"] = data["stim"].astype(dtype) if form == "whole" else normalised(data["stim"], dtype)
    stored["robs"] = data["robs"].astype(np.float64)
    stored["robs"][5, 2] = 300
    write_npy_folder(tmp_path / "s", stored)
    said = succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 240, "--narrow")
    expected = {**data, "robs": stored["robs"]}
    check_equal(tmp_path / "rec", expected, dtypes={"stim": "u1", "robs": "u2", "dfs": "u1"})
    described = fields(tmp_path / "rec")
    assert described["dfs"]["packed"] and described["stim"]["recorded_as"].startswith(f"f{dtype().itemsize * 8}")
    assert ("(k - 127) / 255" in described["stim"]["recorded_as"]) == (form == "normalised")
    assert "became" in said


def test_counts_become_bytes(tmp_path):
    data = session()
    write_npy_folder(tmp_path / "s", {"robs": data["robs"]})
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 240, "--narrow")
    check_equal(tmp_path / "rec", {"robs": data["robs"]}, dtypes={"robs": "u1"})


@pytest.mark.parametrize("name,value", [("stim", 0.5), ("stim", 256), ("stim", np.nan), ("stim", -0.0), ("robs", -1),
                                        ("robs", 2.5), ("dfs", 2), ("stim", "next")])
def test_one_value_that_does_not_fit_keeps_the_field(tmp_path, name, value):
    """The last value of all: every one is looked at."""
    values = session()[name].astype(np.float32)
    if value == "next":  # the neighbour of a right one
        values = normalised(values, np.float32)
        value = np.nextafter(values.flat[-1], np.float32(9))
    values.flat[-1] = value
    write_npy_folder(tmp_path / "s", {"robs": session()["robs"], name: values})
    said = succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 240, "--narrow")
    found = read(tmp_path / "rec", name)
    assert found.dtype == np.float32 and found.tobytes() == values.tobytes()
    assert f"stays f32: row {T - 1}" in said


def test_behaviour_and_ids_are_left_alone(tmp_path):
    data = session()
    data["behavior"][:] = 3
    write_npy_folder(tmp_path / "s", data)
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 240, "--narrow")
    for name in ("behavior", "t_bins", "trial_inds", "psth_inds"):
        assert read(tmp_path / "rec", name).dtype == data[name].dtype


# ---- names, sessions, errors
def test_names_roles_and_units(tmp_path):
    data = session()
    write_npy_folder(tmp_path / "a", {"movie51": data["stim"], "spk": data["robs"], "eye": data["behavior"], "junk": data["dfs"]})
    (tmp_path / "units.txt").write_text("".join(f"u{u}\n" for u in range(UNITS)))
    succeed("import", "recording", tmp_path / "rec", f"m1/day={tmp_path / 'a'},subject=kim,rate=120,units={tmp_path / 'units.txt'}",
            "--field", "stim=movie51", "--field", "robs=spk", "--role", "eye=behaviour", "--skip", "junk")
    check_equal(tmp_path / "rec", {"stim": data["stim"], "robs": data["robs"], "eye": data["behavior"]}, "m1", "day")
    entry = manifest(tmp_path / "rec")["sessions"][0]
    assert entry["units"][3] == "u3" and entry["subject"] == "kim" and entry["rate"] == 120
    assert fields(tmp_path / "rec", "m1", "day")["eye"]["role"] == "behaviour"
    said = fail("import", "recording", tmp_path / "rec2", tmp_path / "a", "--rate", 1, "--role", "eyes=behaviour")
    assert "eyes" in said and "'eye'" in said


def test_single_arrays_are_joined(tmp_path):
    data = session()
    folder = write_npy_folder(tmp_path / "any", data)
    succeed("import", "recording", tmp_path / "rec", *[f"s={folder / name}.npy" for name in data], "--rate", 240)
    check_equal(tmp_path / "rec", data)
    said = fail("import", "recording", tmp_path / "rec2", folder / "stim.npy", "--rate", 1, code=2)
    assert "session" in said


def test_column_vectors_are_one_number_a_row(tmp_path):
    data = session()
    for name in ("trial_inds", "t_bins"):
        data[name] = data[name][:, None]
    data["dfs"] = data["dfs"][:, :1]
    write_npy_folder(tmp_path / "s", data)
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s", "--rate", 240)
    check_equal(tmp_path / "rec", {name: values[:, 0] if name in ("trial_inds", "t_bins", "dfs") else values
                                   for name, values in data.items()})


def test_a_session_added_later(tmp_path):
    write_npy_folder(tmp_path / "a", session(1))
    write_npy_folder(tmp_path / "b", session(2, rows=300, units=4))
    succeed("import", "recording", tmp_path / "rec", tmp_path / "a", "--rate", 240)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "rec/a").rglob("*")}
    assert "--add" in fail("import", "recording", tmp_path / "rec", tmp_path / "b", "--rate", 240)
    succeed("import", "recording", tmp_path / "rec", tmp_path / "b", "--rate", 240, "--add")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "rec/a").rglob("*")}
    check_equal(tmp_path / "rec", session(1), "a")
    check_equal(tmp_path / "rec", session(2, rows=300, units=4), "b")
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "b", "--rate", 240, "--add")
    assert "'b' is there already" in said


def test_errors_name_culprit_and_remedy(tmp_path):
    data = session()
    folder = write_npy_folder(tmp_path / "s", data)
    assert "--rate" in fail("import", "recording", tmp_path / "rec", folder)
    assert "choose one" in fail("import", "recording", tmp_path / "rec", folder, "--narrow", "--in-place", code=2)
    np.save(folder / "robs.npy", data["robs"][:-1])
    said = fail("import", "recording", tmp_path / "rec", folder, "--rate", 1)
    assert "differ in length" in said and "robs" in said and str(T - 1) in said
    whole = (folder / "stim.npy").read_bytes()
    (folder / "stim.npy").write_bytes(whole[:-100])
    said = fail("import", "recording", tmp_path / "rec", folder, "--rate", 1)
    assert "stim.npy" in said and "truncated" in said and "copy it again" in said
    (tmp_path / "x.txt").write_text("hello")
    assert "x.txt" in fail("import", "recording", tmp_path / "rec", tmp_path / "x.txt", "--rate", 1)
    (tmp_path / "h.h5").write_bytes(b"no HDF5 at all")
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "h.h5", "--rate", 1, *PYTHON)
    assert "h.h5" in said and "libhdf5" in said
    (tmp_path / "a.dat").write_bytes(bytes(10))
    assert "a_meta.npz" in fail("import", "recording", tmp_path / "rec", f"s={tmp_path / 'a.dat'}", "--rate", 1)
    np.savez(tmp_path / "a_meta.npz", shape=(11,), dtype="uint8")
    said = fail("import", "recording", tmp_path / "rec", f"s={tmp_path / 'a.dat'}", "--rate", 1)
    assert "10 bytes" in said and "11" in said
    assert not (tmp_path / "rec/manifest.json").exists()


def test_a_small_disk_is_seen_before_anything_is_written(tmp_path):
    folder, disk = write_npy_folder(tmp_path / "s", {"stim": session()["stim"].astype("f4")}), tmp_path / "disk"  # 7 MB
    said = on_a_small_disk(disk, 8, "import", "recording", disk / "rec", folder, "--rate", 1)
    assert "8.74 MB with a margin" in said and "8.39 MB free" in said and "--narrow" in said, said


def test_damaged_hdf5_chunk(tmp_path):
    data = session()
    write_hdf5(tmp_path / "s.h5", {"stim": data["stim"]}, chunks=(100, 51, 51), fletcher32=True)
    with h5py.File(tmp_path / "s.h5") as file:
        place = file["stim"].id.get_chunk_info(3).byte_offset
    with open(tmp_path / "s.h5", "r+b") as file:
        file.seek(place + 50)
        file.write(b"\xff\x00\xff")
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "s.h5", "--rate", 1)
    assert "/stim" in said and "rows" in said and "copy it again" in said


# ---- memory
def high_water(pid):
    """Peak resident memory of a process so far, in MB."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024
    except (OSError, AttributeError):  # it has ended
        return 0.0


def peak_of_import(*words):
    """Peak resident memory in MB of the program and, apart, of the Python that it starts."""
    process = subprocess.Popen([str(PROGRAM), "import", "recording", *map(str, words)], stdout=subprocess.DEVNULL)
    program = python = 0.0
    while process.poll() is None:
        program = max(program, high_water(process.pid))
        try:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except OSError:
            children = []
        python = max([python, *map(high_water, children)])
        time.sleep(0.005)
    assert process.returncode == 0 and program > 0
    return program, python


@pytest.mark.parametrize("kind", ["npy", "in place", "hdf5", "lzf", "zarr", "strided"])
def test_memory_does_not_grow_with_the_data(tmp_path, kind):
    """300 MB here; LACUNA_TEST_IMPORT_GB=4 takes that many instead."""
    size = float(os.environ.get("LACUNA_TEST_IMPORT_GB", 0.3)) * 1e9
    rows = int(size / 51 / 51)
    words = []
    if kind in ("npy", "in place"):
        path = f"s={tmp_path / 'stim.npy'}"
        np.lib.format.open_memmap(tmp_path / "stim.npy", "w+", "u1", (rows, 51, 51))[::7] = 9
        words = ["--in-place"] if kind == "in place" else ["--narrow"]
    elif kind in ("hdf5", "lzf"):
        path = tmp_path / "s.h5"
        with h5py.File(path, "w") as file:
            packed = dict(compression="lzf") if kind == "lzf" else dict(compression="gzip", compression_opts=1)
            stim = file.create_dataset("stim", (rows, 51, 51), "u1", chunks=(200, 26, 26), **packed)
            for begin in range(0, rows, 20000):  # whole arrays: h5py writes a single number element by element
                stim[begin:begin + 20000] = np.full((min(20000, rows - begin), 51, 51), begin % 251, "u1")
    elif kind == "zarr":
        path = f"s={tmp_path / 'stim.zarr'}"
        stim = zarr.create_array(tmp_path / "stim.zarr", shape=(rows, 51, 51), dtype="u1")
        step = stim.chunks[0]
        for begin in range(0, rows, step):
            stim[begin:begin + step] = begin % 251
    else:
        path = tmp_path / "s.pt"
        stim = torch.zeros((rows, 51, 51), dtype=torch.uint8)
        stim[::5] = 3
        torch.save({"stim": stim[:, :, :50]}, path)
        del stim
    program, python = peak_of_import(tmp_path / "rec", path, "--rate", 120, *words, *PYTHON)
    assert program < 200, f"{program:.0f} MB"
    assert program + python < 200 or kind == "strided", f"{python:.0f} MB"  # importing torch takes 220 MB
    assert python < 400


def test_help_names_the_kinds_of_files():
    said = lacuna("import", "recording", "--help").stdout
    for word in (".npy", ".dat", ".dset", ".h5", "Zarr", "--in-place", "--narrow", "--add"):
        assert word in said


# ---- what sources say of their sessions
def write_sessions(kind, path):
    """Two sessions of two segments; the file says a subject and a rate, groups say more."""
    said = {"": {"rate": 100.0, "subject": "nobody"}, "m1": {"subject": "kim", "unit_names": ["a", "b", "c"]},
            "m2": {"cids": np.arange(20, 24), "rate": np.array([120.0])}}
    units = {"m1": 3, "m2": 4}
    parts = {f"{s}/{g}": session(len(s + g), rows=300, units=units[s]) for s in units for g in ("gratings", "images")}
    if kind.startswith("hdf5"):
        options = dict(compression="lzf") if "h5py" in kind else {}
        for group, data in parts.items():
            write_hdf5(path, data, group, **options)
        with h5py.File(path, "a") as file:
            for group, values in said.items():
                file[group or "/"].attrs.update(values)
    elif kind == "torch":
        tree = {**said[""]}
        for group, data in parts.items():
            name, segment = group.split("/")
            tree.setdefault(name, dict(said[name]))[segment] = torch_data(data)
        tree = {key: {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in value.items()}
                if isinstance(value, dict) else value for key, value in tree.items()}
        torch.save(tree, path)
    else:
        root = zarr.create_group(path, zarr_format=int(kind[-1]), attributes=said[""])
        for name in units:
            values = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in said[name].items()}
            root.create_group(name, attributes=values)
        for group, data in parts.items():
            for field, values in data.items():
                root.create_array(f"{group}/{field}", data=values)


@pytest.mark.parametrize("kind,file", [("hdf5", "all.h5"), ("hdf5 by h5py", "all.h5"), ("zarr 2", "all.zarr"),
                                       ("zarr 3", "all.zarr"), ("torch", "all.pt")])
def test_groups_say_rate_subject_and_units(tmp_path, kind, file):
    write_sessions(kind, tmp_path / file)
    succeed("import", "recording", tmp_path / "rec", tmp_path / file, *PYTHON)
    m1, m2 = manifest(tmp_path / "rec")["sessions"]
    assert (m1["name"], m1["subject"], m1["rate"], m1["units"]) == ("m1", "kim", 100, ["a", "b", "c"])
    assert (m2["name"], m2["subject"], m2["rate"], m2["units"]) == ("m2", "nobody", 120, ["20", "21", "22", "23"])
    if kind != "torch":  # one group of it: what lies around it still holds
        succeed("import", "recording", tmp_path / "one", f"x={tmp_path / file},group=m2", *PYTHON)
        only = manifest(tmp_path / "one")["sessions"][0]
        assert (only["subject"], only["rate"], only["units"][0]) == ("nobody", 120, "20")


def test_files_of_a_folder_keep_their_own_words(tmp_path):
    folder = tmp_path / "lab"
    folder.mkdir()
    for name, rate, units in (("m1", 120, 3), ("m2", 240, 5)):
        torch.save({"covariates": {"main": torch_data(session(units, rows=200, units=units))},
                    "metadata": {"rate": rate, "subject": name, "cids": list(range(units))}}, folder / f"{name}.pt")
    succeed("import", "recording", tmp_path / "rec", folder, *PYTHON)
    found = [(s["name"], s["subject"], s["rate"], len(s["units"])) for s in manifest(tmp_path / "rec")["sessions"]]
    assert found == [("m1", "m1", 120, 3), ("m2", "m2", 240, 5)]


def test_two_rates_of_one_session_are_refused(tmp_path):
    for segment, rate in (("a", 120), ("b", 240)):
        write_hdf5(tmp_path / "s.h5", session(), segment, attributes={"rate": rate})
    said = fail("import", "recording", tmp_path / "rec", tmp_path / "s.h5")
    assert "240" in said and "120" in said and "/b/" in said and "rate=NUMBER" in said
    succeed("import", "recording", tmp_path / "rec", f"s={tmp_path / 's.h5'},rate=60", "--rate", 240)
    assert manifest(tmp_path / "rec")["sessions"][0]["rate"] == 60


def test_a_rate_that_the_file_says_comes_before_the_one_of_all(tmp_path):
    write_hdf5(tmp_path / "s.h5", session(), attributes={"rate": 120})
    write_npy_folder(tmp_path / "t", session())
    succeed("import", "recording", tmp_path / "rec", tmp_path / "s.h5", tmp_path / "t", "--rate", 240)
    assert [s["rate"] for s in manifest(tmp_path / "rec")["sessions"]] == [120, 240]
