"""One sample at a time, against the files and the loader."""

import numpy as np
import pytest
import torch

import lacuna


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    screen = lacuna.Screen.generate(tmp_path_factory.mktemp("dataset") / "screen", seed=6)
    screen.make_split("half", fractions=(0.5, 0.2, 0.3), seed=1)
    return screen


def test_a_sample_is_what_the_files_say(screen):
    dataset = screen.dataset()
    assert len(dataset) == len(screen)
    for i in (0, 17, -1):
        one = dataset[i]
        sample = i % len(screen)
        assert one["sample"] == sample and one["removed"] == screen.removed_of(sample)
        assert [screen.genes[gene] for gene in one["removed_genes"]] == one["removed"]
        assert np.array_equal(one["label"], screen.labels[sample], equal_nan=True)
        column = screen.columns["query_pair"]
        assert one["columns"]["query_pair"] == column.categories[column.values[sample]]
        assert one["columns"]["truth_gene"] == screen.columns["truth_gene"].values[sample]
        gone = np.zeros(len(screen.genes), bool)
        gone[one["removed_genes"]] = True
        assert np.array_equal(one["masks"]["gene"], ~gone) and one["masks"]["gene"].dtype == bool
        for (source, name, target), (u, v) in screen.edges().items():
            if source == target == "gene":
                assert np.array_equal(one["masks"][f"gene.{name}.gene"], ~(gone[u] | gone[v]))
        rules = screen.edges()["gene", "rule", "reaction"]
        off = np.zeros(len(screen.nodes("reaction")), bool)
        off[rules[1][gone[rules[0]]]] = True
        assert np.array_equal(one["masks"]["reaction"], ~off)


def test_a_part_of_a_split(screen):
    dataset = lacuna.Dataset(screen.path, "half", "test", masks=False)
    assert [one["sample"] for one in dataset] == screen.split("half").test.tolist()
    assert dataset[0]["masks"] == {}
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    with pytest.raises(ValueError, match="split"):
        screen.dataset(part="test")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_gives_the_loaders_batches(screen, workers):
    dataset = screen.dataset("half", "validation")
    theirs = torch.utils.data.DataLoader(
        dataset, batch_size=7, collate_fn=lacuna.collate, num_workers=workers,
        multiprocessing_context="spawn" if workers else None,
    )  # fmt: skip
    ours = lacuna.Loader(screen, batch=7, split="half", part="validation", rung="worker")
    count = 0
    for a, b in zip(theirs, ours, strict=True):
        for name in ("sample", "removed", "ptr", "label"):
            assert a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]), name
        assert a["masks"].keys() == b["masks"].keys()
        assert all(torch.equal(a["masks"][name], b["masks"][name]) for name in a["masks"])
        count += len(a["columns"]["query_pair"])
    assert count == len(dataset)
