"""`lacuna split`, `subset --random` and `concat` say what they did, against NumPy."""

import json

import numpy as np
import pytest
from program import fail, lacuna, succeed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Unique doubles of two laboratories, ten of which both have measured; `joined` has both with a column `lab`."""
    folder = tmp_path_factory.mktemp("splits")
    genes = [f"g{i}" for i in range(20)]
    (folder / "genes.csv").write_text("gene\n" + "\n".join(genes) + "\n")
    (folder / "edges.csv").write_text("source,target\ng0,g1\ng1,g2\n")
    pairs = [(a, b) for i, a in enumerate(genes) for b in genes[i + 1 :]]
    for name, rows in (("first", pairs[:100]), ("second", pairs[90:])):
        (folder / f"{name}.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{i % 7}\n" for i, (a, b) in enumerate(rows)))
        succeed("import", "screen", folder / name, "--genes", folder / "genes.csv", "--network",
                f"physical={folder}/edges.csv", "--samples", f"{folder}/{name}.csv,removed=a+b,label=y")  # fmt: skip
        succeed("split", folder / name, "--name", "random", "--by", "random", "--seed", 3)
    return folder


@pytest.fixture(scope="module")
def joined(folder):
    done = lacuna("concat", folder / "joined", folder / "first", folder / "second", "--source", "lab")
    assert done.returncode == 0
    return folder / "joined", done.stderr


def removed(screen):
    genes, ptr = (np.load(screen / "samples" / f"{name}.npy") for name in ("removed", "ptr"))
    return [frozenset(genes[a:b].tolist()) for a, b in zip(ptr[:-1], ptr[1:])]


def parts(screen, split):
    return np.load(screen / "splits" / f"{split}.npy")  # 0 train, 1 validation, 2 test, 255 unused


def test_concat_counts_what_is_in_training_and_in_test(joined):
    screen, said = joined
    sets, part = removed(screen), parts(screen, "random")
    trained = {genes for genes, p in zip(sets, part) if p == 0}
    counts = [sum(p == which and genes in trained for genes, p in zip(sets, part)) for which in (2, 1)]
    assert sum(counts) > 0  # ten pairs are in both screens, and their splits are drawn apart
    assert f"split 'random': {counts[0]} samples of test and {counts[1]} of validation remove a set of genes" in said


def test_leave_one_screen_out(joined):
    screen, _ = joined
    said = succeed("split", screen, "--name", "lab", "--by", "category", "--column", "lab", "--each")
    assert "lab-first" in said and "lab-second" in said
    lab, sets = np.load(screen / "samples/lab.npy"), removed(screen)
    for code, name in enumerate(["first", "second"]):
        part = parts(screen, f"lab-{name}")
        assert ((part == 2) == (lab == code)).all()
        tested = {genes for genes, p in zip(sets, part) if p == 2}
        assert [p == 255 for p in part] == [genes in tested and p != 2 for genes, p in zip(sets, part)]
        assert (part == 255).sum() == 10
    done = lacuna("split", screen, "--name", "new", "--by", "category", "--column", "lab", "--hold-out", "second")
    assert "10 samples are unused" in done.stderr and np.array_equal(parts(screen, "new"), parts(screen, "lab-second"))
    lacuna("split", screen, "--name", "apart", "--by", "category", "--column", "lab", "--hold-out", "second",
           "--repeats", "apart")  # fmt: skip
    assert (parts(screen, "apart") == 255).sum() == 0


def test_a_pair_split_of_unique_doubles_equals_random(folder):
    done = lacuna("split", folder / "first", "--name", "pair", "--by", "pair", "--seed", 1)
    assert done.returncode == 0 and "equals a random split" in done.stderr
    assert "equals" not in lacuna("split", folder / "first", "--name", "gene", "--by", "gene").stderr


def test_a_missed_share_is_told_with_its_reason(joined):
    screen, _ = joined
    done = lacuna("split", screen, "--name", "labs", "--by", "category", "--column", "lab", "--fractions", "0.9,0,0.1")
    # The ten pairs of both hold the two together: there is one group, and nothing is left for test.
    assert done.returncode == 1 and "(1 groups, the largest of" in done.stderr
    done = lacuna("split", screen, "--name", "labs", "--by", "category", "--column", "lab", "--fractions", "0.6,0,0.4",
                  "--repeats", "apart")  # fmt: skip
    assert "(asked: 40.0%): what is held out as a whole is few and large: 2 groups" in done.stderr
    assert "What would help:" in done.stderr


def test_at_random(folder):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        succeed("subset", folder / "first", folder / name, "--random", 30, "--seed", seed)
    sets = {name: removed(folder / name) for name in "abc"}
    assert len(set(sets["a"])) == 30 and sets["a"] == sets["b"] != sets["c"]
    assert [s for s in removed(folder / "first") if s in set(sets["a"])] == sets["a"]
    manifest = json.loads((folder / "a/manifest.json").read_text())
    assert manifest["made_by"]["settings"] == {"where": [], "random": 30, "seed": 1}
    assert "not so many" in fail("subset", folder / "first", folder / "d", "--random", 101)


@pytest.mark.parametrize("words, said", [
    (["--by", "category"], "needs a column"),
    (["--by", "random", "--hold-out", "first"], "go with a split by category"),
    (["--by", "random", "--each"], "--each goes with"),
    (["--by", "category", "--column", "lab", "--each", "--hold-out", "first"], "exclude each other"),
])  # fmt: skip
def test_wrong_calls(joined, words, said):
    assert said in fail("split", joined[0], "--name", "x", *words, code=2)


def test_a_category_that_is_not_there_is_named_with_the_nearest(joined):
    words = fail("split", joined[0], "--name", "x", "--by", "category", "--column", "lab", "--hold-out", "secnd")
    assert "no category 'secnd' to hold out; did you mean 'second'?" in words
