"""The ``gantry`` commands on Apache's servers and on ours: the tests of ``tests/cli/stories.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import scenarios
from tests.cli.tool import Tool
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster

VERSIONS = {"": "GantryMQ", "4.9.7": "V4_9_7", "5.5.0": "V5_5_0"}
"""How brokers name their version."""
LIMIT = "transactionCheckMax"


@pytest.fixture(scope="module", params=["gantry", "apache_4", "apache_5"])
def server(request: pytest.FixtureRequest) -> ApacheCluster | GantryCluster:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, ApacheCluster | GantryCluster)
    return found


@pytest.fixture
def tool(server: ApacheCluster | GantryCluster, tmp_path: Path) -> Tool:
    return Tool(server.name_servers, tmp_path / "audit.jsonl")


@pytest.mark.feature("topic")
def test_topics(tool: Tool, server: ApacheCluster | GantryCluster) -> None:
    scenarios.topics(tool, typed=not server.version.startswith("4"))


@pytest.mark.feature("topic")
def test_shrinking_a_topic(tool: Tool) -> None:
    scenarios.shrinking(tool)


@pytest.mark.feature("message")
def test_messages(tool: Tool) -> None:
    scenarios.messages(tool)


@pytest.mark.feature("group")
def test_groups(tool: Tool) -> None:
    scenarios.groups(tool)


@pytest.mark.feature("consumer")
def test_consumers(tool: Tool) -> None:
    scenarios.consumers(tool)


@pytest.mark.feature("consumer")
def test_resets(tool: Tool, server: ApacheCluster | GantryCluster) -> None:
    scenarios.resets(tool, reported_offsets=not server.version.startswith("4"))


@pytest.mark.feature("cluster")
def test_cluster(tool: Tool, server: ApacheCluster | GantryCluster) -> None:
    scenarios.cluster(tool, VERSIONS[server.version])


@pytest.mark.feature("transactions")
def test_transactions(tool: Tool) -> None:
    scenarios.transactions(tool)


@pytest.fixture
def parks_soon(tool: Tool) -> Iterator[None]:
    """A half is parked after its second UNKNOWN; the default of 15 of them takes most of a minute."""

    def set_limit(checks: str) -> None:
        tool.json("cluster", "config", "set", f"{LIMIT}={checks}", "--broker", "broker-a", "--yes")

    before = tool.json("cluster", "config", "show", "--key", LIMIT)["broker-a"][LIMIT]
    set_limit("2")
    yield
    set_limit(before)


@pytest.mark.feature("transactions")
@pytest.mark.usefixtures("parks_soon")
def test_parked_transactions(tool: Tool) -> None:
    scenarios.parked(tool)
