"""The pytest plugin: the fixture ``gantry`` is an empty local cluster for each test. See docs/testing.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gantrymq.testing.local.cluster import LocalCluster

MARKER = (
    "gantry(virtual_time=False, name_servers=None, broker=None, patience=10.0): how the local cluster of the fixture "
    "`gantry` is made; see gantrymq.testing.LocalCluster"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "gantry_virtual_time", "Let the clusters of the fixture `gantry` have virtual time.", type="bool", default=False
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def gantry(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """An empty local cluster: a broker and a name server in this process, for code that uses gantrymq as it is."""
    # Here and not above: a test run that needs no cluster loads none.
    from gantrymq.testing.local.cluster import LocalCluster

    options = {"virtual_time": request.config.getini("gantry_virtual_time")}
    for marker in reversed(list(request.node.iter_markers("gantry"))):  # the closest one has the last word
        options |= marker.kwargs
    with LocalCluster(**options) as cluster:
        try:
            yield cluster
        finally:
            if (django := sys.modules.get("gantrymq.django")) is not None:
                django.close()  # its producers belong to the process, and nobody else closes them
