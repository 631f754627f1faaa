"""Local clusters for the tests of local clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gantrymq.testing import LocalCluster


@pytest.fixture
def virtual() -> Iterator[LocalCluster]:
    with LocalCluster(virtual_time=True, patience=60) as cluster:
        yield cluster


@pytest.fixture(params=[False, True], ids=["real time", "virtual time"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(virtual_time=request.param, patience=60) as cluster:
        yield cluster
