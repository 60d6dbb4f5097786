"""Screens and runs that several test files read: made once. A test that changes one takes a copy."""

import random

import pytest
from program import new_screen
from seeds import seed_of
from train_files import make_tables, train_all


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Holds a tiny screen, `screen`, and one from tables, `tables`; runs are made in it, too."""
    folder = tmp_path_factory.mktemp("train")
    new_screen(folder / "screen")
    make_tables(folder, "tables")
    return folder


@pytest.fixture(scope="session")
def references(folder):
    return train_all(folder, reference=dict(tensorboard=True), long=dict(tensorboard=True, train__epochs=16))


@pytest.fixture(scope="session")
def reference(references):
    """A small run that was never interrupted."""
    return references[0]


@pytest.fixture(scope="session")
def long_reference(references):
    """Never interrupted; long enough that one like it can be stopped on the way, even on a slow machine."""
    return references[1]


@pytest.fixture
def seed(request):
    """Printed by pytest when a test fails."""
    chosen = seed_of(request.node.name)
    random.seed(chosen)
    return chosen
