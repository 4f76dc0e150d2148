"""Databases in directories of their own, and data with a known truth."""

import numpy as np
import pytest

import ramlet


@pytest.fixture
def db(tmp_path):
    with ramlet.open(tmp_path / "data", memory="64MB") as opened:
        yield opened


@pytest.fixture
def rng():
    return np.random.default_rng(20)
