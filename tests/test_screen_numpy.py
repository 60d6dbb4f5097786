"""numpy opens every array of a screen in one line, and finds what the manifest says."""

import json

import numpy
import pytest
from program import new_screen, succeed

DTYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i32": "<i4", "i64": "<i8", "f32": "<f4", "f64": "<f8"}


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    return new_screen(tmp_path_factory.mktemp("numpy") / "screen", "--samples", 5000, size="small", seed=3)


@pytest.fixture(scope="module")
def manifest(screen):
    return json.loads((screen / "manifest.json").read_text())


def test_every_array_opens(screen, manifest):
    arrays = {file: entry for file, entry in manifest["files"].items() if file.endswith(".npy")}
    assert len(arrays) >= 8
    for file, entry in arrays.items():
        array = numpy.load(screen / file, mmap_mode="r")
        assert array.dtype == numpy.dtype(DTYPES[entry["dtype"]]), file
        assert list(array.shape) == entry["shape"], file
        assert array.flags.c_contiguous, file
        assert array.offset % 64 == 0, file
        assert (screen / file).stat().st_size == entry["bytes"], file


def test_nothing_else_lies_there(screen, manifest):
    found = {str(path.relative_to(screen)) for path in screen.rglob("*") if path.is_file()}
    assert found == set(manifest["files"]) | {"manifest.json"}


def test_samples_mean_what_the_formats_say(screen, manifest):
    removed = numpy.load(screen / "samples/removed.npy", mmap_mode="r")
    ptr = numpy.load(screen / "samples/ptr.npy", mmap_mode="r")
    label = numpy.load(screen / "samples/label.npy", mmap_mode="r")
    genes = (screen / "nodes/gene.txt").read_text(encoding="utf-8").splitlines()
    assert (removed.dtype, ptr.dtype, label.dtype) == (numpy.uint16, numpy.uint32, numpy.float32)
    assert ptr[0] == 0 and ptr[-1] == len(removed) and (numpy.diff(ptr.astype(int)) == 3).all()
    assert removed.max() < len(genes) == 1000
    assert len(label) == 5000 == manifest["samples"]["count"]
    for entry in manifest["edges"]:
        edges = numpy.load(screen / f"edges/{entry['source']}.{entry['name']}.{entry['target']}.npy", mmap_mode="r")
        assert edges.shape == (2, entry["count"])


def test_info_agrees_with_numpy(screen):
    info = json.loads(succeed("info", screen, "--json", "--check"))
    label = numpy.load(screen / "samples/label.npy").astype(float)
    summary = info["samples"]["labels"][0]
    assert summary["count"] == len(label) and summary["missing"] == 0
    assert summary["mean"] == pytest.approx(label.mean(), abs=1e-12)
    assert summary["sd"] == pytest.approx(label.std(), abs=1e-12)
    assert (summary["min"], summary["max"]) == (label.min(), label.max())
    assert info["samples"]["removed"] == {"3": 5000}
    removed = numpy.load(screen / "samples/removed.npy")
    assert info["samples"]["genes_removed"] == len(numpy.unique(removed))
    joined = numpy.zeros(1000, bool)
    for entry in info["edges"]:
        source, name, target = entry["type"].split(".")
        edges = numpy.load(screen / f"edges/{entry['type']}.npy")
        sizes = {node["type"]: node["count"] for node in info["nodes"]}
        for end, degree, row in ((source, "out_degree", 0), (target, "in_degree", 1)):
            counts = numpy.bincount(edges[row], minlength=sizes[end])
            expected = {"min": counts.min(), "median": numpy.median(counts), "max": counts.max()}
            assert entry[degree] == expected, (entry["type"], degree)
        different = edges[0] != edges[1] if source == target else numpy.ones(edges.shape[1], bool)
        assert entry["self_loops"] == (~different).sum()
        for end, row in ((source, 0), (target, 1)):
            if end == "gene":
                joined[edges[row][different]] = True
    assert info["isolated_genes"] == (~joined).sum()
    parts = numpy.load(screen / "splits/random.npy")
    split = info["splits"][0]
    for code, name in ((0, "train"), (1, "validation"), (2, "test"), (255, "unused")):
        assert split[name] == (parts == code).sum()
    assert info["bytes"] == sum(p.stat().st_size for p in screen.rglob("*") if p.is_file() and p.name != "manifest.json")
    assert info["checked"] is True and len(info["fingerprint"]["value"]) == 16
    assert info["made_by"]["command"].startswith("lacuna generate screen")


def test_subset_and_concat_agree_with_numpy(screen, tmp_path):
    parts = numpy.load(screen / "splits/random.npy")
    label = numpy.load(screen / "samples/label.npy")
    removed = numpy.load(screen / "samples/removed.npy").reshape(-1, 3)
    succeed("subset", screen, tmp_path / "a", "--where", "split:random=test", "--where", "gene_interaction<0")
    chosen = (parts == 2) & (label < 0)
    assert (numpy.load(tmp_path / "a/samples/label.npy") == label[chosen]).all()
    assert (numpy.load(tmp_path / "a/samples/removed.npy").reshape(-1, 3) == removed[chosen]).all()
    succeed("subset", screen, tmp_path / "b", "--where", "split:random=train,validation")
    succeed("concat", tmp_path / "both", tmp_path / "a", tmp_path / "b", "--source", "from")
    both = numpy.concatenate([label[chosen], label[parts < 2]])
    assert (numpy.load(tmp_path / "both/samples/label.npy") == both).all()
    codes = numpy.load(tmp_path / "both/samples/from.npy")
    assert ((codes == 0).sum(), (codes == 1).sum()) == (chosen.sum(), (parts < 2).sum())
    succeed("info", tmp_path / "both", "--check")

